// What an attempt does for servers that replicate unfaithfully (DESIGN 6.4, I2b): before the pause
// it makes the heal list short and judges whether the rest fits into the pause; in it, it heals.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "proxy_shim/control/unit_run.h"

namespace sf {
namespace {

constexpr int64_t kCompareMs = 5'000;  // of one part, outside the pause
constexpr size_t kPart = 2'000;        // keys between two looks at the interrupts
constexpr int64_t kFixedUs = 5'000;    // a note and a look at the old side
constexpr int64_t kCostFactor = 3;     // compared once now; in the pause read, written, read again
constexpr const char* kUncompared = "uncompared";

bool accepts(const MovePlan& plan, const std::string& what) {
  return std::find(plan.accept.begin(), plan.accept.end(), what) != plan.accept.end();
}

std::vector<HealKey> places(const std::vector<HealList::Snapshot>& listed) {
  std::vector<HealKey> out;
  for (const HealList::Snapshot& one : listed) out.push_back(one.key.at);
  return out;
}

}  // namespace

Status UnitRun::forecast_heal() {
  if (ports_.heals == nullptr) return Status::refused("there is no heal list for this pair");
  HealList& list = *ports_.heals;
  const std::string faults = ports_.driver->healable_faults();
  list.set_faults(faults);
  list.take_from(*ports_.plane);
  list.expect_pair(ports_.driver->pair());
  if (!list.passed() && !accepts(*ports_.plan, kUncompared)) {
    if (ports_.driver->lists_keys()) {
      return Status::unavailable(cat("these servers do not replicate faithfully",
                                     faults.empty() ? "" : " (" + faults + ")", ": ",
                                     list.report().state, "; the cutover waits for that"));
    }
    if (!faults.empty()) {
      return Status::refused(cat(
          "these servers do not replicate faithfully: ", faults,
          ". Keys written since the shim was attached are healed; older ones cannot be listed on "
          "this kind. If they were compared, add \"uncompared\" to the plan's accept and say "
          "SHIM RELOAD"));
    }
  }
  return trim_heal_list();
}

// Of `listed`, those that differ now. The others go off the list, unless they were noted again.
Result<std::vector<HealList::Snapshot>> UnitRun::still_different(
    const std::vector<HealList::Snapshot>& listed, bool settled_first) {
  std::vector<HealList::Snapshot> left;
  for (size_t at = 0; at < listed.size(); at += kPart) {
    const std::vector<HealList::Snapshot> part(
        listed.begin() + static_cast<std::ptrdiff_t>(at),
        listed.begin() + static_cast<std::ptrdiff_t>(std::min(at + kPart, listed.size())));
    Result<Healing> seen =
        ports_.driver->compare(slots_, places(part), settled_first && at == 0, kCompareMs);
    if (!seen) return seen.status();
    std::sort(seen->different.begin(), seen->different.end());
    std::vector<HealList::Snapshot> equal;
    for (const HealList::Snapshot& one : part) {
      const bool differs =
          std::binary_search(seen->different.begin(), seen->different.end(), one.key.at);
      (differs ? left : equal).push_back(one);
    }
    ports_.heals->drop(equal);
    if (const std::string why = interrupt_reason(); !why.empty()) return Status::unavailable(why);
  }
  return left;
}

Status UnitRun::trim_heal_list() {
  HealList& list = *ports_.heals;
  const std::vector<HealList::Snapshot> listed = list.keys(slots_);
  if (listed.empty()) return Status::ok();
  Result<std::vector<HealList::Snapshot>> left = still_different(listed, true);
  if (!left) return left.status();
  // What clients noted meanwhile is on it, too: that is how much there will be.
  list.take_from(*ports_.plane);
  const std::vector<HealList::Snapshot> rest = list.keys(slots_);
  const int64_t start_us = ports_.clock->mono_us();
  left = still_different(rest, false);
  if (!left) return left.status();
  const int64_t cost_us = kFixedUs + kCostFactor * (ports_.clock->mono_us() - start_us);
  const int64_t room_us = max_pause_ms_ * 1000 / 2;
  if (cost_us <= room_us) return Status::ok();
  return Status::unavailable(
      cat("postponed: healing ", rest.size(), " keys of the heal list, of which ", left->size(),
          " differ now, is expected to take ", cost_us / 1000, " ms (",
          (cost_us - kFixedUs) / std::max<int64_t>(static_cast<int64_t>(rest.size()), 1),
          " us a key), and half of the pause is ", room_us / 1000,
          " ms: a longer MAXPAUSE, or fewer writes of that kind"));
}

// With everything held every note of a write that was sent is with the workers.
CutEvent UnitRun::heal(CutEvent event) {
  if (ports_.heals == nullptr) {
    event.status = Status::refused("there is no heal list for this pair");
    return event;
  }
  HealList& list = *ports_.heals;
  const uint64_t life = list.life();
  list.take_from(*ports_.plane);
  if (list.life() != life ||
      (!list.passed() && ports_.driver->lists_keys() && !accepts(*ports_.plan, kUncompared))) {
    event.status = Status::refused("the heal list is void: " + list.report().state);
    return event;
  }
  const std::vector<HealKey> keys = places(list.keys(slots_));
  Result<Healing> healing = ports_.driver->heal(attempt_, keys, step_ms(kCompareMs));
  event.status = healing.status();
  if (!healing) return event;
  event.old_end = healing->old_end;
  const auto healed = static_cast<int64_t>(healing->different.size());
  list.count_healing(healing->compared, healed);
  healed_ = cat(healed, " of ", healing->compared, " keys of the heal list were put right");
  ports_.store->audit({{"what", "healed"},
                       {"slots", slots_.text()},
                       {"epoch", attempt_.epoch},
                       {"compared", healing->compared},
                       {"healed", healed},
                       {"found", healing->found}});
  return event;
}

}  // namespace sf
