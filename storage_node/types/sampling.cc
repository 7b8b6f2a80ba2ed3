#include "storage_node/types/sampling.h"

#include <rocksdb/perf_context.h>

#include <algorithm>
#include <numeric>
#include <unordered_set>

namespace sf {

namespace {

std::vector<Entry> all_entries(Collection& collection) {
  std::vector<Entry> entries;
  for (Cursor at = collection.scan(); at.valid(); at.next()) {
    entries.push_back({std::string(at.suffix()), std::string(at.value())});
  }
  return entries;
}

void shuffle(std::vector<Entry>& entries, Random& random) {
  for (size_t i = entries.size(); i > 1; --i) std::swap(entries[i - 1], entries[random.below(i)]);
}

// First or last stored entry whose field begins with `prefix`.
std::optional<Entry> edge(Collection& collection, std::string_view prefix, KeyTxn::From from) {
  std::string end = std::string(prefix);
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  std::optional<std::string_view> bound;
  if (!end.empty()) {
    end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
    bound = end;
  }
  Cursor at = collection.scan(Cf::kData, prefix, bound, from);
  if (!at.valid()) return std::nullopt;
  return Entry{std::string(at.suffix()), std::string(at.value())};
}

size_t common_prefix(std::string_view a, std::string_view b) {
  auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(x - a.begin());
}

Entry descend(Collection& collection, Random& random) {
  std::string prefix;
  while (true) {
    auto first = edge(collection, prefix, KeyTxn::From::kFirst);
    auto last = edge(collection, prefix, KeyTxn::From::kLast);
    if (!first || !last) return {};  // a read failed: the command fails
    if (first->field == last->field) return *first;
    size_t depth = common_prefix(first->field, last->field);
    // The first entry may end here: it is one more choice beside the bytes that follow.
    if (first->field.size() == depth && random.below(8) == 0) return *first;
    int low = first->field.size() == depth ? 0 : static_cast<unsigned char>(first->field[depth]);
    int high = static_cast<unsigned char>(last->field[depth]);
    std::string target = first->field.substr(0, depth);
    target.push_back(static_cast<char>(
        low + static_cast<int>(random.below(static_cast<uint64_t>(high - low + 1)))));
    Cursor at = collection.scan(Cf::kData, target);
    if (!at.valid()) return {};
    prefix = std::string(at.suffix().substr(0, depth + 1));
  }
}

std::vector<Entry> pick_from_all(Collection& collection, uint64_t count, Random& random) {
  std::vector<Entry> entries = all_entries(collection);
  shuffle(entries, random);
  if (entries.size() > count) entries.resize(count);
  return entries;
}

}  // namespace

std::vector<Entry> sample_distinct(Collection& collection, uint64_t count, Random& random) {
  if (!collection.exists() || count == 0) return {};
  if (collection.size() <= kUniformSampleSize || count > collection.size() / 16) {
    return pick_from_all(collection, count, random);
  }
  std::vector<Entry> entries;
  std::unordered_set<std::string> seen;
  // Draws may repeat; a name hard to reach by descent must not make this endless.
  for (uint64_t tries = 0; entries.size() < count && tries < 4 * count + 64; ++tries) {
    Entry entry = descend(collection, random);
    if (!collection.keys().ok()) return {};
    if (seen.insert(entry.field).second) entries.push_back(std::move(entry));
  }
  if (entries.size() < count) return pick_from_all(collection, count, random);
  return entries;
}

void sample_repeated(Collection& collection, uint64_t count, Random& random,
                     const std::function<void(const Entry&)>& take) {
  if (!collection.exists() || count == 0) return;
  if (collection.size() <= kUniformSampleSize || count > collection.size() / 16) {
    std::vector<Entry> entries = all_entries(collection);
    if (entries.empty()) return;
    for (uint64_t i = 0; i < count && collection.keys().ok(); ++i) {
      take(entries[random.below(entries.size())]);
    }
    return;
  }
  for (uint64_t i = 0; i < count && collection.keys().ok(); ++i) take(descend(collection, random));
}

std::vector<Entry> pop_random(Collection& set, uint64_t count, Random& random) {
  constexpr uint64_t kManySkipped = 4096;   // deleted entries walked over by one draw
  constexpr uint64_t kMostPutAnew = 32768;  // bounds the batch
  uint64_t skipped_before = rocksdb::get_perf_context()->internal_delete_skipped_count;
  std::vector<Entry> drawn = sample_distinct(set, count, random);
  uint64_t skipped = rocksdb::get_perf_context()->internal_delete_skipped_count - skipped_before;
  uint64_t left = set.size() - drawn.size();
  if (left == 0) {
    set.clear();
  } else if (skipped > std::max(kManySkipped, left) && left <= kMostPutAnew) {
    std::unordered_set<std::string_view> gone;
    for (const Entry& entry : drawn) gone.insert(entry.field);
    std::vector<Entry> all = all_entries(set);
    set.begin_version();
    for (const Entry& entry : all) {
      if (!gone.contains(entry.field)) set.put(entry.field, entry.value);
    }
    set.grow(static_cast<int64_t>(left));
  } else {
    for (const Entry& entry : drawn) set.erase(entry.field);
    set.grow(-static_cast<int64_t>(drawn.size()));
  }
  return drawn;
}

}  // namespace sf
