// The heal list: kept over a clean stop, void after any other, bounded, and never a key too few
// (DESIGN 6.4, I2b, I9).
#include "proxy_shim/control/heal_list.h"

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <thread>

#include "proxy_shim/control/heal_pass.h"
#include "proxy_shim/control/unit_run.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

struct ListRig {
  explicit ListRig(HealLimits limits = {}) : bounds(limits) { begin(true); }
  void begin(bool init) {
    list.reset();
    store.reset();
    auto opened = StateStore::open(dir.path(), test_plan(), init, &clock);
    REQUIRE_MESSAGE(opened.is_ok(), opened.status().text());
    store = std::move(*opened);
    list = std::make_unique<HealList>(store.get(), Log(), bounds);
    REQUIRE(list->open().is_ok());
  }
  void note(int slot, const std::string& key, bool overflowed = false) {
    KeyNotes notes;
    notes.keys.push_back({static_cast<uint16_t>(slot), 0, key});
    notes.overflowed = overflowed;
    list->add(notes);
  }
  size_t count(int slot) const { return list->keys(SlotSet::of(slot)).size(); }

  HealLimits bounds;
  TempDir dir;
  SystemClock clock;
  std::unique_ptr<StateStore> store;
  std::unique_ptr<HealList> list;
};

TEST_CASE("I2b: the heal list goes on after a clean stop") {
  ListRig rig;
  rig.note(901, std::string("a\0b", 3));
  rig.note(902, "c");
  rig.note(902, "c");
  rig.list->expect_pair("x y");
  rig.list->set_passed(rig.list->life());
  CHECK(rig.list->size() == 2);
  REQUIRE(rig.list->close().is_ok());
  rig.begin(false);
  CHECK(rig.list->size() == 2);
  CHECK(rig.list->passed());
  CHECK(rig.list->keys(SlotSet::of(901))[0].key.at.key == std::string("a\0b", 3));
  rig.list->forget(SlotSet::of(902));
  REQUIRE(rig.list->close().is_ok());
  rig.begin(false);
  CHECK(rig.count(902) == 0);
  CHECK(rig.count(901) == 1);
}

TEST_CASE("I2b I10: after any other end it is void, and says so") {
  ListRig rig;
  rig.note(901, "a");
  rig.list->set_passed(rig.list->life());
  rig.begin(false);  // without close()
  CHECK(rig.list->size() == 0);
  CHECK(!rig.list->passed());
  CHECK(rig.list->report().state.find("did not stop cleanly") != std::string::npos);
  // It is not made good again by a clean stop alone.
  REQUIRE(rig.list->close().is_ok());
  rig.begin(false);
  CHECK(!rig.list->passed());
}

