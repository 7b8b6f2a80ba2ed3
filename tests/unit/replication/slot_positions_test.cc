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

TEST_CASE("positions: a slot taken on behind the stream brings the frames back to it") {
  SlotPositions p;
  p.follow(1, Position{kA, 10});
  p.follow(2, Position{kA, 10});
  p.accept(kA, p.slots(), {});
  p.begin_stream(10);
  p.advance(50);
  p.drop(SlotSet::of(2));
  CHECK_FALSE(p.position(2));
  p.follow(2, Position{kA, 30});
  REQUIRE(p.groups(p.unanswered()).size() == 1);
  CHECK_FALSE(p.wants(2, 31));  // not before the master's answer
  p.advance(55);
  CHECK(p.position(2) == Position{kA, 30});
  p.take_on(SlotSet::of(2), {});
  CHECK(p.rewind());
  CHECK_FALSE(p.rewind());
  CHECK(p.cursor() == 30);
  CHECK_FALSE(p.wants(1, 50));
  CHECK(p.wants(2, 31));
  CHECK(p.moves(40).moved == SlotSet::of(2));
  CHECK(p.advance(40).empty());
  CHECK(p.position(1) == Position{kA, 55});
  CHECK(p.position(2) == Position{kA, 40});
  CHECK(p.advance(60) == SlotSet::of(2));
  CHECK(p.position(1) == Position{kA, 60});
  CHECK(p.position(2) == Position{kA, 60});
}

TEST_CASE("positions: exactly at the stream's position a slot joins") {
  SlotPositions p;
  p.follow(1, Position{kA, 10});
  p.accept(kA, p.slots(), {});
  p.begin_stream(10);
  p.advance(20);
  p.follow(2, Position{kA, 15});
  p.take_on(SlotSet::of(2), {});
  CHECK(p.rewind());
  CHECK(p.moves(20).joined == SlotSet::of(2));
  p.advance(20);
  CHECK_FALSE(p.own(2));
  p.follow(3, std::nullopt);
  p.take_on({}, SlotSet::of(3));
  p.set_copied(3, {kA, 20});
  CHECK_FALSE(p.rewind());
  CHECK(p.own(3) == 20);  // on record until a frame takes it along
  CHECK(p.advance(21) == SlotSet::of(3));
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
