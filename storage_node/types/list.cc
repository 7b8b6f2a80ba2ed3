#include "storage_node/types/list.h"

#include <algorithm>

#include "common/base/coding.h"

namespace sf {

namespace {

constexpr uint64_t kFirstPosition = 1ULL << 63;

std::optional<uint64_t> position_of(const Collection& list, int64_t index) {
  int64_t size = static_cast<int64_t>(list.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return list.head() + static_cast<uint64_t>(index);
}

std::vector<std::string> load_elements(Collection& list) {
  std::vector<std::string> elements;
  if (!list.exists()) return elements;
  elements.reserve(list.size());
  list_range(list, {0, list.size() - 1},
             [&](std::string_view element) { elements.emplace_back(element); });
  return elements;
}

// Rewrites the shorter side so that `elements` (what the list shall be) starts at the same head or
// ends at the same tail. `same_front` and `same_back` elements at the ends are already in place.
void store_elements(Collection& list, const std::vector<std::string>& elements, size_t same_front,
                    size_t same_back) {
  uint64_t head = list.head();
  uint64_t tail = list.tail();
  size_t size = elements.size();
  if (same_front >= same_back) {
    for (size_t i = same_front; i < size; ++i) {
      list.put(list_position_key(head + i), elements[i]);
    }
    for (uint64_t p = head + size; p < tail; ++p) list.erase(list_position_key(p));
    list.set_ends(head, head + size);
    return;
  }
  for (size_t i = 0; i < size - same_back; ++i) {
    list.put(list_position_key(tail - size + i), elements[i]);
  }
  for (uint64_t p = head; p < tail - size; ++p) list.erase(list_position_key(p));
  list.set_ends(tail - size, tail);
}

}  // namespace

std::string list_position_key(uint64_t position) {
  std::string key;
  put_big64(key, position);
  return key;
}

void list_push(Collection& list, ListEnd end, std::string_view element) {
  if (!list.exists() && list.head() == 0) list.set_ends(kFirstPosition, kFirstPosition);
  uint64_t head = list.head();
  uint64_t tail = list.tail();
  uint64_t position = end == ListEnd::kLeft ? --head : tail++;
  list.put(list_position_key(position), element);
  list.set_ends(head, tail);
}

std::optional<std::string> list_pop(Collection& list, ListEnd end) {
  if (!list.exists()) return std::nullopt;
  uint64_t head = list.head();
  uint64_t tail = list.tail();
  std::string key = list_position_key(end == ListEnd::kLeft ? head++ : --tail);
  auto element = list.get(key);
  if (!element) {
    list.keys().fail(Status::corrupt("an element of the list is missing in storage"));
    return std::nullopt;
  }
  list.erase(key);
  list.set_ends(head, tail);
  return element;
}

std::optional<std::string> list_at(Collection& list, int64_t index) {
  auto position = position_of(list, index);
  if (!position) return std::nullopt;
  return list.get(list_position_key(*position));
}

bool list_set(Collection& list, int64_t index, std::string_view element) {
  auto position = position_of(list, index);
  if (!position) return false;
  list.put(list_position_key(*position), element);
  return true;
}

std::optional<IndexRange> clip_range(uint64_t size, int64_t start, int64_t stop) {
  int64_t length = static_cast<int64_t>(size);
  if (start < 0) start = std::max<int64_t>(start + length, 0);
  if (stop < 0) stop += length;
  if (start > stop || start >= length) return std::nullopt;
  return IndexRange{static_cast<uint64_t>(start),
                    static_cast<uint64_t>(std::min(stop, length - 1))};
}

void list_trim(Collection& list, int64_t start, int64_t stop) {
  if (!list.exists()) return;
  auto range = clip_range(list.size(), start, stop);
  if (!range) return list.clear();
  uint64_t head = list.head() + range->first;
  uint64_t tail = list.head() + range->last + 1;
  for (uint64_t p = list.head(); p < head; ++p) list.erase(list_position_key(p));
  for (uint64_t p = tail; p < list.tail(); ++p) list.erase(list_position_key(p));
  if (list.size() != tail - head) list.set_ends(head, tail);
}

uint64_t list_remove(Collection& list, int64_t count, std::string_view element) {
  std::vector<std::string> before = load_elements(list);
  uint64_t wanted = count == 0  ? before.size()
                    : count < 0 ? 0 - static_cast<uint64_t>(count)
                                : static_cast<uint64_t>(count);
  std::vector<size_t> hits;
  for (size_t i = 0; i < before.size() && hits.size() < wanted; ++i) {
    size_t at = count < 0 ? before.size() - 1 - i : i;
    if (before[at] == element) hits.push_back(at);
  }
  if (hits.empty()) return 0;
  std::sort(hits.begin(), hits.end());
  size_t same_front = hits.front();
  size_t same_back = before.size() - 1 - hits.back();
  std::vector<std::string> after;
  after.reserve(before.size() - hits.size());
  for (size_t i = 0, hit = 0; i < before.size(); ++i) {
    if (hit < hits.size() && hits[hit] == i) {
      ++hit;
    } else {
      after.push_back(std::move(before[i]));
    }
  }
  store_elements(list, after, same_front, same_back);
  return hits.size();
}

int64_t list_insert(Collection& list, bool before, std::string_view pivot,
                    std::string_view element) {
  std::vector<std::string> elements = load_elements(list);
  auto found = std::find(elements.begin(), elements.end(), pivot);
  if (found == elements.end()) return -1;
  if (!before) ++found;
  size_t at = static_cast<size_t>(found - elements.begin());
  size_t same_back = elements.size() - at;
  elements.insert(found, std::string(element));
  store_elements(list, elements, at, same_back);
  return static_cast<int64_t>(elements.size());
}

std::vector<int64_t> list_positions(Collection& list, std::string_view element,
                                    const PosQuery& query) {
  std::vector<int64_t> positions;
  if (!list.exists()) return positions;
  bool reverse = query.rank < 0;
  uint64_t skip =
      (reverse ? 0 - static_cast<uint64_t>(query.rank) : static_cast<uint64_t>(query.rank)) - 1;
  uint64_t wanted = query.count.value_or(1);
  uint64_t index = reverse ? list.size() - 1 : 0;
  uint64_t compared = 0;
  Cursor at = list.scan(Cf::kData, list_position_key(list.head()), list_position_key(list.tail()),
                        reverse ? KeyTxn::From::kLast : KeyTxn::From::kFirst);
  while (at.valid() && (query.max_compared == 0 || compared++ < query.max_compared)) {
    if (at.value() == element) {
      if (skip > 0) {
        --skip;
      } else {
        positions.push_back(static_cast<int64_t>(index));
        if (wanted != 0 && positions.size() >= wanted) break;
      }
    }
    if (reverse) {
      at.prev();
      --index;
    } else {
      at.next();
      ++index;
    }
  }
  return positions;
}

}  // namespace sf
