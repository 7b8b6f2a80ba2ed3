// HRANDFIELD, SRANDMEMBER, ZRANDMEMBER: one entry, or `count` of them (negative: with repetition).
#pragma once

#include <functional>
#include <string_view>

#include "storage_node/command/run.h"
#include "storage_node/types/sampling.h"

namespace sf {

// `<NAME> key [count [<value_word>]]`; an empty value_word allows no such option. `append` writes
// one entry; `with_value` says whether value_word was given.
void reply_random(CommandContext& ctx, KeyType type, std::string_view value_word,
                  const std::function<void(ArrayReply&, const Entry&, bool with_value)>& append);

}  // namespace sf
