// The runner against scripted servers: what reaches the workers and the servers, in which order,
// and what is left after each failure.
#include "proxy_shim/control/cutover_runner.h"

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <nlohmann/json.hpp>
#include <set>

#include "common/ops/process.h"
#include "proxy_shim/control/admin_commands.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

using Texts = std::vector<std::string>;

constexpr int64_t kAmple = 30'000;  // a bound that no crowded machine misses

// Share 100: no gaps, however long a crowded machine makes a hold.
struct Rig {
  explicit Rig(CutUnit unit = CutUnit::kSlot, int at_once = 0, int64_t answer_ms = 60'000,
               bool has_back = true, int share_percent = 100)
      : plan(test_plan(unit)), board(plan), permits(&clock) {
    auto opened = StateStore::open(dir.path(), plan, true, &clock);
    REQUIRE(opened.is_ok());
    store = std::move(*opened);
    board.attach(&plane);
    ports = {&plan, store.get(), &board, &permits, &driver, &plane, &stats, &clock, Log()};
    RunnerOptions options;
    options.max_pause_ms = 200;
    options.attempts_max = 2;
    options.back_off_ms = 5;
    options.state_dir = dir.path();
    options.answer_ms = answer_ms;
    options.pacing.at_once = std::max(at_once, 1);
    options.pacing.hold_share_percent = share_percent;
    // The fake is the driver of all lanes: its calls are written down in one list.
    const size_t lanes = at_once == 0 ? 1 : CutoverRunner::lanes_for(options.pacing);
    runner = std::make_unique<CutoverRunner>(
        ports, options,
        std::vector<CutoverRunner::LaneDrivers>(lanes, {&driver, has_back ? &back : nullptr}));
    runner->start();
  }
  std::vector<UnitResult> cut(const SlotSet& slots, int64_t max_pause_ms = kAmple,
                              bool going_back = false) {
    permits.grant(slots);
    auto done = std::make_shared<std::promise<std::vector<UnitResult>>>();
    auto future = done->get_future();
    const auto told = [done](std::vector<UnitResult> r) { done->set_value(std::move(r)); };
    const Status status = going_back ? runner->rollback(slots, max_pause_ms, told)
                                     : runner->cutover(slots, max_pause_ms, told);
    REQUIRE(status.is_ok());
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
  FakeDriver back;  // sees the sides exchanged
  FakePlane plane;
  PauseStats stats;
  RunPorts ports;
  std::unique_ptr<CutoverRunner> runner;
};

const SlotSet kOne = SlotSet::of(901);

TEST_CASE("I2 I3: a good cutover: order of tables and calls, record, audit") {
  Rig rig;
  const auto results = rig.cut(SlotSet::range(901, 903));
  REQUIRE(results.size() == 3);
  CHECK(results[0].phase == SlotPhase::kNew);
  CHECK(results[0].pause_us == 1234);
  CHECK(results[2].slots == SlotSet::of(903));
  CHECK(rig.plane.phases() == Texts{"HOLD", "PROMOTE", "NEW"});
  const Texts calls = rig.driver.calls();
  CHECK(Texts(calls.begin(), calls.begin() + 10) ==
        Texts{"announce", "fence", "wait_applied", "check_writers", "fence_permanent", "promote",
              "read_ends", "mark", "release", "link_reverse"});
  const SlotRecord record = rig.store->record(901);
  CHECK(record.phase == SlotPhase::kNew);
  CHECK(record.proof == ReplPosition{"h", 10});
  CHECK(record.promoted == ReplPosition{"n", 1});
  CHECK(record.linked);
  CHECK(rig.stats.summary().cutovers == 3);
  CHECK(rig.cut(kOne)[0].text == "the new side owns it already");
}

TEST_CASE("I3: each failure before the owner record leads back to OLD and serves") {
  for (const char* call : {"announce", "fence", "wait_applied", "check_writers", "fence_permanent",
                           "promote", "read_ends"}) {
    CAPTURE(call);
    Rig rig;
    rig.driver.fail(call, Status::unavailable("broken"));
    const auto results = rig.cut(kOne);
    CHECK(results[0].phase == SlotPhase::kOld);
    CHECK(results[0].text.find("broken") != std::string::npos);
    CHECK(rig.board.row(901).phase == SlotPhase::kOld);
    if (!rig.plane.phases().empty()) CHECK(rig.plane.phases().back() == "OLD");
    CHECK(rig.store->record(901).phase == SlotPhase::kOld);
    const bool promoted = rig.driver.count("promote") > 0;
    CHECK(rig.driver.count("follow_again") == rig.driver.count("promote"));
    CHECK(rig.driver.count("unfence") == rig.driver.count("fence"));
    CHECK(rig.driver.count("announce") == 2);  // tried again with back-off
    CHECK((!promoted || rig.driver.count("unfence") > 0));
    rig.driver.mend(call);
    CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  }
}

TEST_CASE("I9: the bound takes the attempt back within it and a little more") {
  Rig rig;
  rig.driver.applied = false;
  int64_t fenced = 0, longest = 0;
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "fence") fenced = rig.clock.mono_us();
    if (name == "wait_applied") std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (name == "unfence") longest = std::max(longest, rig.clock.mono_us() - fenced);
  };
  const auto results = rig.cut(kOne, 60);
  CHECK(longest < 5'000'000);
  CHECK(results[0].phase == SlotPhase::kOld);
  CHECK(results[0].text.find("60 ms") != std::string::npos);
}

