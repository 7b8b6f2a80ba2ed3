// Verbs and the disk (ADR 0014): nobody waits for a verb's fsync but the verb, nothing is said
// before it, and until then the stricter of old and new is in force.
#include <future>

#include "tests/unit/storage_node/engine/slow_disk.h"
#include "tests/unit/storage_node/replica/replica_rig.h"

namespace sf {
namespace {

const HostPort kMaster{"10.0.0.1", 9221};
const PlanEpoch kPlan{"p", 1};

struct SlowRig {
  std::shared_ptr<SlowDisk> disk = std::make_shared<SlowDisk>();
  ReplicaRig rig{disk};
  ~SlowRig() { disk->turnpike.shut(false); }

  // Runs `verb` and comes back when it waits for the disk.
  template <class Verb>
  auto begin(Verb verb) {
    disk->turnpike.shut(true);
    auto running = std::async(std::launch::async, verb);
    REQUIRE(disk->turnpike.wait_for_somebody());
    CHECK(running.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
    CHECK(rig.write(6, "other") == "");  // other slots' writers go on
    return running;
  }
  template <class Running>
  auto end(Running& running) {
    disk->turnpike.shut(false);
    return running.get();
  }
};

TEST_CASE("verbs: an epoch refuses lower ones before it is on disk, and is told afterwards") {
  SlowRig slow;
  auto running =
      slow.begin([&] { return slow.rig.control->announce_epoch(SlotSet::of(5), kPlan); });
  // A fence that needs no record of its own would have to wait for the verb: it says so.
  CHECK_FALSE(slow.rig.control->try_fence_leased(SlotSet::of(7), kPlan, 1000));
  CHECK(slow.end(running));
  CHECK_FALSE(
      slow.rig.control->try_fence_leased(SlotSet::of(7), kPlan, 1000));  // no epoch of 7 yet
  auto fenced = slow.rig.control->try_fence_leased(SlotSet::of(5), kPlan, 1000);
  REQUIRE(fenced);
  CHECK(*fenced);
}

TEST_CASE(
    "verbs: a permanent fence is in force at once, and is called so when it is on disk (I2 c)") {
  SlowRig slow;
  ReplicaRig& rig = slow.rig;
  REQUIRE(rig.control->fence_leased(SlotSet::of(5), kPlan, 60'000));
  auto running =
      slow.begin([&] { return rig.control->fence_permanently(SlotSet::of(5), kPlan, kMaster); });
  rig.clock.advance_ms(61'000);  // the lease alone would have run out
  CHECK(rig.write(5, "a").starts_with("TRYAGAIN"));
  CHECK(rig.engine->read_refusal(5).starts_with("MOVEDSLOT"));
  CHECK(rig.status(5).fence == "leased");
  CHECK(slow.end(running));
  CHECK(rig.status(5).fence == "permanent");
}

TEST_CASE("verbs: a fence that is lifted stands until its end is on disk") {
  SlowRig slow;
  ReplicaRig& rig = slow.rig;
  REQUIRE(rig.control->fence_leased(SlotSet::of(5), kPlan, 60'000));
  REQUIRE(rig.control->fence_permanently(SlotSet::of(5), kPlan, kMaster));
  auto running = slow.begin([&] { return rig.control->unfence(SlotSet::of(5), kPlan); });
  CHECK(rig.write(5, "a").starts_with("TRYAGAIN"));
  CHECK(slow.end(running));
  CHECK(rig.write(5, "a") == "");
}

TEST_CASE("verbs: a promoted slot takes no write before the promote is on disk (I3)") {
  SlowRig slow;
  ReplicaRig& rig = slow.rig;
  HistoryChain chain;
  REQUIRE(chain.add({std::string(40, 'a'), "", 0}));
  REQUIRE(rig.control->slots_slave_of(kMaster, SlotSet::of(5), false));
  rig.accept(kMaster, chain, 10);
  auto running = slow.begin([&] {
    return rig.control->promote(SlotSet::of(5), kPlan, {chain.current(), 10});
  });
  CHECK(rig.write(5, "a").starts_with("READONLY"));
  CHECK(rig.state->sources.empty());  // and nothing replicated comes any more
  CHECK(slow.end(running));
  CHECK(rig.write(5, "a") == "");
}

TEST_CASE("verbs: a slot that follows refuses writes before that is on disk") {
  SlowRig slow;
  ReplicaRig& rig = slow.rig;
  auto running =
      slow.begin([&] { return rig.control->slots_slave_of(kMaster, SlotSet::of(5), false); });
  CHECK(rig.write(5, "a").starts_with("READONLY"));
  CHECK(slow.end(running));
}

}  // namespace
}  // namespace sf
