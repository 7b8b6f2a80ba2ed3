// HSCAN, SSCAN, ZSCAN: what they share. Their cursor numbers: engine/scan_cursors.h.
#pragma once

#include <functional>

#include "storage_node/command/run.h"

namespace sf {

// Runs `<NAME> key cursor [MATCH pattern] [COUNT n]` on a key of that type; `append(reply, field,
// value)` gives one entry's elements.
void scan_collection(
    CommandContext& ctx, KeyType type,
    const std::function<void(ArrayReply&, std::string_view, std::string_view)>& append);

}  // namespace sf
