#include "common/resp/encoder.h"

#include <doctest/doctest.h>

#include <limits>

using namespace sf;

TEST_CASE("encoder: golden bytes") {
  std::string out;
  resp::status(out, "OK");
  resp::error(out, "ERR two\r\nlines");
  resp::integer(out, -7);
  resp::bulk(out, std::string_view("a\r\n", 3));
  resp::nil(out);
  resp::nil_array(out);
  resp::array(out, 2);
  resp::bulk_int(out, std::numeric_limits<int64_t>::min());
  resp::bulk_double(out, 1.5);
  CHECK(out ==
        "+OK\r\n-ERR two  lines\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n*2\r\n"
        "$20\r\n-9223372036854775808\r\n$3\r\n1.5\r\n");
  CHECK(resp::request({"GET", ""}) == "*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
}

TEST_CASE("C38: doubles are printed as Redis 7.0 prints them") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK(resp::format_double(3) == "3");
  CHECK(resp::format_double(3.1) == "3.1000000000000001");
  CHECK(resp::format_double(1e20) == "1e+20");
  CHECK(resp::format_double(14072108212911281.0) == "14072108212911280");
  CHECK(resp::format_double(346028771779807212.0) == "3.4602877177980723e+17");
  CHECK(resp::format_double(-0.0) == "-0");
  CHECK(resp::format_double(inf) == "inf");
  CHECK(resp::format_double(-inf) == "-inf");
}
