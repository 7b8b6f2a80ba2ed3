// Servers with one binlog: the slots that stay are held, and their writes drained, until the old
// side's end is proved and the owner record written (DESIGN 6.3, accounting).
#include <doctest/doctest.h>

#include <future>
#include <nlohmann/json.hpp>

#include "proxy_shim/control/cutover_runner.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

using Texts = std::vector<std::string>;

class DrainingPlane : public FakePlane {
 public:
  using FakePlane::FakePlane;
  std::vector<std::pair<InFlight, SlotSet>> drained;
  Result<Drained> drain(const SlotSet& slots, InFlight what, int64_t timeout_ms,
                        Side side) override {
    drained.emplace_back(what, slots);
    return FakePlane::drain(slots, what, timeout_ms, side);
  }
};

struct StayRig {
  StayRig() : plan(plan_with_stay()), board(plan), permits(&clock) {
    driver.fake_traits.holds_stay = true;
    auto opened = StateStore::open(dir.path(), plan, true, &clock);
    REQUIRE(opened.is_ok());
    store = std::move(*opened);
    board.attach(&plane);
    ports = {&plan, store.get(), &board, &permits, &driver, &plane, &stats, &clock, Log()};
    RunnerOptions options;
    options.attempts_max = 1;
    options.state_dir = dir.path();
    runner = std::make_unique<CutoverRunner>(ports, options);
    runner->start();
  }
  static MovePlan plan_with_stay() {
    MovePlan plan = test_plan(CutUnit::kPlan);
    plan.stay = SlotSet::range(801, 900);
    return plan;
  }
  SlotPhase cut() {
    permits.grant(plan.slots);
    auto done = std::make_shared<std::promise<SlotPhase>>();
    auto future = done->get_future();
    REQUIRE(runner
                ->cutover(plan.slots, 0,
                          [done](std::vector<UnitResult> r) { done->set_value(r[0].phase); })
                .is_ok());
    REQUIRE(future.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
    return future.get();
  }

  TempDir dir;
  SystemClock clock;
  MovePlan plan;
  std::unique_ptr<StateStore> store;
  SlotBoard board;
  Permits permits;
  FakeDriver driver;
  DrainingPlane plane{801};  // a slot that stays
  PauseStats stats;
  RunPorts ports;
  std::unique_ptr<CutoverRunner> runner;
};

TEST_CASE("I2 (c) slots that stay are held until the owner record, and drained with the others") {
  StayRig rig;
  CHECK(rig.cut() == SlotPhase::kNew);
  CHECK(rig.plane.phases() == Texts{"HOLD", "STAY"});
  SlotSet all = rig.plan.slots;
  all.add(rig.plan.stay);
  REQUIRE(rig.plane.drained.size() == 2);
  CHECK(rig.plane.drained[0].second == all);             // writes
  CHECK(rig.plane.drained[1].second == rig.plan.slots);  // reads: those that stay go on
  CHECK(rig.board.row(801).phase == SlotPhase::kStay);
  CHECK(rig.board.row(901).phase == SlotPhase::kNew);
}

TEST_CASE("I3 slots that stay are let go whatever the attempt ends in") {
  for (const char* call : {"fence", "wait_applied", "promote", "read_ends"}) {
    CAPTURE(call);
    StayRig rig;
    rig.driver.fail(call, Status::unavailable("broken"));
    CHECK(rig.cut() == SlotPhase::kOld);
    CHECK(rig.plane.phases().back() == "STAY");
    CHECK(rig.board.row(801).phase == SlotPhase::kStay);
  }
}

TEST_CASE("I2 (b) without a fence unanswered writes are settled once no connection has them") {
  StayRig rig;
  rig.driver.fake_traits.end_fenced = false;
  rig.plane.unanswered = 2;
  rig.driver.fail("check_writers", Status::refused("127.0.0.1:7 is connected"));
  CHECK(rig.cut() == SlotPhase::kOld);
  CHECK(rig.board.row(901).text.find("(b) 2 writes were never answered and may still execute: "
                                     "127.0.0.1:7 is connected") != std::string::npos);
  CHECK(rig.plane.phases().back() == "STAY");
  rig.driver.mend("check_writers");
  CHECK(rig.cut() == SlotPhase::kNew);
}

TEST_CASE("servers with an end for each slot: slots that stay are not touched") {
  StayRig rig;
  rig.driver.fake_traits.holds_stay = false;
  CHECK(rig.cut() == SlotPhase::kNew);
  CHECK(rig.plane.phases() == Texts{"STAY"});
}

}  // namespace
}  // namespace sf
