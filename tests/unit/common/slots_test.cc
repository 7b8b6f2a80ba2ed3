#include <doctest/doctest.h>

#include "common/slots/slot_hash.h"
#include "common/slots/slot_set.h"

using namespace sf;

TEST_CASE("slot hash: vectors of contracts/codis 3.1") {
  CHECK(slot_of("") == 0);
  CHECK(slot_of("a") == 579);
  CHECK(slot_of("user:1000") == 995);
  CHECK(slot_of("{user1000}.following") == 870);
  CHECK(slot_of("foo{}bar") == 0);
  CHECK(slot_of("}a{b}c") == 1017);
  CHECK(slot_of("foo{{bar}}zap") == 313);
  CHECK(slot_of(std::string_view("\x00", 1)) == 909);
}

TEST_CASE("slot set: text both ways") {
  for (const char* text : {"0", "1023", "901-1023", "1,5-9,1000-1023", "0-1023"}) {
    const auto set = SlotSet::parse(text);
    REQUIRE(set.is_ok());
    CHECK(set->text() == text);
  }
  CHECK(SlotSet::parse("5-6,7")->text() == "5-7");
  CHECK(SlotSet::parse("all")->size() == 1024);
}

TEST_CASE("M24: bad slot ranges are refused with a sentence") {
  for (const char* text :
       {"", "1024", "0-1024", "5-3", "a-b", "1,1", "1-5,3", "-1", "1-", "-", "1,,2", " 1", "1 ", "01"}) {
    const auto set = SlotSet::parse(text);
    CAPTURE(text);
    CHECK_FALSE(set.is_ok());
    CHECK(set.status().text().size() > 10);
  }
}
