#include "storage_node/types/hash.h"

#include <cmath>

#include "common/base/strings.h"
#include "storage_node/types/number.h"

namespace sf {

bool hash_set(Collection& hash, std::string_view field, std::string_view value) {
  bool added = !hash.has(field);
  hash.put(field, value);
  if (added) hash.grow(1);
  return added;
}

bool hash_remove(Collection& hash, std::string_view field) {
  if (!hash.has(field)) return false;
  hash.erase(field);
  hash.grow(-1);
  return true;
}

int64_t hash_increment(Collection& hash, std::string_view field, int64_t by) {
  auto before = hash.get(field);
  auto value = before ? parse_int64(*before) : 0;
  if (!value) {
    hash.keys().fail("ERR hash value is not an integer");
    return 0;
  }
  int64_t after = 0;
  if (__builtin_add_overflow(*value, by, &after)) {
    hash.keys().fail("ERR increment or decrement would overflow");
    return 0;
  }
  hash.put(field, std::to_string(after));
  if (!before) hash.grow(1);
  return after;
}

std::string hash_increment_float(Collection& hash, std::string_view field, long double by) {
  auto before = hash.get(field);
  auto value = before ? parse_long_double(*before) : 0.0L;
  if (!value) {
    hash.keys().fail("ERR hash value is not a float");
    return {};
  }
  long double after = *value + by;
  if (std::isnan(after) || std::isinf(after)) {
    hash.keys().fail("ERR increment would produce NaN or Infinity");
    return {};
  }
  std::string text = format_long_double(after);
  hash.put(field, text);
  if (!before) hash.grow(1);
  return text;
}

}  // namespace sf
