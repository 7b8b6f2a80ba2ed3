// The decimal number lines of RESP headers ("*3", "$11", ":-1"), read in place.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "common/base/strings.h"

namespace sf::resp {

// The common case in one pass: 1..9 digits without a leading zero (or just "0") followed by CRLF at
// data[at]. Returns false, changing nothing, if the line is anything else or not complete yet; the
// careful path decides then.
inline bool read_small_number(std::string_view data, size_t at, long long* value, size_t* next) {
  const char* const begin = data.data() + at;
  const char* const end = data.data() + data.size();
  const char* p = begin;
  long long n = 0;
  while (p != end && p - begin < 9 && *p >= '0' && *p <= '9') n = n * 10 + (*p++ - '0');
  if (p == begin || end - p < 2 || p[0] != '\r' || p[1] != '\n') return false;
  if (*begin == '0' && p - begin > 1) return false;
  *value = n;
  *next = static_cast<size_t>(p + 2 - data.data());
  return true;
}

}  // namespace sf::resp
