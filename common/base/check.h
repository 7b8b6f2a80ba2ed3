// A broken invariant ends the process: going on could lose a write. Errors of peers and of the
// environment are never checked this way; they are Status values.
#pragma once

namespace sf {
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}  // namespace sf

#define SF_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::sf::check_failed(#expression, __FILE__, __LINE__))
