// What the data plane does with reads beside sending them to the owner, and what it keeps from the
// servers; set by the plan or by SHIM READS and SHIM GUARD (DESIGN I6, 6.5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sf {

enum class ReadPolicy : uint8_t {
  kOwner,       // a read goes to its slot's owner (I6)
  kNewThenOld,  // new side first, old one on a miss: stale and resurrected values, by request only
  kCompare,     // as kOwner; a share of reads goes to the other side too, for counting differences
};

// Which commands are known to end or corrupt the servers behind.
enum class Guard : uint8_t {
  kOff,
  kPika35,  // Pika 3.5: PFADD, PFCOUNT, PFMERGE; GETRANGE, SETRANGE with huge offsets
};

struct DataRules {
  ReadPolicy reads = ReadPolicy::kOwner;
  int compare_percent = 1;  // 1..100
  Guard guard = Guard::kOff;
  bool operator==(const DataRules&) const = default;
};

const char* policy_name(ReadPolicy policy);  // "owner", "new-then-old", "compare"
const char* guard_name(Guard guard);         // "off", "pika-3.5"
std::optional<ReadPolicy> parse_policy(std::string_view text);
std::optional<Guard> parse_guard(std::string_view text);

struct ReadCheckCounts {
  int64_t compared = 0;   // both sides answered
  int64_t different = 0;  // and still differed half a second later
  int64_t late = 0;       // and were equal half a second later
  int64_t skipped = 0;    // not compared: too large, too many at once, an error, a connection lost
  int64_t fallbacks = 0;  // new-then-old: asked the old side after a miss
};

// Differences of each slot that has some.
using SlotDifferences = std::vector<std::pair<int, int64_t>>;

}  // namespace sf
