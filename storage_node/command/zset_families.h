// The sorted set commands are three files; register_zsets (zsets.cc) calls the other two.
#pragma once

#include "storage_node/command/run.h"
#include "storage_node/types/zset.h"

namespace sf {

void register_zset_ranges(CommandRegistry& registry);  // ZRANGE and its kin, ZREMRANGEBY*
void register_zset_algebra(
    CommandRegistry& registry);  // ZUNION, ZINTER, ZDIFF and their STORE forms

inline constexpr std::string_view kNotScoreRange = "ERR min or max is not a float";
inline constexpr std::string_view kNotLexRange = "ERR min or max not valid string range item";

inline void reply_scored(std::string& out, const ScoredMembers& members, bool with_scores) {
  resp::array(out, members.size() * (with_scores ? 2 : 1));
  for (const ScoredMember& one : members) {
    resp::bulk(out, one.member);
    if (with_scores) resp::bulk_double(out, one.score);
  }
}

}  // namespace sf
