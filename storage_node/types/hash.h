// Hashes: kData field -> value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "storage_node/types/collection.h"

namespace sf {

// True if the field is new.
bool hash_set(Collection& hash, std::string_view field, std::string_view value);
bool hash_remove(Collection& hash, std::string_view field);  // true if it was there

// The new value; fails the command on a value that is no number or a result out of range.
int64_t hash_increment(Collection& hash, std::string_view field, int64_t by);
std::string hash_increment_float(Collection& hash, std::string_view field, long double by);

}  // namespace sf
