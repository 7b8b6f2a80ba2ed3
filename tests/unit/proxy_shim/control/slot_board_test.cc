#include "proxy_shim/control/slot_board.h"

#include <doctest/doctest.h>

#include "proxy_shim/data/routes.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

TEST_CASE(
    "I6: held on the way there a slot is read at the old side, on the way back at the new one") {
  const MovePlan plan = test_plan();
  SlotBoard board(plan);
  const auto side = [&](int slot) {
    return Routes::side_of(Routes(board.make_table()).flags(slot));
  };
  const SlotSet one = SlotSet::of(901);
  for (const bool back : {false, true}) {
    CAPTURE(back);
    const Side owner = back ? Side::kNew : Side::kOld;
    for (const SlotPhase phase : {SlotPhase::kHold, SlotPhase::kBarrier, SlotPhase::kPromote}) {
      CHECK(board.publish(one, phase, {}, phase, back).is_ok());
      CHECK(side(901) == owner);
      CHECK((Routes(board.make_table()).flags(901) & kRouteHoldWrites) != 0);
      CHECK(board.owner(board.row(901)) == (back ? plan.new_side.master : plan.old_side.master));
      CHECK(side(902) == Side::kOld);
    }
    CHECK(board.publish(one, SlotPhase::kNew).is_ok());
    CHECK(side(901) == Side::kNew);
    CHECK(!board.row(901).back);
    CHECK(board.publish(one, SlotPhase::kOld, {}, SlotPhase::kOld, true).is_ok());
    CHECK(side(901) == Side::kOld);
  }
}

TEST_CASE("forecast: what was seen on the way there says nothing about the way back") {
  SlotBoard board(test_plan());
  const SlotSet one = SlotSet::of(901);
  for (int i = 0; i < 5; ++i) board.set_lag(901, LagSample{i * 1'000'000, 50, 10}, 100);
  CHECK(board.forecast(one).stuck_ms > 0);
  CHECK(board.publish(one, SlotPhase::kHold).is_ok());
  CHECK(board.publish(one, SlotPhase::kOld).is_ok());
  CHECK(board.forecast(one).stuck_ms > 0);  // taken back: still of this direction
  CHECK(board.publish(one, SlotPhase::kNew).is_ok());
  CHECK(board.forecast(one).lag == -1);
  CHECK(board.row(901).steady == 0);
}

TEST_CASE("a slot in FINAL stays there, whatever a late marker or link publishes") {
  SlotBoard board(test_plan());
  const SlotSet one = SlotSet::of(901);
  CHECK(board.publish(SlotSet::range(901, 902), SlotPhase::kNew).is_ok());
  CHECK(board.publish(one, SlotPhase::kFinal).is_ok());
  CHECK(board.publish(SlotSet::range(901, 903), SlotPhase::kNew).is_ok());
  CHECK(board.row(901).phase == SlotPhase::kFinal);
  CHECK(board.row(903).phase == SlotPhase::kNew);
}

TEST_CASE("DESIGN 6.6: a side takes no write while any of its slots lacks its marker") {
  SlotBoard board(test_plan());
  CHECK(board.owe_marker(PairSide::kNew, SlotSet::range(901, 902), true).is_ok());
  CHECK(board.owe_marker(PairSide::kNew, SlotSet::of(903), false).is_ok());  // its own stands
  CHECK(board.owe_marker(PairSide::kNew, SlotSet::of(902), false).is_ok());
  CHECK(board.writes_stopped(PairSide::kNew));
  CHECK(!board.writes_stopped(PairSide::kOld));
  CHECK(board.owe_marker(PairSide::kNew, SlotSet::of(901), false).is_ok());
  CHECK(!board.writes_stopped(PairSide::kNew));
}

}  // namespace
}  // namespace sf