TEST_CASE("an abort and an overflow take the running attempt back") {
  for (const bool overflow : {true, false}) {
    Rig rig;
    rig.driver.on_call = [&](const std::string& name) {
      if (name != "wait_applied") return;
      if (overflow) rig.runner->interrupt("too much was held");
      if (!overflow) rig.runner->abort(kOne);
    };
    const auto results = rig.cut(kOne);
    CHECK(results[0].phase == SlotPhase::kOld);
    CHECK(results[0].text.find(overflow ? "too much" : "aborted") != std::string::npos);
    CHECK(rig.driver.count("announce") == (overflow ? 2 : 1));
  }
}

TEST_CASE("a permit that runs out before PROMOTE takes the attempt back; none starts without one") {
  Rig rig;
  CHECK(rig.runner->cutover(kOne, 0, [](std::vector<UnitResult>) {}).code() == Code::kRefused);
  rig.driver.fail("check_writers", Status::refused("a stranger is connected"));
  CHECK(rig.cut(kOne)[0].text.find("stranger") != std::string::npos);
  CHECK(rig.driver.count("fence_permanent") == 0);
}

TEST_CASE("forecast: nothing is held while the new side is behind or does not follow") {
  Rig rig;
  rig.driver.sync = {true, 101, ""};
  CHECK(rig.cut(kOne, 200)[0].text.find("lag 101 B, more than 100 B") != std::string::npos);
  rig.driver.sync = {true, 50, "", 0, 300};  // what is counted is little, a trial took long
  CHECK(rig.cut(kOne, 200)[0].text.find("forecast 300 ms, bound 200 ms") != std::string::npos);
  rig.driver.sync = {false, -1, "no link"};
  CHECK(rig.cut(kOne, 200)[0].text.find("no link") != std::string::npos);
  CHECK(rig.plane.phases().empty());
  CHECK(rig.driver.calls().empty());
}

TEST_CASE("forecast: a lag below the limit whose trend says that the bound will be missed waits") {
  Rig rig;
  // The monitor's looks: 20 more each second, of 50 that are applied.
  const int64_t now = rig.clock.mono_us();
  for (int i = 0; i < 4; ++i) {
    rig.board.set_lag(901, LagSample{now - (4 - i) * 1'000'000, i * 20, 100 + 50UL * i}, 100);
  }
  rig.driver.sync = {true, 80, "", 300};
  const std::string text = rig.cut(kOne, 200)[0].text;
  CHECK(text.starts_with("lag 80 B, growing 20 B/s; forecast 1.7 s, bound 200 ms"));
  CHECK(rig.plane.phases().empty());
  // The automatic mode does not ask at all.
  CHECK(rig.runner->set_auto(kOne, true).is_ok());
  rig.runner->wake();
  rig.driver.sync = {true, 0, "", 500};
  CHECK(rig.cut(SlotSet::of(902))[0].phase == SlotPhase::kNew);
  CHECK(rig.board.row(901).phase == SlotPhase::kOld);
  // Steady again: it does.
  for (int i = 0; i < 3; ++i) rig.board.set_lag(901, std::nullopt, 100);
  for (int i = 0; i < 3; ++i) rig.board.set_lag(901, LagSample{rig.clock.mono_us(), 0, 400}, 100);
  rig.permits.grant(kOne);
  rig.runner->wake();
  for (int i = 0; i < 500 && rig.board.row(901).phase != SlotPhase::kNew; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(rig.board.row(901).phase == SlotPhase::kNew);
}

TEST_CASE("I3: a take back carries a higher epoch, so that a late promote or fence is refused") {
  Rig rig;
  rig.driver.fail("promote", Status::timeout("no answer"));
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kOld);
  CHECK(rig.driver.epoch_of("promote") > 0);
  CHECK(rig.driver.epoch_of("follow_again") > rig.driver.epoch_of("promote"));
  CHECK(rig.driver.epoch_of("unfence") > rig.driver.epoch_of("fence"));
  const uint64_t undone = rig.driver.epoch_of("unfence");
  CHECK(rig.store->epoch() >= undone);  // and is remembered by the shim, too
  rig.driver.mend("promote");
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  CHECK(rig.driver.epoch_of("promote") > undone);
}

