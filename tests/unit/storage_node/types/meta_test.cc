// The stored form of metas: golden bytes, so that a change of format is a decision.
#include "storage_node/types/meta.h"

#include <doctest/doctest.h>

namespace sf {

TEST_CASE("a string's meta is its header and the value") {
  std::string stored = encode_string_meta(std::string_view("v\0", 2), 0x0102);
  CHECK(stored == std::string("\x01\x00\x00\x00\x00\x00\x00\x00\x01\x02v\x00", 12));
  MetaFields fields;
  REQUIRE(decode_meta(stored, &fields));
  CHECK(fields.expire_ms == 0x0102);
  CHECK(string_value(stored) == std::string_view("v\0", 2));
  CHECK(with_expire(stored, 0) == encode_string_meta(std::string_view("v\0", 2), 0));
}

TEST_CASE("a list's meta is type, flags, expiry, version, size, head, tail") {
  MetaFields list{.type = KeyType::kList, .version = 7, .size = 2, .head = 16, .tail = 18};
  std::string stored = encode_meta(list);
  CHECK(stored.size() == 42);
  CHECK(stored[0] == 3);
  CHECK(stored[17] == 7);
  CHECK(stored[25] == 2);
  CHECK(stored[33] == 16);
  CHECK(stored[41] == 18);
  MetaFields fields;
  REQUIRE(decode_meta(stored, &fields));
  CHECK(fields.version == 7);
  CHECK(fields.tail == 18);
}

TEST_CASE("bytes that are no meta are refused") {
  MetaFields fields;
  CHECK_FALSE(decode_meta("", &fields));
  CHECK_FALSE(decode_meta(std::string(10, '\0'), &fields));
  CHECK_FALSE(decode_meta(std::string(26, '\x09'), &fields));
  std::string hash = encode_meta({.type = KeyType::kHash, .version = 1, .size = 1});
  CHECK(hash.size() == 26);
  CHECK(decode_meta(hash, &fields));
  CHECK_FALSE(decode_meta(hash.substr(0, 25), &fields));
}

}  // namespace sf