TEST_CASE("I9: over its bounds, or a worker's, it begins anew and wants a new pass") {
  ListRig rig({3, 1'000});
  for (const char* key : {"a", "b", "c"}) rig.note(901, key);
  rig.list->set_passed(rig.list->life());
  const uint64_t before = rig.list->life();
  rig.note(901, "a");
  CHECK(rig.list->passed());
  rig.note(901, "d");
  CHECK(rig.list->size() == 0);
  CHECK(!rig.list->passed());
  rig.list->set_passed(before);  // a pass that began before is about another life
  CHECK(!rig.list->passed());
  rig.list->set_passed(rig.list->life());
  rig.note(901, std::string(2'000, 'x'));
  CHECK(!rig.list->passed());
  rig.list->set_passed(rig.list->life());
  rig.note(901, "e", true);
  CHECK(!rig.list->passed());
  CHECK(rig.list->size() == 1);  // what came with it is of the new life
  REQUIRE(rig.list->close().is_ok());
  rig.begin(false);
  CHECK(rig.list->size() == 1);
}

TEST_CASE(
    "I2b: a key that was found equal goes off the list, unless it was noted again meanwhile") {
  ListRig rig;
  rig.note(901, "a");
  rig.note(901, "b");
  const auto seen = rig.list->keys(SlotSet::of(901));
  rig.note(901, "b");
  rig.list->drop(seen);
  REQUIRE(rig.count(901) == 1);
  CHECK(rig.list->keys(SlotSet::of(901))[0].key.at.key == "b");
}

TEST_CASE("I2b: other processes were not compared") {
  ListRig rig;
  rig.list->expect_pair("x y");
  rig.list->set_passed(rig.list->life());
  rig.list->expect_pair("x y");
  CHECK(rig.list->passed());
  const uint64_t life = rig.list->life();
  rig.list->expect_pair("x z");
  CHECK(!rig.list->passed());
  rig.list->set_passed(life);
  CHECK(!rig.list->passed());
}

// ---- what an attempt does with it

class HealingDriver : public FakeDriver {
 public:
  std::set<std::string> different;  // keys that differ
  int compared = 0;
  int64_t compare_ms = 0;
  std::vector<HealKey> healed;
  bool lists = true;
  ReplPosition healed_end{"h", 10};
  std::string faults;
  Status heal_status;

  bool lists_keys() const override { return lists; }
  std::string healable_faults() const override { return faults; }
  std::string pair() const override { return "a b"; }
  Result<std::vector<HealKey>> next_keys(PassCursor* cursor, int64_t) override {
    cursor->done = true;
    return std::vector<HealKey>{};
  }
  Result<Healing> compare(const SlotSet&, const std::vector<HealKey>& keys, bool,
                          int64_t) override {
    ++compared;
    if (compare_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(compare_ms));
    return healing(keys);
  }
  Result<Healing> heal(const CutAttempt&, const std::vector<HealKey>& keys, int64_t) override {
    healed = keys;
    if (!heal_status) return heal_status;
    Healing out = healing(keys);
    out.old_end = healed_end;
    return out;
  }

 private:
  Healing healing(const std::vector<HealKey>& keys) const {
    Healing out;
    out.compared = static_cast<int64_t>(keys.size());
    for (const HealKey& at : keys) {
      if (different.contains(at.key)) out.different.push_back(at);
    }
    return out;
  }
};

// Has notes for the pause, as workers would.
class NotingPlane : public FakePlane {
 public:
  KeyNotes next;
  std::string when = "";  // brought when this phase was published last
  KeyNotes take_notes() override {
    if (!when.empty() && (phases().empty() || phases().back() != when)) return {};
    return std::exchange(next, {});
  }
};

struct OpenGate : HoldGate {
  bool take_turn(const std::function<bool()>&, int64_t* gap_us) override {
    *gap_us = -1;
    return true;
  }
  void end_turn(bool) override {}
};

struct HealRig {
  HealRig() : plan(test_plan()), board(plan), permits(&clock), lists() {
    driver.fake_traits.heals = true;
    board.attach(&plane);
    permits.grant(plan.slots);
    lists.list->expect_pair("a b");
    lists.list->set_passed(lists.list->life());
  }
  std::string cut() {
    RunPorts ports{&plan, lists.store.get(), &board, &permits, &driver, &plane, &stats, &clock,
                   Log(), lists.list.get()};
    if (!machine) machine = std::make_unique<CutoverMachine>(driver.fake_traits, SlotPhase::kOld);
    InterruptBox interrupts;
    UnitRun run(ports, &interrupts, machine.get(), SlotSet::of(901), 200);
    OpenGate gate;
    run.attempt(lists.store->reserve_epoch(), &gate);
    return cat(phase_name(machine->phase()), ": ", run.text());
  }
  SystemClock clock;
  MovePlan plan;
  SlotBoard board;
  Permits permits;
  HealingDriver driver;
  NotingPlane plane;
  PauseStats stats;
  ListRig lists;
  std::unique_ptr<CutoverMachine> machine;
};

TEST_CASE("I2b: what differs before the pause or was noted up to the hold is healed in it") {
  HealRig rig;
  for (const char* key : {"equal", "other"}) rig.lists.note(901, key);
  rig.lists.note(902, "of another unit");
  rig.driver.different = {"other"};
  rig.plane.next.keys.push_back({901, 0, "late"});
  rig.plane.when = "PROMOTE";
  CHECK(rig.cut() == "NEW: switched at h:10; 1 of 2 keys of the heal list were put right");
  REQUIRE(rig.driver.healed.size() == 2);
  CHECK(rig.driver.healed[0].key == "late");
  CHECK(rig.driver.healed[1].key == "other");
  CHECK(rig.lists.count(901) == 0);
  CHECK(rig.lists.count(902) == 1);
  CHECK(rig.lists.list->report().healed == 1);
}

TEST_CASE("I2b: while strangers are connected to the old side no comparison counts") {
  HealRig rig;
  auto driver = std::make_unique<HealingDriver>();
  HealingDriver* asked = driver.get();
  ManualClock clock;
  HealPass pass(rig.plan, std::move(driver), rig.lists.list.get(), &rig.permits, &rig.plane, &clock,
                Log());
  pass.round();
  CHECK(rig.lists.list->passed());
  asked->fail("check_writers", Status::refused("a stranger is connected"));
  clock.advance_ms(1'500);
  pass.round();
  CHECK(!rig.lists.list->passed());
  CHECK(rig.cut().starts_with("OLD"));
  asked->fail("check_writers", Status::ok());
  for (int round = 0; round < 3; ++round) {
    clock.advance_ms(1'500);
    pass.round();
  }
  CHECK(rig.lists.list->passed());
}

TEST_CASE("I2b: a pass counts no longer when writes may have gone by, what is listed stays") {
  ListRig rig;
  rig.note(901, "a");
  rig.list->expect_pair("x y");
  const uint64_t under_way = rig.list->life();
  rig.list->expire_pass("no permit");
  rig.list->set_passed(under_way);
  CHECK(!rig.list->passed());
  rig.list->set_passed(rig.list->life());
  rig.list->expire_pass("no permit");
  CHECK(!rig.list->passed());
  CHECK(rig.count(901) == 1);
  REQUIRE(rig.list->close().is_ok());
  rig.begin(false);
  CHECK(!rig.list->passed());
}

TEST_CASE("I2b: without a pass no cutover, where keys can be listed or a fault was found") {
  HealRig rig;
  rig.lists.begin(false);  // void
  const std::string text = rig.cut();
  CHECK(text.starts_with("OLD: "));
  CHECK(text.find("both sides are to be compared") != std::string::npos);
  CHECK(rig.plane.phases().empty());  // nothing was held
  rig.driver.lists = false;
  rig.driver.faults = "INCR loses the TTL";
  CHECK(rig.cut().find("add \"uncompared\"") != std::string::npos);
  rig.plan.accept = {"uncompared"};
  CHECK(rig.cut().starts_with("NEW"));
}

TEST_CASE("I9 6.2: a list too long for the pause postpones the cutover before anything is held") {
  HealRig rig;
  for (int i = 0; i < 10; ++i) {
    rig.lists.note(901, cat("k", i));
    rig.driver.different.insert(cat("k", i));
  }
  rig.driver.compare_ms = 60;
  const std::string text = rig.cut();
  CHECK(text.find("postponed: healing 10 keys") != std::string::npos);
  CHECK(rig.plane.phases().empty());
  rig.driver.compare_ms = 0;
  CHECK(rig.cut().starts_with("NEW"));
}

TEST_CASE("I2b I3: a failed heal, a moved end, a list that became void in the hold: taken back") {
  for (const char* what : {"heal", "end", "void"}) {
    CAPTURE(what);
    HealRig rig;
    rig.lists.note(901, "a");
    rig.driver.different = {"a"};
    if (what[0] == 'h') rig.driver.heal_status = Status::timeout("no answer");
    if (what[0] == 'e') rig.driver.healed_end = {"h", 11};
    if (what[0] == 'v') {
      rig.plane.next.overflowed = true;
      rig.plane.when = "PROMOTE";
    }
    CHECK(rig.cut().starts_with("OLD: taken back: ("));
    CHECK(rig.lists.store->record(901).phase == SlotPhase::kOld);
    CHECK(rig.driver.count("follow_again") == 1);
  }
}

}  // namespace
}  // namespace sf