TEST_CASE(
    "I3: what could not be taken back is owed, done in the background, and blocks no service") {
  Rig rig;
  rig.driver.fail("promote", Status::timeout("no answer"));
  rig.driver.fail("follow_again", Status::unavailable("down"));
  const auto results = rig.cut(kOne);
  CHECK(results[0].phase == SlotPhase::kOld);
  CHECK(rig.plane.phases().back() == "OLD");
  CHECK(rig.board.row(901).text.find("down") != std::string::npos);
  CHECK(rig.driver.count("promote") == 1);  // no second attempt on top of a debt
  rig.driver.mend("promote");
  rig.driver.mend("follow_again");
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
}

TEST_CASE("DESIGN 6.6: without its marker the new side takes no client write") {
  Rig rig(CutUnit::kPlan);
  rig.driver.fake_traits = {true, false, false};
  int failures = 2;
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "mark" && --failures == 0) rig.driver.mend("mark");
  };
  rig.driver.fail("mark", Status::unavailable("down"));
  CHECK(rig.cut(rig.plan.slots)[0].phase == SlotPhase::kNew);
  for (int i = 0; i < 500 && rig.plane.phases().back() != "NEW"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(rig.plane.phases() == Texts{"HOLD", "PROMOTE", "PROMOTE-stopped", "NEW-stopped", "NEW"});
  CHECK(rig.store->record(901).marked);
}

TEST_CASE("without its marker a slot is not FINAL, and the answer says that writes wait for it") {
  Rig rig(CutUnit::kPlan);
  rig.driver.fake_traits = {true, false, false};
  rig.driver.fail("mark", Status::unavailable("OOM"));
  const std::string text = rig.cut(rig.plan.slots)[0].text;
  CHECK(text.find("no write is taken before the owner marker is written") != std::string::npos);
  CHECK(text.find("still to do: marker on the new side: OOM") != std::string::npos);
  const ShimReport report(rig.ports, "0123");
  AdminCommands commands(rig.ports, rig.runner.get(), &report);
  std::string reply;
  const auto final = [&] {
    commands.run({"SHIM", "FINAL", "901-910"}, "test", [&](std::string r) { reply = r; });
    return reply;
  };
  CHECK(final().starts_with("-REFUSED the new side does not carry its owner marker yet"));
  CHECK(rig.store->record(901).phase == SlotPhase::kNew);
  rig.driver.mend("mark");
  for (int i = 0; i < 3000 && rig.plane.phases().back() != "NEW"; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(final() == "+OK\r\n");
  CHECK(rig.plane.phases().back() == "FINAL");
}

TEST_CASE("units: slots outside the plan, and parts of a whole-plan unit, are refused") {
  Rig rig(CutUnit::kPlan);
  rig.permits.grant(SlotSet::all());
  const auto nothing = [](std::vector<UnitResult>) {};
  CHECK(rig.runner->cutover(SlotSet::of(5), 0, nothing).text().find("not moved") !=
        std::string::npos);
  CHECK(rig.runner->cutover(kOne, 0, nothing).text().find("as a whole") != std::string::npos);
}

TEST_CASE("stop takes a running attempt back and answers what is queued") {
  Rig rig;
  rig.driver.applied = false;
  std::promise<void> waiting;
  bool told = false;
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "wait_applied" && !told) {
      told = true;
      waiting.set_value();
    }
  };
  rig.permits.grant(rig.plan.slots);
  std::promise<std::vector<UnitResult>> done;
  CHECK(rig.runner
            ->cutover(rig.plan.slots, 60'000,
                      [&](std::vector<UnitResult> r) { done.set_value(std::move(r)); })
            .is_ok());
  waiting.get_future().wait();
  rig.runner->stop();
  const auto results = done.get_future().get();
  CHECK(results.size() == 10);
  CHECK(results[0].text.find("the shim stops") != std::string::npos);
  CHECK(rig.plane.phases().back() == "OLD");
  CHECK(rig.driver.count("unfence") == 1);
}

// ---- the way back (ADR 0020)

