// ZUNION, ZINTER, ZDIFF over sorted sets and sets (whose members count with score 1).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "storage_node/types/zset.h"

namespace sf {

enum class Aggregate { kSum, kMin, kMax };

struct ZsetSource {
  Collection* entries = nullptr;  // kSet or kZset, may be absent
  double weight = 1;
};

// Results by score, then member. Sums of opposite infinities are 0, as in Redis; sources are
// combined in order of their sizes, which decides rounding.
ScoredMembers zset_union(std::vector<ZsetSource> sources, Aggregate aggregate);
ScoredMembers zset_intersection(std::vector<ZsetSource> sources, Aggregate aggregate);
ScoredMembers zset_difference(const std::vector<ZsetSource>& sources);
uint64_t zset_intersection_size(std::vector<ZsetSource> sources, uint64_t limit);  // 0: no limit

// Makes `target` (just replaced) hold exactly these.
void zset_store(Collection& target, const ScoredMembers& members);

}  // namespace sf
