// Another process at a master's address: is it the owner that the record names (DESIGN 6.6)?
#include "proxy_shim/control/backend_monitor.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "proxy_shim/control/cutover_runner.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

// Two servers that were promoted when the test says; shared by the drivers of both directions.
struct Servers {
  std::string run_id[2] = {"old-1", "new-1"};
  bool master[2] = {true, false};
  std::map<int, uint64_t> promoted[2];
  std::function<void()> on_promoted;
};

class ServersDriver : public FakeDriver {
 public:
  ServersDriver(Servers* servers, bool back) : servers_(servers), back_(back) {}

  Result<ServerFacts> facts(PairSide side, int64_t) override {
    ServerFacts out;
    out.run_id = servers_->run_id[side == PairSide::kNew];
    out.is_master = servers_->master[side == PairSide::kNew];
    return out;
  }
  Result<std::map<int, uint64_t>> promoted(const SlotSet& slots, int64_t) override {
    const auto& known = servers_->promoted[back_ ? 0 : 1];
    std::map<int, uint64_t> out;
    slots.for_each([&](int slot) {
      const auto found = known.find(slot);
      out[slot] = found == known.end() ? 0 : found->second;
    });
    if (servers_->on_promoted) servers_->on_promoted();
    return out;
  }
  std::unique_ptr<BackendDriver> another(const MovePlan&, const std::string&) const override {
    return std::make_unique<ServersDriver>(servers_, true);
  }

 private:
  Servers* const servers_;
  const bool back_;
};

struct Rig {
  Rig() : plan(test_plan()), board(plan) {
    auto opened = StateStore::open(dir.path(), plan, true, &clock);
    REQUIRE(opened.is_ok());
    store = std::move(*opened);
    monitor = std::make_unique<BackendMonitor>(
        plan, std::make_unique<ServersDriver>(&servers, false), &board, &plane, store.get(), &clock,
        [] {}, [this](const std::string& why) { changes.push_back(why); }, Log());
    monitor->round();
  }
  // Slot 901 is switched.
  void switch_to(bool back) {
    SlotRecord record;
    record.phase = back ? SlotPhase::kOld : SlotPhase::kNew;
    record.back = back;
    record.epoch = record.attempt = store->next_epoch().value();
    CHECK(store->commit_owner(kOne, record, {{"what", "owner record"}}).is_ok());
    servers.promoted[back ? 0 : 1][901] = record.epoch;
    servers.master[back ? 0 : 1] = true;
  }

  const SlotSet kOne = SlotSet::of(901);
  TempDir dir;
  SystemClock clock;
  MovePlan plan;
  std::unique_ptr<StateStore> store;
  SlotBoard board;
  FakePlane plane;
  Servers servers;
  std::vector<std::string> changes;
  std::unique_ptr<BackendMonitor> monitor;
};

TEST_CASE("6.6: an owner that comes up empty while its slot is held is not taken for the owner") {
  for (const bool back : {false, true}) {
    CAPTURE(back);
    Rig rig;
    rig.switch_to(false);
    if (!back) rig.switch_to(true);  // owned by the old side again, and on its way there once more
    for (const SlotPhase held : {SlotPhase::kHold, SlotPhase::kBarrier, SlotPhase::kPromote}) {
      CHECK(rig.board.publish(rig.kOne, held, {}, held, back).is_ok());
    }
    const int owner = back ? 1 : 0;
    rig.servers.run_id[owner] += "-again";
    rig.servers.promoted[owner].clear();
    rig.monitor->round();
    CHECK(rig.changes.size() == 1);
    CHECK(rig.board.row(901).phase == SlotPhase::kDoubt);
    // The attempt that is taken back does not give the slot to it.
    CHECK(rig.board.publish(rig.kOne, back ? SlotPhase::kNew : SlotPhase::kOld).is_ok());
    CHECK(rig.board.row(901).phase == SlotPhase::kDoubt);
    CHECK(rig.board.row(902).phase == SlotPhase::kOld);
  }
}

TEST_CASE("an owner that restarts with what it had goes on, and so does a switch meanwhile") {
  Rig rig;
  rig.switch_to(false);
  CHECK(rig.board.publish(rig.kOne, SlotPhase::kHold, {}, SlotPhase::kHold, true).is_ok());
  rig.servers.run_id[1] = "new-2";
  rig.monitor->round();
  CHECK(rig.board.row(901).phase == SlotPhase::kHold);
  // It was asked, and answered, before the slot went back: no doubt about the new owner.
  rig.servers.run_id[1] = "new-3";
  rig.servers.promoted[1].clear();
  rig.servers.on_promoted = [&] {
    rig.servers.on_promoted = nullptr;
    rig.switch_to(true);
    CHECK(rig.board.publish(rig.kOne, SlotPhase::kOld).is_ok());
  };
  rig.monitor->round();
  CHECK(rig.board.row(901).phase == SlotPhase::kOld);
}

TEST_CASE("6.6: the owner of a held slot that becomes a replica gets no writes") {
  Rig rig;
  rig.switch_to(false);
  CHECK(rig.board.publish(rig.kOne, SlotPhase::kHold, {}, SlotPhase::kHold, true).is_ok());
  rig.servers.master[1] = false;
  rig.monitor->round();
  CHECK(rig.board.writes_stopped(PairSide::kNew));
  rig.servers.master[1] = true;
  rig.monitor->round();
  CHECK(!rig.board.writes_stopped(PairSide::kNew));
}

}  // namespace
}  // namespace sf