TEST_CASE("I2 I3: a roll back: order of tables and calls, record, audit; and forward again") {
  Rig rig;
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  CHECK(rig.runner->set_auto(kOne, true).is_ok());
  rig.back.end = {"n", 77};
  const auto results = rig.cut(kOne, kAmple, true);
  CHECK(results[0].phase == SlotPhase::kOld);
  CHECK(results[0].text == "switched at n:77");
  CHECK(rig.plane.phases() == Texts{"HOLD", "PROMOTE", "NEW", "HOLD-back", "PROMOTE-back", "OLD"});
  CHECK(rig.back.calls() == Texts{"announce", "fence", "wait_applied", "check_writers",
                                  "fence_permanent", "promote", "read_ends", "mark", "release",
                                  "link_reverse"});
  CHECK(rig.driver.count("fence") == 1);  // nothing of it went the other way
  // I2 (b): of the side it leaves.
  CHECK(rig.plane.drained() == std::vector<Side>{Side::kOld, Side::kOld, Side::kNew, Side::kNew});
  SlotRecord record = rig.store->record(901);
  CHECK(record.phase == SlotPhase::kOld);
  CHECK(record.back);
  CHECK(record.proof == ReplPosition{"n", 77});
  CHECK(record.epoch == record.attempt);
  CHECK(record.linked);
  CHECK(rig.board.row(901).phase == SlotPhase::kOld);
  CHECK(!rig.board.row(901).automatic);  // or it would go there again by itself
  CHECK(rig.cut(kOne, kAmple, true)[0].text == "the old side owns it already");
  const uint64_t epoch = record.epoch;
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  record = rig.store->record(901);
  CHECK(record.phase == SlotPhase::kNew);
  CHECK(!record.back);
  CHECK(record.epoch > epoch);
}

TEST_CASE("I3: each failure of a roll back before the owner record leads back to NEW and serves") {
  for (const char* call : {"announce", "fence", "wait_applied", "check_writers", "fence_permanent",
                           "promote", "read_ends"}) {
    CAPTURE(call);
    Rig rig;
    CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
    const SlotRecord before = rig.store->record(901);
    rig.back.fail(call, Status::unavailable("broken"));
    const auto results = rig.cut(kOne, kAmple, true);
    CHECK(results[0].phase == SlotPhase::kNew);
    CHECK(results[0].text.find("broken") != std::string::npos);
    CHECK(rig.plane.phases().back() == "NEW");
    const SlotRecord after = rig.store->record(901);
    CHECK(after.phase == SlotPhase::kNew);
    CHECK(after.back);  // a start must know which side to take back
    CHECK(after.epoch == before.epoch);
    CHECK(after.attempt > before.attempt);
    CHECK(rig.back.count("follow_again") == rig.back.count("promote"));
    CHECK(rig.back.count("unfence") == rig.back.count("fence"));
    rig.back.mend(call);
    CHECK(rig.cut(kOne, kAmple, true)[0].phase == SlotPhase::kOld);
  }
}

TEST_CASE("I3: what a roll back could not take back is owed in its direction") {
  Rig rig;
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  rig.back.fail("promote", Status::timeout("no answer"));
  rig.back.fail("follow_again", Status::unavailable("down"));
  CHECK(rig.cut(kOne, kAmple, true)[0].phase == SlotPhase::kNew);
  CHECK(rig.plane.phases().back() == "NEW");
  rig.back.mend("promote");
  rig.back.mend("follow_again");
  CHECK(rig.cut(kOne, kAmple, true)[0].phase == SlotPhase::kOld);
  CHECK(rig.driver.count("follow_again") == 0);
}

