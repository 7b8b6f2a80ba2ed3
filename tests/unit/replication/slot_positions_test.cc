#include "replication/slot_positions.h"

#include <doctest/doctest.h>

namespace sf {
namespace {

const std::string kA(40, 'a');
const std::string kB(40, 'b');

TEST_CASE("positions: a slot joins the stream when both meet (copyjoin model)") {
  SlotPositions p;
  p.follow(5, Position{kA, 10});
  p.follow(6, std::nullopt);
  p.accept(kA, SlotSet::of(5), SlotSet::of(6));
  CHECK_FALSE(p.lowest());
  p.set_copied(6, {kA, 14});
  REQUIRE(p.lowest() == 10);
  p.begin_stream(10);
  CHECK_FALSE(p.wants(5, 10));
  CHECK(p.wants(5, 11));
  CHECK_FALSE(p.wants(6, 14));
  CHECK(p.wants(6, 15));
  CHECK(p.advance(12).empty());
  CHECK(p.position(6) == Position{kA, 14});
  CHECK(p.position(5) == Position{kA, 12});
  CHECK(p.advance(14) == SlotSet::of(6));
  CHECK(p.position(6) == Position{kA, 14});
  p.advance(20);
  p.end_session();
  CHECK(p.position(6) == Position{kA, 20});
  CHECK(p.groups().size() == 1);
}

TEST_CASE("positions: a slot taken back at an older position brings the stream back to it") {
  SlotPositions p;
  p.follow(1, Position{kA, 10});
  p.follow(2, Position{kA, 10});
  p.accept(kA, p.slots(), {});
  p.begin_stream(10);
  p.advance(50);
  p.end_session();
  p.drop(SlotSet::of(2));
  CHECK_FALSE(p.position(2));
  p.follow(2, Position{kA, 30});
  REQUIRE(p.groups().size() == 2);
  p.accept(kB, p.slots(), {});
  REQUIRE(p.lowest() == 30);
  p.begin_stream(30);
  CHECK_FALSE(p.wants(1, 50));
  CHECK(p.wants(2, 31));
  p.advance(50);
  CHECK(p.position(1) == Position{kB, 50});
  CHECK(p.position(2) == Position{kB, 50});
}

TEST_CASE("positions: a slot without a copy is never in sync and takes nothing") {
  SlotPositions p;
  p.follow(9, std::nullopt);
  CHECK_FALSE(p.position(9));
  CHECK_FALSE(p.wants(9, 1));
  p.set_copied(8, {kA, 3});  // not followed
  CHECK_FALSE(p.position(8));
  CHECK(p.without_position() == SlotSet::of(9));
}

}  // namespace
}  // namespace sf
