#include "proxy_shim/control/heal_pass.h"

#include <algorithm>
#include <chrono>

#include "common/base/strings.h"
#include "common/slots/slot_hash.h"

namespace sf {
namespace {

constexpr std::chrono::milliseconds kRound{200};
constexpr int64_t kWorkUs = 60'000;  // of a round
constexpr int64_t kAskMs = 2'000;
constexpr int64_t kLookUs = 1'000'000;
constexpr int kLooks = 4;  // at a key that differs, one a round, before it is listed
constexpr size_t kSuspectsMax = 2'000;

}  // namespace

HealPass::HealPass(const MovePlan& plan, std::unique_ptr<BackendDriver> driver, HealList* list,
                   Permits* permits, DataPlane* plane, const Clock* clock, Log log)
    : plan_(plan),
      driver_(std::move(driver)),
      list_(list),
      permits_(permits),
      plane_(plane),
      clock_(clock),
      log_(std::move(log)),
      thread_(kRound, [this] { round(); }) {}

void HealPass::start() {
  if (driver_ != nullptr) thread_.start();
}

void HealPass::stop() {
  if (driver_ != nullptr) thread_.stop();
}

void HealPass::round() {
  list_->take_from(*plane_);
  if (!driver_->lists_keys()) return;
  std::string why_not;
  if (list_->passed()) {
    if (permits_->valid(plan_.slots, &why_not)) (void)strangers_write();
    return;
  }
  if (!permits_->valid(plan_.slots, &why_not)) {
    life_ = 0;  // writes may have gone by: from the beginning
    return;
  }
  const SyncState sync = driver_->sync_state(SlotSet::of(plan_.slots.first()), kAskMs);
  if (!sync.following && life_ == 0) {
    list_->set_progress(cat("both sides are to be compared; not in sync: ", sync.text));
  }
  if (!sync.following || strangers_write()) return;
  list_->expect_pair(driver_->pair());
  if (life_ != list_->life()) begin();
  const int64_t end_us = clock_->mono_us() + kWorkUs;
  look_again();
  while (clock_->mono_us() < end_us && suspects_.size() < kSuspectsMax && !cursor_.done) {
    if (!step()) return;
  }
  list_->set_progress(cat("both sides are being compared: ", keys_, " keys looked at on the ",
                          side_name(cursor_.side), " side, ", different_, " listed"));
  if (!cursor_.done || !suspects_.empty()) return;
  log_.info(cat("both sides were compared: ", keys_, " keys, ", different_, " on the heal list"));
  list_->set_passed(life_);
  life_ = 0;
}

// Their keys are not noted. Looked at each second: what comes and goes in between is not seen.
bool HealPass::strangers_write() {
  if (clock_->mono_us() < look_due_us_) return false;
  look_due_us_ = clock_->mono_us() + kLookUs;
  const Status alone = driver_->check_writers(kAskMs);
  if (alone.code() != Code::kRefused) return false;
  life_ = 0;
  list_->expire_pass(alone.text());
  return true;
}

void HealPass::begin() {
  life_ = list_->life();
  cursor_ = {};
  keys_ = different_ = 0;
  suspects_.clear();
}

// False: a server did not answer; the next round goes on.
bool HealPass::step() {
  PassCursor next = cursor_;
  Result<std::vector<HealKey>> keys = driver_->next_keys(&next, kAskMs);
  Result<Healing> seen =
      keys ? driver_->compare(plan_.slots, *keys, false, kAskMs) : Result<Healing>(keys.status());
  if (!seen) {
    if (seen.status().text() != last_error_) {
      log_.warning(cat("comparing both sides waits: ", seen.status().text()));
    }
    last_error_ = seen.status().text();
    return false;
  }
  last_error_.clear();
  cursor_ = next;
  keys_ += static_cast<int64_t>(keys->size());
  for (HealKey& at : seen->different) suspects_.push_back({std::move(at), 1});
  return true;
}

void HealPass::look_again() {
  if (suspects_.empty()) return;
  std::vector<HealKey> keys;
  for (const Suspect& suspect : suspects_) keys.push_back(suspect.at);
  Result<Healing> seen = driver_->compare(plan_.slots, keys, false, kAskMs);
  if (!seen) return;
  std::sort(seen->different.begin(), seen->different.end());
  std::vector<HealKey> found;
  std::erase_if(suspects_, [&](Suspect& suspect) {
    if (!std::binary_search(seen->different.begin(), seen->different.end(), suspect.at)) {
      return true;
    }
    if (++suspect.looks < kLooks) return false;
    found.push_back(suspect.at);
    return true;
  });
  add_found(found);
}

void HealPass::add_found(const std::vector<HealKey>& keys) {
  std::vector<ListedKey> listed;
  for (const HealKey& at : keys) listed.push_back({slot_of(at.key), at});
  different_ += static_cast<int64_t>(listed.size());
  if (!listed.empty()) list_->add(listed);
}

}  // namespace sf
