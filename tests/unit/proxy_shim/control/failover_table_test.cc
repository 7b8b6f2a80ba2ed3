// DESIGN 6.6 as a table: in which state a master dies, which one, and what is left. The real runner
// and store against servers of which one falls silent at a chosen call; the judgement of a later
// start is in startup_test.cc, the same with real servers in tests/e2e/test_shim_failover_states.
#include <doctest/doctest.h>

#include <future>
#include <set>

#include "proxy_shim/control/cutover_runner.h"
#include "proxy_shim/control/succession.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

const std::set<std::string> kOldCalls = {"announce", "fence",   "check_writers", "fence_permanent",
                                         "release",  "unfence", "link_reverse"};
const std::set<std::string> kNewCalls = {"announce", "wait_applied", "promote", "mark",
                                         "follow_again"};

struct Row {
  const char* state;  // where the machine stands when the master dies
  PairSide side;
  const char* at_call;  // it dies before this call is answered
  bool sealed_end;      // the kind knows the old end without asking again (node)
  SlotPhase ends;
  std::set<std::string> owed;  // calls that are tried again and again until it is back
};

const Row kRows[] = {
    {"OLD", PairSide::kOld, "announce", true, SlotPhase::kOld, {}},
    {"OLD", PairSide::kNew, "announce", true, SlotPhase::kOld, {}},
    {"BARRIER, end not told", PairSide::kOld, "fence", true, SlotPhase::kOld, {"unfence"}},
    {"BARRIER, end not told", PairSide::kNew, "fence", true, SlotPhase::kOld, {}},
    {"BARRIER, not applied", PairSide::kOld, "wait_applied", true, SlotPhase::kOld, {"unfence"}},
    {"BARRIER, not applied", PairSide::kNew, "wait_applied", true, SlotPhase::kOld, {}},
    {"PROMOTE, not sealed", PairSide::kOld, "fence_permanent", true, SlotPhase::kOld, {"unfence"}},
    {"PROMOTE, not sealed",
     PairSide::kNew,
     "fence_permanent",
     true,
     SlotPhase::kOld,
     {"follow_again"}},
    {"PROMOTE, not promoted", PairSide::kNew, "promote", true, SlotPhase::kOld, {"follow_again"}},
    {"PROMOTE, promoted", PairSide::kNew, "read_ends", false, SlotPhase::kOld, {"follow_again"}},
    {"PROMOTE, end proved", PairSide::kOld, "promote", true, SlotPhase::kNew, {"link_reverse"}},
    {"PROMOTE, end to be asked", PairSide::kOld, "read_ends", false, SlotPhase::kOld, {"unfence"}},
    {"NEW, not marked", PairSide::kNew, "mark", true, SlotPhase::kNew, {"mark"}},
    {"NEW, not marked", PairSide::kOld, "mark", true, SlotPhase::kNew, {"link_reverse"}},
    {"NEW, not linked", PairSide::kOld, "link_reverse", true, SlotPhase::kNew, {"link_reverse"}},
};

TEST_CASE("I1 I3 DESIGN 6.6: which master dies, in which state") {
  for (const Row& row : kRows) {
    CAPTURE(row.state);
    CAPTURE(side_name(row.side));
    CAPTURE(row.at_call);
    TempDir dir;
    SystemClock clock;
    const MovePlan plan = test_plan();
    SlotBoard board(plan);
    Permits permits(&clock);
    FakePlane plane;
    PauseStats stats;
    FakeDriver driver;
    auto store = StateStore::open(dir.path(), plan, true, &clock);
    REQUIRE(store.is_ok());
    board.attach(&plane);
    bool dead = false;
    driver.on_call = [&](const std::string& name) {
      if (dead || name != row.at_call) return;
      dead = true;
      const Status gone = Status::unavailable("it is dead");
      for (const std::string& call : row.side == PairSide::kOld ? kOldCalls : kNewCalls) {
        driver.fail(call, gone);
      }
      if (!row.sealed_end || row.side == PairSide::kNew) driver.fail("read_ends", gone);
      if (row.side == PairSide::kNew) driver.fail("link_reverse", gone);
    };
    const RunPorts ports = {&plan,  store->get(), &board, &permits, &driver,
                            &plane, &stats,       &clock, Log()};
    RunnerOptions options;
    options.max_pause_ms = 500;
    options.attempts_max = 1;
    options.state_dir = dir.path();
    CutoverRunner runner(ports, options);
    runner.start();
    permits.grant(plan.slots);
    auto done = std::make_shared<std::promise<std::vector<UnitResult>>>();
    auto decided = done->get_future();
    REQUIRE(runner
                .cutover(SlotSet::of(901), 0,
                         [done](std::vector<UnitResult> r) { done->set_value(std::move(r)); })
                .is_ok());
    REQUIRE(decided.wait_for(std::chrono::seconds(10)) == std::future_status::ready);
    const auto results = decided.get();
    CHECK(dead);
    CHECK(results[0].phase == row.ends);
    // Nobody is held any more, and there is one owner, in the record and in the tables.
    const std::string last = plane.phases().empty() ? "OLD" : plane.phases().back();
    const bool stopped = row.owed.contains("mark");
    CHECK(last == std::string(phase_name(row.ends)) + (stopped ? "-stopped" : ""));
    CHECK((*store)->record(901).phase == row.ends);
    // What is owed is done once the server, or its successor at the same driver, answers again.
    for (const std::string& call : row.owed) {
      CAPTURE(call);
      CHECK(driver.count(call) > 0);
    }
    for (const auto* calls : {&kOldCalls, &kNewCalls}) {
      for (const std::string& call : *calls) driver.mend(call);
    }
    driver.mend("read_ends");
    for (int i = 0; i < 1000 && board.row(901).text.find("still to do") != std::string::npos; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (row.owed.contains("mark")) CHECK(plane.phases().back() == "NEW");
    runner.stop();
  }
}

TEST_CASE("I2: what lies behind a fork: PINGs are no writes, and every byte counts") {
  StreamTail tail;
  tail.add({"PING"});
  CHECK(tail.bytes == 14);
  CHECK(tail.writes == 0);
  tail.add({"SELECT", "0"});
  tail.add({"REPLCONF", "GETACK", "*"});
  CHECK(tail.bytes == 14 + 23 + 37);
  CHECK(tail.writes == 0);
  tail.add({"SET", "k", "value"});
  tail.add({"DEL", "other"});
  CHECK(tail.writes == 2);
  CHECK(tail.first == "SET k");
  CHECK(tail.bytes == 14 + 23 + 37 + 31 + 24);
}

}  // namespace
}  // namespace sf
