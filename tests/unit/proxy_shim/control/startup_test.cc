#include "proxy_shim/control/startup.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

using Link = SlotReport::Link;
using Fence = SlotReport::Fence;

SlotReport master(const ReplPosition& at, Fence fence = Fence::kNo) {
  return {true, at, Link::kNone, fence};
}
SlotReport replica(const ReplPosition& at) {
  return {false, at, Link::kUp, Fence::kNo};
}

SlotRecord owned_by_new() {
  SlotRecord out;
  out.phase = SlotPhase::kNew;
  out.epoch = out.attempt = 3;
  out.proof = {"h", 10};
  out.promoted = {"n", 1};
  out.linked = out.marked = true;
  return out;
}

TEST_CASE("I3: without an owner record the new side follows again and the fence is lifted") {
  const CutTraits node;
  SlotRecord old_owned;
  const auto judge = [&](const SlotReport& o, const SlotReport& n, uint64_t marker = 0) {
    return judge_slot(905, old_owned, o, n, node, marker);
  };
  // Never tried: an unrelated new side is left alone.
  CHECK(!judge(master({"h", 9}), master({"x", 0})).debts.follow);
  CHECK(judge(master({"h", 9}), master({"x", 0})).phase == SlotPhase::kOld);
  old_owned.attempt = 3;
  CHECK(judge(master({"h", 9}, Fence::kLeased), replica({"h", 9})).debts.unfence);
  CHECK(!judge(master({"h", 9}, Fence::kLeased), replica({"h", 9})).debts.follow);
  const SlotVerdict both = judge(master({"h", 9}, Fence::kPermanent), master({"n", 0}));
  CHECK(both.debts.follow);
  CHECK(both.debts.unfence);
  CHECK(judge(replica({"n", 9}), master({"n", 0})).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h", 9}), replica({"h", 9}), 7).phase == SlotPhase::kDoubt);
}

TEST_CASE("I1: the record says new: what disagrees is DOUBT") {
  const CutTraits node;
  const CutTraits whole{true, false, false};
  const SlotRecord record = owned_by_new();
  const auto judge = [&](const SlotReport& o, const SlotReport& n) {
    return judge_slot(905, record, o, n, node, 0);
  };
  CHECK(judge(master({"h", 10}, Fence::kPermanent), master({"n", 5})).phase == SlotPhase::kNew);
  CHECK(judge(replica({"n", 5}), master({"n", 5})).text.empty());
  CHECK(judge(replica({"n", 5}), replica({"h", 10})).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h", 11}), master({"n", 5})).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h", 10}), master({"n", 5})).phase == SlotPhase::kNew);
  CHECK(!judge(master({"h", 10}), master({"n", 5})).text.empty());
  CHECK(judge_slot(905, record, master({"h", 10}), master({"n", 5}), whole, 0).phase ==
        SlotPhase::kDoubt);
  CHECK(judge_slot(905, record, master({"h", 99}), master({"n", 5}), whole, 3).phase ==
        SlotPhase::kNew);
  // I1: at the owner's address stands a server that was never promoted, or later than known.
  SlotReport stranger = master({"n", 5});
  stranger.promoted = 0;
  CHECK(judge(replica({"n", 5}), stranger).phase == SlotPhase::kDoubt);
  stranger.promoted = record.epoch + 1;
  CHECK(judge(replica({"n", 5}), stranger).phase == SlotPhase::kDoubt);
  stranger.promoted = record.epoch;
  CHECK(judge(replica({"n", 5}), stranger).phase == SlotPhase::kNew);
  SlotRecord unmarked = record;
  unmarked.marked = false;
  CHECK(judge_slot(905, unmarked, master({"h", 10}), master({"n", 5}), whole, 0).debts.mark);
}

