#include "storage_node/types/set.h"

#include <algorithm>

namespace sf {

bool set_add(Collection& set, std::string_view member) {
  if (set.has(member)) return false;
  set.put(member, {});
  set.grow(1);
  return true;
}

bool set_remove(Collection& set, std::string_view member) {
  if (!set.has(member)) return false;
  set.erase(member);
  set.grow(-1);
  return true;
}

std::vector<std::string> set_members(Collection& set) {
  std::vector<std::string> members;
  for (Cursor at = set.scan(); at.valid(); at.next()) members.emplace_back(at.suffix());
  return members;
}

std::vector<std::string> set_intersection(Sets sets, uint64_t limit) {
  std::vector<std::string> result;
  std::sort(sets.begin(), sets.end(),
            [](const Collection* a, const Collection* b) { return a->size() < b->size(); });
  for (Cursor at = sets[0]->scan(); at.valid() && result.size() < limit; at.next()) {
    bool everywhere = std::all_of(sets.begin() + 1, sets.end(),
                                  [&](Collection* set) { return set->has(at.suffix()); });
    if (everywhere) result.emplace_back(at.suffix());
  }
  return result;
}

std::vector<std::string> set_union(const Sets& sets) {
  std::vector<std::string> result;
  for (Collection* set : sets) {
    for (Cursor at = set->scan(); at.valid(); at.next()) result.emplace_back(at.suffix());
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<std::string> set_difference(const Sets& sets) {
  std::vector<std::string> result;
  for (Cursor at = sets[0]->scan(); at.valid(); at.next()) {
    bool elsewhere = std::any_of(sets.begin() + 1, sets.end(),
                                 [&](Collection* set) { return set->has(at.suffix()); });
    if (!elsewhere) result.emplace_back(at.suffix());
  }
  return result;
}

}  // namespace sf
