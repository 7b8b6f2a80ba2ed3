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

// Elements at the indexes [first, last_plus_one).
std::vector<std::string> load(Collection& list, uint64_t first, uint64_t last_plus_one) {
  std::vector<std::string> elements;
  if (first >= last_plus_one) return elements;
  elements.reserve(last_plus_one - first);
  list_range(list, {first, last_plus_one - 1},
             [&](std::string_view element) { elements.emplace_back(element); });
  return elements;
}

void put_run(Collection& list, uint64_t position, const std::vector<std::string>& elements) {
  for (const auto& element : elements) list.put(list_position_key(position++), element);
}

void erase_run(Collection& list, uint64_t position, uint64_t end) {
  for (; position < end; ++position) list.erase(list_position_key(position));
}

// Drops what is at the indexes `hits` (ascending) of a run that begins at index `first`.
void drop(std::vector<std::string>& run, uint64_t first, const std::vector<int64_t>& hits) {
  size_t kept = 0;
  size_t hit = 0;
  for (size_t i = 0; i < run.size(); ++i) {
    if (hit < hits.size() && static_cast<uint64_t>(hits[hit]) == first + i) {
      ++hit;
    } else {
      if (kept != i) run[kept] = std::move(run[i]);
      ++kept;
    }
  }
  run.resize(kept);
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
  if (!list.exists()) return 0;
  uint64_t wanted = count < 0 ? 0 - static_cast<uint64_t>(count) : static_cast<uint64_t>(count);
  auto hits = list_positions(list, element, {.rank = count < 0 ? -1 : 1, .count = wanted});
  if (hits.empty()) return 0;
  std::sort(hits.begin(), hits.end());
  uint64_t first = static_cast<uint64_t>(hits.front());
  uint64_t behind = static_cast<uint64_t>(hits.back()) + 1;
  uint64_t head = list.head();
  uint64_t tail = list.tail();
  // The shorter side moves into the gaps.
  if (list.size() - first <= behind) {
    auto run = load(list, first, list.size());
    drop(run, first, hits);
    put_run(list, head + first, run);
    erase_run(list, tail - hits.size(), tail);
    list.set_ends(head, tail - hits.size());
  } else {
    auto run = load(list, 0, behind);
    drop(run, 0, hits);
    put_run(list, head + hits.size(), run);
    erase_run(list, head, head + hits.size());
    list.set_ends(head + hits.size(), tail);
  }
  return hits.size();
}

int64_t list_insert(Collection& list, bool before, std::string_view pivot,
                    std::string_view element) {
  auto found = list_positions(list, pivot, {});
  if (found.empty()) return -1;
  uint64_t at = static_cast<uint64_t>(found[0]) + (before ? 0 : 1);
  uint64_t head = list.head();
  uint64_t tail = list.tail();
  if (at <= list.size() / 2) {
    put_run(list, --head, load(list, 0, at));
  } else {
    put_run(list, head + at + 1, load(list, at, list.size()));
    ++tail;
  }
  list.put(list_position_key(head + at), element);
  list.set_ends(head, tail);
  return static_cast<int64_t>(list.size());
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
