#include "storage_node/engine/key_format.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using namespace sf;

TEST_CASE("key format: a stored key says its db, slot and user key") {
  int db = 0;
  int slot = 0;
  std::string_view key;
  const std::string binary("a\0\xff{b}", 6);
  for (const std::string& user : {std::string(), std::string("user:1000"), binary}) {
    const std::string stored = meta_key(3, user);
    REQUIRE(parse_meta_key(stored, &db, &slot, &key));
    CHECK(db == 3);
    CHECK(slot == slot_of(user));
    CHECK(key == user);
    uint64_t version = 0;
    std::string_view rest;
    const std::string data = data_prefix(3, user, 77) + "field";
    REQUIRE(parse_data_key(data, &db, &slot, &key, &version, &rest));
    CHECK(db == 3);
    CHECK(key == user);
    CHECK(version == 77);
    CHECK(rest == "field");
    CHECK(data.substr(0, kPrefixBytes) == slot_prefix(3, slot));
  }
  CHECK_FALSE(parse_meta_key("ab", &db, &slot, &key));
}

TEST_CASE("key format: a slot is one range and ends where the next begins") {
  CHECK(prefix_end(slot_prefix(0, 905)) == slot_prefix(0, 906));
  const std::string after_255 = prefix_end(slot_prefix(0, 255));
  CHECK((slot_prefix(0, 255) + std::string(40, '\xff') < after_255));
  CHECK((after_255 <= slot_prefix(0, 256)));
  CHECK(prefix_end(std::string("\x01\xff\xff", 3)) == std::string("\x02"));
  CHECK(slot_prefix(0, 1023) < slot_prefix(1, 0));
}

TEST_CASE("key format: scores sort as numbers do and come back") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> rising = {-inf, -1e300, -2.5, -1e-300, 0, 1e-300, 1, 1.5, 1e300, inf};
  for (size_t i = 0; i < rising.size(); ++i) {
    CHECK(score_of(sortable_score(rising[i])) == rising[i]);
    if (i > 0) CHECK(sortable_score(rising[i - 1]) < sortable_score(rising[i]));
  }
  CHECK(sortable_score(-0.0) == sortable_score(0.0));
  CHECK_FALSE(std::signbit(score_of(sortable_score(-0.0))));
}
