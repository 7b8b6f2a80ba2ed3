// SCAN, SLOTSSCAN, KEYS, RANDOMKEY: walking user keys in stored order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "storage_node/command/arg_reader.h"
#include "storage_node/command/command.h"
#include "storage_node/types/meta.h"

namespace sf {

// Live keys with begin <= stored meta key < end, in order, of slots this client may read. `visit`
// returns false to stop. Looks at `budget` stored metas at most; returns the stored key it stopped
// before, "" at the end.
Result<std::string> walk_keys(
    CommandContext& ctx, std::string_view begin, std::string_view end, int64_t budget,
    const std::function<bool(std::string_view user_key, const MetaFields& meta)>& visit);

struct ScanOptions {
  std::string_view pattern = "*";
  std::optional<std::string> type;  // lower case
  int64_t count = 10;
};

// [MATCH pattern] [COUNT n] [TYPE name], to the end of the arguments.
void read_scan_options(ArgReader& args, bool with_type, ScanOptions* options);

// One call of SCAN or SLOTSSCAN over [begin, end): replies [cursor, keys]. `scope` names the walk.
void reply_scan(CommandContext& ctx, std::string scope, std::string_view begin,
                std::string_view end, uint64_t cursor, const ScanOptions& options);

}  // namespace sf