TEST_CASE("I3: a roll back without an owner record is taken back to the new side") {
  const CutTraits node;
  SlotRecord record = owned_by_new();
  record.attempt = 5;
  record.back = true;
  const auto judge = [&](const SlotReport& o, SlotReport n) {
    n.promoted = record.epoch;
    return judge_slot(905, record, o, n, node, 0);
  };
  // The pause had begun.
  SlotVerdict verdict = judge(replica({"n", 5}), master({"n", 5}, Fence::kLeased));
  CHECK(verdict.phase == SlotPhase::kNew);
  CHECK(verdict.back);
  CHECK(verdict.debts.unfence);
  CHECK(!verdict.debts.follow);
  // The old side was promoted.
  verdict = judge(master({"h2", 9}), master({"n", 5}, Fence::kPermanent));
  CHECK(verdict.phase == SlotPhase::kNew);
  CHECK(verdict.debts.follow);
  CHECK(verdict.debts.unfence);
  // What no roll back leaves behind: two open sides, the owner a replica, a stranger at its
  // address.
  CHECK(judge(master({"h2", 9}), master({"n", 5})).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h2", 9}), replica({"n", 5})).phase == SlotPhase::kDoubt);
  record.epoch = 4;
  SlotReport stranger = master({"n", 5});
  stranger.promoted = 0;
  CHECK(judge_slot(905, record, replica({"n", 5}), stranger, node, 0).phase == SlotPhase::kDoubt);
}

TEST_CASE(
    "I1: the record says that it went back: what disagrees is DOUBT, the way back is tied up") {
  const CutTraits node;
  SlotRecord record;
  record.phase = SlotPhase::kOld;
  record.back = true;
  record.epoch = record.attempt = 6;
  record.proof = {"n", 20};
  record.promoted = {"h2", 30};
  const auto judge = [&](SlotReport o, const SlotReport& n, uint64_t promoted = 6) {
    o.promoted = promoted;
    return judge_slot(905, record, o, n, node, 0);
  };
  SlotVerdict verdict = judge(master({"h2", 31}), master({"n", 20}, Fence::kPermanent));
  CHECK(verdict.phase == SlotPhase::kOld);
  CHECK(verdict.back);
  CHECK(verdict.debts.link);
  CHECK(verdict.debts.promoted == ReplPosition{"h2", 30});
  CHECK(!verdict.debts.follow);
  record.linked = true;
  CHECK(!judge(master({"h2", 31}), replica({"h2", 31})).debts.link);
  CHECK(judge(replica({"n", 20}), master({"n", 20})).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h2", 31}), master({"n", 25})).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h2", 31}), replica({"h2", 31}), 0).phase == SlotPhase::kDoubt);
  CHECK(judge(master({"h2", 31}), replica({"h2", 31}), 7).phase == SlotPhase::kDoubt);
  // And an attempt forward after it, taken back as ever; its owner is who was promoted on the way
  // back.
  record.back = false;
  record.attempt = 8;
  verdict = judge(master({"h2", 31}, Fence::kPermanent), master({"n2", 1}));
  CHECK(verdict.phase == SlotPhase::kOld);
  CHECK(!verdict.back);
  CHECK(verdict.debts.follow);
  CHECK(judge(master({"h2", 31}), replica({"h2", 31}), 0).phase == SlotPhase::kDoubt);
}

struct StartRig {
  StartRig() {
    store = std::move(*StateStore::open(dir.path(), plan, true, &clock));
    plan.slots.for_each([&](int slot) {
      driver.fake_survey.old_side[slot] = master({"h", 10});
      driver.fake_survey.new_side[slot] = replica({"h", 10});
    });
  }
  Result<StartVerdicts> settle() {
    return settle_at_start(plan, *store, driver, 100, Log(), &back);
  }

  TempDir dir;
  SystemClock clock;
  MovePlan plan = test_plan();
  std::unique_ptr<StateStore> store;
  FakeDriver driver;
  FakeDriver back;
};

TEST_CASE("I10: the epoch is raised before anything is asked or taken back") {
  StartRig rig;
  CHECK(rig.store->record_intent(SlotSet::of(905), 1, {}).is_ok());
  rig.driver.fake_survey.old_side[905] = master({"h", 10}, Fence::kPermanent);
  rig.driver.fake_survey.new_side[905] = master({"n", 0});
  const auto verdicts = rig.settle();
  REQUIRE(verdicts.is_ok());
  CHECK(verdicts->epoch == 2);
  CHECK(rig.driver.calls() ==
        std::vector<std::string>{"raise_epoch", "survey", "follow_again", "unfence", "release"});
  CHECK(verdicts->slots.at(905).phase == SlotPhase::kOld);
  CHECK(!verdicts->slots.at(905).debts.follow);
}