TEST_CASE("a roll back waits for the old side to follow, and needs a permit and a way back") {
  Rig rig;
  CHECK(rig.runner->rollback(kOne, 0, [](std::vector<UnitResult>) {}).code() == Code::kRefused);
  CHECK(rig.cut(kOne, kAmple, true)[0].text == "the old side owns it already");
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  rig.back.sync = {false, -1, "slot 901 of 127.0.0.1:7001 follows nobody"};
  const auto results = rig.cut(kOne, kAmple, true);
  CHECK(results[0].phase == SlotPhase::kNew);
  CHECK(results[0].text.find("follows nobody") != std::string::npos);
  CHECK(rig.back.calls().empty());

  Rig none(CutUnit::kSlot, 0, 60'000, false);
  none.driver.fake_traits.reverse_link = false;
  none.permits.grant(kOne);
  const Status status = none.runner->rollback(kOne, 0, [](std::vector<UnitResult>) {});
  CHECK(status.code() == Code::kRefused);
  CHECK(status.text().find("the old side does not follow the new one") != std::string::npos);
}

TEST_CASE("a slot on its way back is not handed back, and goes one way at a time") {
  Rig rig;
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  const ShimReport report(rig.ports, "0123");
  AdminCommands commands(rig.ports, rig.runner.get(), &report);
  std::promise<void> preparing;
  std::promise<void> go_on;
  rig.back.on_call = [&](const std::string& name) {
    if (name != "announce") return;
    preparing.set_value();
    go_on.get_future().wait();
  };
  std::promise<std::string> rolled;
  commands.run({"SHIM", "ROLLBACK", "901", "MAXPAUSE", "100"}, "test",
               [&](std::string reply) { rolled.set_value(std::move(reply)); });
  preparing.get_future().wait();
  std::string refused;
  commands.run({"SHIM", "FINAL", "901"}, "test", [&](std::string r) { refused = std::move(r); });
  CHECK(refused.starts_with("-REFUSED some of the slots 901 are going back"));
  CHECK(rig.store->record(901).phase == SlotPhase::kNew);
  // Queued behind it, and the other way then: first come.
  CHECK(rig.runner->cutover(kOne, 0, [](std::vector<UnitResult>) {}).is_ok());
  CHECK(rig.runner->rollback(kOne, 0, [](std::vector<UnitResult>) {})
            .text()
            .find("queued for the other direction") != std::string::npos);
  rig.runner->abort(SlotSet::of(902));
  go_on.set_value();
  CHECK(rolled.get_future().get().starts_with("*1\r\n*5\r\n$3\r\n901\r\n$3\r\nOLD\r\n"));
}

TEST_CASE("I7: a slot is not handed back while a roll back of it is not yet taken back") {
  Rig rig;
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  const ShimReport report(rig.ports, "0123");
  AdminCommands commands(rig.ports, rig.runner.get(), &report);
  std::string reply;
  const auto final = [&] {
    commands.run({"SHIM", "FINAL", "901"}, "test", [&](std::string r) { reply = std::move(r); });
    return reply;
  };
  CHECK(rig.board.stop_writes(PairSide::kNew, SlotBoard::Reason::kMarker, true).is_ok());
  CHECK(final().starts_with("-REFUSED the new side does not carry its owner marker"));
  CHECK(rig.board.stop_writes(PairSide::kNew, SlotBoard::Reason::kMarker, false).is_ok());
  rig.back.fail("promote", Status::timeout("no answer"));
  rig.back.fail("follow_again", Status::unavailable("down"));
  CHECK(rig.cut(kOne, kAmple, true)[0].phase == SlotPhase::kNew);
  CHECK(final().starts_with("-REFUSED some of the slots 901 are going back"));
  // What trying again never mends is said with what does.
  rig.back.fail("follow_again", Status::refused("only a new copy can follow (SLOTSSLAVEOF FORCE)"));
  CHECK(rig.cut(kOne, kAmple, true)[0].phase == SlotPhase::kNew);
  CHECK(final().find("slot 901: follow-again: only a new copy can follow (SLOTSSLAVEOF FORCE)") !=
        std::string::npos);
  CHECK(rig.store->record(901).phase == SlotPhase::kNew);
  rig.back.mend("promote");
  rig.back.mend("follow_again");
  CHECK(rig.cut(kOne, kAmple, true)[0].phase == SlotPhase::kOld);
  CHECK(rig.cut(kOne)[0].phase == SlotPhase::kNew);
  CHECK(final() == "+OK\r\n");
}

// ---- several units in flight (ADR 0019)

// A call waits until `count` calls of its kind have come, from whatever lanes.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  bool wait() {
    std::unique_lock lock(mutex_);
    ++came_;
    changed_.notify_all();
    return changed_.wait_for(lock, std::chrono::seconds(20), [this] { return came_ >= count_; });
  }

 private:
  const int count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int came_ = 0;
};

TEST_CASE("the next unit is prepared while the one before is linked; holds do not overlap") {
  Rig rig(CutUnit::kSlot, 1);
  std::promise<void> second_announced;
  std::atomic<int> announced = 0;
  std::atomic<int> linked = 0;
  std::atomic<bool> met = false;
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "announce" && ++announced == 3) second_announced.set_value();
    if (name != "link_reverse" || ++linked > 1) return;
    // With one lane nobody would ever announce again.
    met = second_announced.get_future().wait_for(std::chrono::seconds(20)) ==
          std::future_status::ready;
  };
  const auto results = rig.cut(rig.plan.slots);
  CHECK(met);
  CHECK(results.size() == 10);
  for (const UnitResult& result : results) CHECK(result.phase == SlotPhase::kNew);
  CHECK(rig.driver.count("promote") == 10);
  CHECK(rig.plane.most_held() == 1);
  CHECK(rig.stats.summary().gap_max_us > 0);
  for (int slot = 901; slot <= 910; ++slot) CHECK(rig.store->record(slot).linked);
}

TEST_CASE("units hold at the same time where the plan says so, each with its own epoch") {
  Rig rig(CutUnit::kSlot, 2);
  // Nothing is prepared while another one holds: both are prepared first.
  Meeting prepared(2), fences(2);
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "announce") CHECK(prepared.wait());
    if (name == "fence") CHECK(fences.wait());
  };
  const auto results = rig.cut(rig.plan.slots, 30'000);
  for (const UnitResult& result : results) CHECK(result.phase == SlotPhase::kNew);
  CHECK(rig.plane.most_held() == 2);
  std::set<uint64_t> epochs;
  for (int slot = 901; slot <= 910; ++slot) epochs.insert(rig.store->record(slot).epoch);
  CHECK(epochs.size() == 10);
  CHECK(*epochs.rbegin() <= rig.store->epoch());
}

