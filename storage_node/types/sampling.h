// Random entries of a collection's kData: SPOP, SRANDMEMBER, HRANDFIELD, ZRANDMEMBER.
//
// Small collections are sampled uniformly in one pass. Large ones would make every draw a pass over
// all entries, so there a draw walks down the sorted names byte by byte, choosing at random among
// the bytes that occur: a few dozen seeks whatever the size, every entry can be drawn, but not all
// equally often.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "storage_node/types/collection.h"

namespace sf {

struct Entry {
  std::string field;
  std::string value;
};

// SPOP: takes `count` different entries out, drawn as by sample_distinct. A set that has been
// popped down to few entries is mostly deleted ones, which every later draw would walk over: it is
// then put anew, under another version, so that compaction can drop them.
std::vector<Entry> pop_random(Collection& set, uint64_t count, Random& random);

inline constexpr uint64_t kUniformSampleSize = 2048;  // entries; up to this every draw is uniform

// `count` different entries in random order, or all if there are not more.
std::vector<Entry> sample_distinct(Collection& collection, uint64_t count, Random& random);
// Calls `take` `count` times, each time with an entry drawn from all; ends early if the command
// fails.
void sample_repeated(Collection& collection, uint64_t count, Random& random,
                     const std::function<void(const Entry&)>& take);

}  // namespace sf
