#include "storage_node/types/number.h"

#include <doctest/doctest.h>

#include <cmath>

namespace sf {

TEST_CASE("doubles are read by Redis's rules") {
  CHECK(parse_double("1.5") == 1.5);
  CHECK(parse_double("0x10") == 16.0);
  CHECK(parse_double("-inf") == -INFINITY);
  for (const char* bad : {"", " 1", "1 ", "nan", "abc", "1e400", "1e-400"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_double(bad).has_value());
  }
  CHECK_FALSE(parse_double(std::string_view("1\0", 2)).has_value());
  CHECK(parse_score_end("") == 0.0);
  CHECK(parse_score_end(" 1") == 1.0);
  CHECK(parse_score_end("1e400") == INFINITY);
  CHECK_FALSE(parse_score_end("nan").has_value());
}

TEST_CASE("C06 long doubles keep their short form") {
  CHECK(format_long_double(10.5L) == "10.5");
  CHECK(format_long_double(5000) == "5000");
  CHECK(format_long_double(0.1L + 0.2L) == "0.3");
  CHECK(format_long_double(-0.0L) == "0");
  CHECK(format_long_double(1e-18L) == "0");
}

}  // namespace sf