TEST_CASE("an abort ends its unit alone, an interrupt and a stop every one") {
  for (const std::string how : {"abort", "interrupt", "stop"}) {
    CAPTURE(how);
    Rig rig(CutUnit::kSlot, 2);
    rig.driver.applied = false;
    Meeting prepared(2), both(2);
    std::promise<void> waiting;
    std::atomic<bool> told = false;
    rig.driver.on_call = [&](const std::string& name) {
      if (name == "announce") CHECK(prepared.wait());
      if (name == "fence") CHECK(both.wait());
      if (name == "wait_applied" && !told.exchange(true)) waiting.set_value();
    };
    const SlotSet two = SlotSet::range(901, 902);
    rig.permits.grant(two);
    std::promise<std::vector<UnitResult>> done;
    REQUIRE(
        rig.runner
            ->cutover(two, 60'000, [&](std::vector<UnitResult> r) { done.set_value(std::move(r)); })
            .is_ok());
    waiting.get_future().wait();
    if (how == "abort") {
      rig.runner->abort(kOne);
      for (int i = 0; i < 500 && rig.board.row(901).phase != SlotPhase::kOld; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      CHECK(rig.board.row(902).phase == SlotPhase::kHold);
      rig.runner->abort(SlotSet::of(902));
    }
    if (how == "interrupt") {
      rig.runner->interrupt("a backend changed");
      for (int i = 0; i < 500 && rig.driver.count("unfence") < 2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      rig.runner->abort(two);
    }
    if (how == "stop") rig.runner->stop();
    for (const UnitResult& result : done.get_future().get()) {
      CHECK(result.phase == SlotPhase::kOld);
    }
    CHECK(rig.driver.count("unfence") >= 2);
    for (const int slot : {901, 902}) CHECK(rig.board.row(slot).phase == SlotPhase::kOld);
  }
}

// In sync and steady, as the monitor would have it.
void let_auto_begin(Rig& rig, const SlotSet& slots) {
  rig.permits.grant(slots);
  slots.for_each([&](int slot) {
    for (int i = 0; i < 3; ++i) {
      rig.board.set_lag(slot, LagSample{rig.clock.mono_us(), 0, 1}, 100);
    }
  });
  CHECK(rig.runner->set_auto(slots, true).is_ok());
}

TEST_CASE("AUTO: a unit that fails again and again is tried less and less often") {
  Rig rig;
  std::mutex mutex;
  std::vector<int64_t> times;
  std::promise<void> enough;
  rig.driver.fail("fence", Status::timeout("missed"));
  rig.driver.on_call = [&](const std::string& name) {
    if (name != "announce") return;
    std::lock_guard guard(mutex);
    times.push_back(rig.clock.mono_us());
    if (times.size() == 8) enough.set_value();
  };
  let_auto_begin(rig, kOne);
  REQUIRE(enough.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  std::lock_guard guard(mutex);
  // 5 ms, doubled: two attempts were all that a request has patience for.
  for (size_t i = 1; i < 8; ++i) CHECK(times[i] - times[i - 1] >= (5'000 << (i - 1)));
}

TEST_CASE("AUTO: a unit that cannot begin is looked at with a back-off, not without end") {
  Rig rig;
  rig.driver.sync = {false, -1, "no link"};
  std::atomic<int> looks = 0;
  std::promise<void> enough;
  rig.driver.on_sync = [&] {
    if (++looks == 4) enough.set_value();
  };
  const int64_t start = rig.clock.mono_us();
  let_auto_begin(rig, kOne);
  REQUIRE(enough.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(rig.clock.mono_us() - start >= 35'000);
}

// A hold of 50 ms that is taken back, at a share of 1 %: about 5 s of rest.
void hold_in_vain(Rig& rig, std::promise<void>* over) {
  rig.driver.fail("fence", Status::timeout("missed"));
  auto told = std::make_shared<std::atomic<bool>>(false);
  rig.driver.on_call = [over, told](const std::string& name) {
    if (name == "fence" && !*told) {
      std::promise<void> never;
      (void)never.get_future().wait_for(std::chrono::milliseconds(50));
    }
    if (name == "release" && !told->exchange(true)) over->set_value();
  };
}

TEST_CASE(
    "in the rest after a hold that was taken back nothing is prepared, but what is asked for") {
  Rig rig(CutUnit::kSlot, 0, 60'000, true, 1);
  const ShimReport report(rig.ports, "0123");
  std::promise<void> over;
  hold_in_vain(rig, &over);
  let_auto_begin(rig, SlotSet::range(901, 902));
  over.get_future().wait();
  rig.driver.mend("fence");
  CHECK(rig.cut(SlotSet::of(903))[0].phase == SlotPhase::kNew);
  CHECK(rig.driver.count("announce") == 2);  // 902 was there before it
  for (const int slot : {901, 902}) {
    CHECK(report.slot(slot).row.text.find("next attempt in ") != std::string::npos);
  }
  for (const auto& field : report.status()) {
    if (field.name == std::string("next_attempt_ms")) CHECK(std::get<int64_t>(field.value) > 0);
  }
  CHECK(rig.cut(SlotSet::of(902))[0].phase == SlotPhase::kNew);
  CHECK(rig.board.row(901).phase == SlotPhase::kOld);
  CHECK(rig.runner->set_auto(SlotSet::range(901, 902), false).is_ok());
  CHECK(rig.board.next_attempt_us(rig.clock.mono_us()) == 0);
}

TEST_CASE(
    "a unit that was prepared before a hold that was taken back does not sit through the rest") {
  Rig rig(CutUnit::kSlot, 1, 60'000, true, 1);
  std::mutex mutex;
  std::condition_variable changed;
  int announced = 0;
  int released = 0;
  rig.driver.fail("fence", Status::timeout("missed"));
  rig.driver.on_call = [&](const std::string& name) {
    std::unique_lock lock(mutex);
    const auto see = [&](int* what) {
      ++*what;
      changed.notify_all();
    };
    if (name == "announce") see(&announced);
    if (name == "release") see(&released);
    if (name == "announce")
      changed.wait_for(lock, std::chrono::seconds(20), [&] { return announced >= 2; });
    if (name == "fence")
      changed.wait_for(lock, std::chrono::milliseconds(50), [] { return false; });
  };
  let_auto_begin(rig, SlotSet::range(901, 902));
  std::unique_lock lock(mutex);
  CHECK(changed.wait_for(lock, std::chrono::seconds(20), [&] { return released >= 2; }));
  CHECK(rig.driver.count("fence") == 1);
}

TEST_CASE("AUTO ON again begins at once, whatever is rested after") {
  Rig rig(CutUnit::kSlot, 0, 60'000, true, 1);
  std::promise<void> over;
  hold_in_vain(rig, &over);
  let_auto_begin(rig, kOne);
  over.get_future().wait();
  rig.driver.mend("fence");
  std::promise<void> linked;
  const int64_t start = rig.clock.mono_us();
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "link_reverse") linked.set_value();
  };
  CHECK(rig.runner->set_auto(kOne, true).is_ok());
  REQUIRE(linked.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(rig.clock.mono_us() - start < 3'000'000);
}

TEST_CASE("AUTO OFF: what waits for its next attempt is not switched any more") {
  Rig rig;
  std::promise<void> failed, go_on;
  std::atomic<bool> told = false;
  rig.driver.fail("fence", Status::timeout("missed"));
  rig.driver.on_call = [&](const std::string& name) {
    if (name != "release" || told.exchange(true)) return;
    failed.set_value();
    go_on.get_future().wait();
  };
  let_auto_begin(rig, SlotSet::range(901, 903));  // one lane: two are queued behind
  failed.get_future().wait();
  CHECK(rig.runner->set_auto(SlotSet::range(901, 903), false).is_ok());
  rig.driver.mend("fence");
  go_on.set_value();
  CHECK(rig.cut(SlotSet::of(904))[0].phase == SlotPhase::kNew);  // behind whatever was queued
  for (int slot = 901; slot <= 903; ++slot) CHECK(rig.board.row(slot).phase == SlotPhase::kOld);
  CHECK(rig.driver.count("announce") == 2);
}

TEST_CASE("no unit is switched twice, by whoever it is asked for") {
  Rig rig(CutUnit::kSlot, 2);
  rig.permits.grant(rig.plan.slots);
  for (int slot = 901; slot <= 910; ++slot) {
    for (int i = 0; i < 3; ++i) {
      rig.board.set_lag(slot, LagSample{rig.clock.mono_us(), 0, 1}, 100);
    }
  }
  CHECK(rig.runner->set_auto(rig.plan.slots, true).is_ok());
  std::vector<std::future<std::vector<UnitResult>>> all;
  for (int i = 0; i < 4; ++i) {
    auto done = std::make_shared<std::promise<std::vector<UnitResult>>>();
    all.push_back(done->get_future());
    CHECK(rig.runner
              ->cutover(rig.plan.slots, kAmple,
                        [done](std::vector<UnitResult> r) { done->set_value(std::move(r)); })
              .is_ok());
  }
  for (auto& one : all) {
    for (const UnitResult& result : one.get()) CHECK(result.phase == SlotPhase::kNew);
  }
  CHECK(rig.driver.count("promote") == 10);
}

TEST_CASE("SHIM CUTOVER is answered in its time while retries go on") {
  Rig rig(CutUnit::kSlot, 0, 100);
  std::atomic<bool> down = true;
  rig.driver.on_call = [&](const std::string& name) {
    if (name == "announce" && down) std::this_thread::sleep_for(std::chrono::milliseconds(150));
  };
  rig.driver.fail("announce", Status::unavailable("not yet"));
  const auto results = rig.cut(SlotSet::range(901, 902));
  CHECK(results[0].phase == SlotPhase::kOld);
  CHECK(results[0].text.starts_with("still "));
  CHECK(results[1].text.starts_with("still "));
  down = false;
  rig.driver.mend("announce");
  for (int i = 0; i < 500 && rig.board.row(902).phase != SlotPhase::kNew; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(rig.board.row(902).phase == SlotPhase::kNew);
}

TEST_CASE(
    "SHIM FREEZE says that the side stays frozen when writes are not answered, and the way out") {
  Rig rig;
  const ShimReport report(rig.ports, "0123");
  AdminCommands commands(rig.ports, rig.runner.get(), &report);
  std::string reply;
  const auto freeze = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"SHIM", "FREEZE"});
    commands.run(words, "test", [&](std::string r) { reply = std::move(r); });
    return reply;
  };
  const char* const stays = "the old side is frozen and stays so until SHIM FREEZE old OFF";
  rig.plane.drain_answer = Status::timeout("writes were still unanswered after 2000 ms");
  CHECK(freeze({"old"}).find(stays) != std::string::npos);
  CHECK(rig.board.writes_stopped(PairSide::kOld));
  rig.plane.drain_answer = Status::ok();
  rig.plane.unanswered = 2;  // their connections broke
  CHECK(freeze({"old"}).find(stays) != std::string::npos);
  CHECK(reply.find("2 writes to it were never answered") != std::string::npos);
  CHECK(freeze({"old", "OFF"}) == "+OK\r\n");
  CHECK(!rig.board.writes_stopped(PairSide::kOld));
  rig.plane.unanswered = 0;
  CHECK(freeze({"old"}) == "+OK\r\n");
}

TEST_CASE("admin commands: shapes, refusals, the run lock") {
  Rig rig;
  const ShimReport report(rig.ports, "0123");
  AdminCommands commands(rig.ports, rig.runner.get(), &report);
  const auto ask = [&](std::vector<std::string> argv) {
    std::promise<std::string> out;
    commands.run(argv, "test", [&](std::string reply) { out.set_value(std::move(reply)); });
    return out.get_future().get();
  };
  CHECK(ask({"PING"}) == "+PONG\r\n");
  CHECK(ask({"GET", "x"}).starts_with("-ERR unknown command"));
  CHECK(ask({"SHIM", "NOPE"}).starts_with("-ERR unknown subcommand"));
  CHECK(ask({"SHIM", "STATUS"}).starts_with("*74\r\n$4\r\nplan\r\n$2\r\np1\r\n"));
  CHECK(ask({"shim", "slots", "901"}) ==
        "*1\r\n*8\r\n:901\r\n$3\r\nOLD\r\n$14\r\n127.0.0.1:7001\r\n:0\r\n:0\r\n:0\r\n:-1\r\n$"
        "0\r\n\r\n");
  CHECK(ask({"SHIM", "SLOTS", "9-5"}).starts_with("-ERR"));
  CHECK(ask({"SHIM", "PERMIT", "1-5"}).starts_with("-ERR slots 1-5 are not moved"));
  CHECK(ask({"SHIM", "CUTOVER", "901"}).starts_with("-REFUSED"));
  CHECK(ask({"SHIM", "LOCK", "me"}) == ":1\r\n");
  CHECK(ask({"SHIM", "LOCK", "you"}).starts_with("-REFUSED the run lock is held by me"));
  CHECK(ask({"SHIM", "PERMIT", "901-910"}) == "+OK\r\n");
  CHECK(ask({"SHIM", "CUTOVER", "901", "MAXPAUSE", "0"}).starts_with("-ERR usage"));
  CHECK(ask({"SHIM", "CUTOVER", "901", "AS", "you", "1"}).starts_with("-REFUSED"));
  CHECK(ask({"SHIM", "CUTOVER", "901", "MAXPAUSE", "50", "AS", "me", "1"})
            .starts_with("*1\r\n*5\r\n$3\r\n901\r\n$3\r\nNEW\r\n:1234\r\n:3\r\n"));
  CHECK(ask({"SHIM", "FINAL", "901-902"}).starts_with("-REFUSED slots 902"));
  CHECK(ask({"SHIM", "FINAL", "901"}) == "+OK\r\n");
  CHECK(rig.store->record(901).phase == SlotPhase::kFinal);
  CHECK(ask({"SHIM", "AUTO", "MAYBE", "901"}).starts_with("-ERR usage"));
  CHECK(ask({"SHIM", "UNLOCK", "me", "7"}).starts_with("-REFUSED"));
  CHECK(ask({"SHIM", "UNLOCK", "me", "1"}) == "+OK\r\n");
}

}  // namespace
}  // namespace sf
