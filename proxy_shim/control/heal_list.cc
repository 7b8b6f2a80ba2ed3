#include "proxy_shim/control/heal_list.h"

#include <nlohmann/json.hpp>

#include "common/base/strings.h"

namespace sf {

Status HealList::open() {
  std::lock_guard guard(mutex_);
  if (open_) return Status::ok();
  const std::optional<HealRecord> found = store_->heal_record();
  if (found && found->clean) {
    Result<std::vector<ListedKey>> keys = store_->heal_keys();
    if (!keys) return keys.status();
    record_ = *found;
    record_.clean = false;
    open_ = true;
    // Synced: no end without close() may leave a list that looks whole.
    Status status = store_->put_heal(record_, {}, {}, true);
    if (status) add_locked(*keys);
    return status;
  }
  open_ = true;
  if (!found) return store_->clear_heal(record_);
  begin_anew_locked("the shim did not stop cleanly and its last notes are lost");
  return Status::ok();
}

bool HealList::is_open() const {
  std::lock_guard guard(mutex_);
  return open_;
}

Status HealList::close() {
  std::lock_guard guard(mutex_);
  if (!open_) return Status::ok();
  open_ = false;
  record_.clean = true;
  Status status = store_->put_heal(record_, {}, {}, true);
  record_.clean = false;
  return status;
}

void HealList::begin_anew_locked(const std::string& why) {
  keys_.clear();
  bytes_ = 0;
  ++life_;
  record_.passed = false;
  why_ = why;
  progress_.clear();
  log_.warning(cat("the heal list begins anew: ", why,
                   "; no cutover before both sides were compared again"));
  store_->audit({{"what", "heal list void"}, {"why", why}});
  if (const Status status = store_->clear_heal(record_); !status) log_.error(status.text());
}

// On the disk before anything relies on it: a clean stop is synced, and after any other the list is
// void.
void HealList::save_locked(const std::vector<ListedKey>& add, const std::vector<ListedKey>& drop) {
  if (const Status status = store_->put_heal(record_, add, drop, false); !status) {
    log_.error(cat("the heal list is not kept: ", status.text()));
  }
}

void HealList::take_from(DataPlane& plane) {
  std::lock_guard guard(taking_);
  add(plane.take_notes());
}

void HealList::add(const KeyNotes& notes) {
  std::lock_guard guard(mutex_);
  if (!open_) return;
  if (notes.overflowed) {
    begin_anew_locked("more keys were written in a short time than can be noted");
  }
  std::vector<ListedKey> keys;
  keys.reserve(notes.keys.size());
  for (const KeyNote& note : notes.keys) keys.push_back({note.slot, {note.db, note.key}});
  add_locked(keys);
}

void HealList::add(const std::vector<ListedKey>& found) {
  std::lock_guard guard(mutex_);
  if (open_) add_locked(found);
}

void HealList::add_locked(const std::vector<ListedKey>& keys) {
  std::vector<ListedKey> fresh;
  for (const ListedKey& key : keys) {
    uint64_t& noted = keys_[key];
    if (noted == 0) {
      fresh.push_back(key);
      bytes_ += key.at.key.size();
    }
    noted = next_note_++;
  }
  if (keys_.size() > limits_.keys_max || bytes_ > limits_.bytes_max) {
    return begin_anew_locked(
        cat("it held more than ", limits_.keys_max, " keys or ", limits_.bytes_max >> 20, " MiB"));
  }
  if (!fresh.empty()) save_locked(fresh, {});
}

std::vector<HealList::Snapshot> HealList::keys(const SlotSet& slots) const {
  std::lock_guard guard(mutex_);
  std::vector<Snapshot> out;
  for (const auto& [key, noted] : keys_) {
    if (slots.contains(key.slot)) out.push_back({key, noted});
  }
  return out;
}

void HealList::drop(const std::vector<Snapshot>& equal) {
  std::lock_guard guard(mutex_);
  std::vector<ListedKey> dropped;
  for (const Snapshot& one : equal) {
    const auto found = keys_.find(one.key);
    if (found == keys_.end() || found->second != one.noted) continue;
    bytes_ -= one.key.at.key.size();
    keys_.erase(found);
    dropped.push_back(one.key);
  }
  if (!dropped.empty()) save_locked({}, dropped);
}

void HealList::forget(const SlotSet& slots) {
  drop(keys(slots));
}

int64_t HealList::size() const {
  std::lock_guard guard(mutex_);
  return static_cast<int64_t>(keys_.size());
}

uint64_t HealList::life() const {
  std::lock_guard guard(mutex_);
  return life_;
}

bool HealList::passed() const {
  std::lock_guard guard(mutex_);
  return record_.passed;
}

void HealList::set_passed(uint64_t life) {
  std::lock_guard guard(mutex_);
  if (life != life_ || record_.passed) return;
  record_.passed = true;
  progress_.clear();
  save_locked({}, {});
}

void HealList::expire_pass(const std::string& why) {
  std::lock_guard guard(mutex_);
  ++life_;  // a pass under way, too
  if (!record_.passed) return;
  record_.passed = false;
  log_.info(cat("both sides are compared again before a cutover: ", why));
  store_->audit({{"what", "comparison of both sides void"}, {"why", why}});
  save_locked({}, {});
}

void HealList::expect_pair(const std::string& pair) {
  std::lock_guard guard(mutex_);
  if (!open_ || pair == record_.pair) return;
  // A pass under way was about other processes, too.
  if (!record_.pair.empty()) ++life_;
  record_.passed = record_.passed && record_.pair.empty();
  record_.pair = pair;
  save_locked({}, {});
}

void HealList::set_progress(const std::string& text) {
  std::lock_guard guard(mutex_);
  progress_ = text;
}

void HealList::set_faults(const std::string& text) {
  std::lock_guard guard(mutex_);
  faults_ = text;
}

void HealList::count_healing(int64_t compared, int64_t healed) {
  std::lock_guard guard(mutex_);
  compared_ += compared;
  healed_ += healed;
}

HealList::Report HealList::report() const {
  std::lock_guard guard(mutex_);
  Report out{open_, static_cast<int64_t>(keys_.size()), compared_, healed_, "off", faults_};
  if (!open_) return out;
  if (record_.passed) {
    out.state = "complete";
    return out;
  }
  out.state = progress_.empty() ? "both sides are to be compared" : progress_;
  if (!why_.empty()) out.state += cat(" (it began anew: ", why_, ")");
  return out;
}

}  // namespace sf
