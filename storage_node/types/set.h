// Sets: kData member -> "".
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "storage_node/types/collection.h"

namespace sf {

bool set_add(Collection& set, std::string_view member);     // true if it is new
bool set_remove(Collection& set, std::string_view member);  // true if it was there

std::vector<std::string> set_members(Collection& set);

// Set algebra in member order where it comes from one set; absent sets are empty.
using Sets = std::vector<Collection*>;
std::vector<std::string> set_intersection(Sets sets,
                                          uint64_t limit = std::numeric_limits<uint64_t>::max());
std::vector<std::string> set_union(const Sets& sets);
std::vector<std::string> set_difference(const Sets& sets);  // the first without the others

}  // namespace sf
