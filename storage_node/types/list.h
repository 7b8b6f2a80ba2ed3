// Lists: kData position (8 bytes, big endian) -> element, dense in [head, tail). The first position
// of a new list is in the middle of the number space, so both ends can grow for ever. Reads of
// ranges see stored elements only; a command reads before it writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage_node/types/collection.h"

namespace sf {

enum class ListEnd { kLeft, kRight };

void list_push(Collection& list, ListEnd end, std::string_view element);
std::optional<std::string> list_pop(Collection& list, ListEnd end);

// Redis's index rules: negative counts from the end. nullopt: out of range.
std::optional<std::string> list_at(Collection& list, int64_t index);
bool list_set(Collection& list, int64_t index, std::string_view element);

// start and stop (inclusive) after Redis's clipping, or nullopt if nothing is left.
struct IndexRange {
  uint64_t first;
  uint64_t last;
};
std::optional<IndexRange> clip_range(uint64_t size, int64_t start, int64_t stop);

// Elements of the clipped range in order, given to `take`.
template <class Take>
void list_range(Collection& list, IndexRange range, Take take);

void list_trim(Collection& list, int64_t start, int64_t stop);
// Removes up to |count| equal elements (0: all), from the right if negative. Returns how many.
uint64_t list_remove(Collection& list, int64_t count, std::string_view element);
// Size after it; -1 if the pivot is not there.
int64_t list_insert(Collection& list, bool before, std::string_view pivot,
                    std::string_view element);

struct PosQuery {
  int64_t rank = 1;               // not 0; negative: from the right
  std::optional<uint64_t> count;  // 0: all; nullopt: the first
  uint64_t max_compared = 0;      // 0: no limit
};
std::vector<int64_t> list_positions(Collection& list, std::string_view element,
                                    const PosQuery& query);

std::string list_position_key(uint64_t position);

template <class Take>
void list_range(Collection& list, IndexRange range, Take take) {
  Cursor at = list.scan(Cf::kData, list_position_key(list.head() + range.first),
                        list_position_key(list.head() + range.last + 1));
  for (; at.valid(); at.next()) take(at.value());
}

}  // namespace sf