TEST_CASE("I10: what a roll back left is taken back by the driver of its direction") {
  StartRig rig;
  SlotRecord record = owned_by_new();
  record.epoch = record.attempt = 1;
  CHECK(rig.store->record_intent(SlotSet::of(905), 1, {}).is_ok());
  CHECK(rig.store->commit_owner(SlotSet::of(905), record, {}).is_ok());
  CHECK(rig.store->record_intent(SlotSet::of(905), 2, {}, true).is_ok());
  rig.driver.fake_survey.old_side[905] = master({"h2", 9});
  rig.driver.fake_survey.new_side[905] = master({"n", 7}, Fence::kPermanent);
  const auto verdicts = rig.settle();
  REQUIRE(verdicts.is_ok());
  CHECK(verdicts->slots.at(905).phase == SlotPhase::kNew);
  CHECK(!verdicts->slots.at(905).debts.follow);
  CHECK(rig.driver.calls() == std::vector<std::string>{"raise_epoch", "survey"});
  CHECK(rig.back.calls() == std::vector<std::string>{"follow_again", "unfence", "release"});
}

TEST_CASE("I3: an owner that still is closed since it was left before is opened") {
  StartRig rig;
  SlotRecord record = owned_by_new();
  record.epoch = record.attempt = 1;
  bool back = false;
  SUBCASE("the new side, switched to again") {}
  SUBCASE("handed back") {
    record.phase = SlotPhase::kFinal;
  }
  SUBCASE("the old side, after a roll back") {
    record.phase = SlotPhase::kOld;
    record.back = back = true;
  }
  CHECK(rig.store->record_intent(SlotSet::of(905), 1, {}, back).is_ok());
  CHECK(rig.store->commit_owner(SlotSet::of(905), record, {}).is_ok());
  auto& survey = rig.driver.fake_survey;
  (back ? survey.old_side : survey.new_side)[905] = master({"n", 7}, Fence::kPermanent);
  (back ? survey.new_side : survey.old_side)[905] = replica({"n", 7});
  FakeDriver& driver = back ? rig.back : rig.driver;
  driver.fail("mark", Status::timeout("no answer"));
  auto verdicts = rig.settle();
  REQUIRE(verdicts.is_ok());
  CHECK(verdicts->slots.at(905).phase == record.phase);
  CHECK(verdicts->slots.at(905).debts.mark);
  CHECK(verdicts->slots.at(905).text.find("opening the") == 0);
  driver.mend("mark");
  verdicts = rig.settle();
  CHECK(!verdicts->slots.at(905).debts.mark);
  CHECK(driver.count("mark") == 2);
}

TEST_CASE("I10: a start whose servers know a higher epoch, or cannot be asked, does not serve") {
  StartRig rig;
  rig.driver.fail("raise_epoch", Status::refused("STALEEPOCH plan p1 is at epoch 9"));
  CHECK(rig.settle().status().text().find("older copy") != std::string::npos);
  rig.driver.mend("raise_epoch");
  rig.driver.fail("survey", Status::unavailable("down"));
  CHECK(rig.settle().status().code() == Code::kUnavailable);
}

TEST_CASE("I3: a new side that will not follow again is DOUBT, one that is away is owed") {
  StartRig rig;
  CHECK(rig.store->record_intent(SlotSet::of(905), 1, {}).is_ok());
  rig.driver.fake_survey.old_side[905] = master({"h", 10}, Fence::kPermanent);
  rig.driver.fake_survey.new_side[905] = master({"n", 4});
  rig.driver.fail("follow_again", Status::refused("slot 905 took a write of its own"));
  auto verdicts = rig.settle();
  CHECK(verdicts->slots.at(905).phase == SlotPhase::kDoubt);
  CHECK(rig.driver.count("unfence") == 0);
  rig.driver.fail("follow_again", Status::timeout("no answer"));
  verdicts = rig.settle();
  CHECK(verdicts->slots.at(905).phase == SlotPhase::kOld);
  CHECK(verdicts->slots.at(905).debts.follow);
  CHECK(!verdicts->slots.at(905).debts.unfence);
}

}  // namespace
}  // namespace sf
