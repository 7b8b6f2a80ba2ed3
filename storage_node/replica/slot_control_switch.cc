// SlotControl: a slot goes over, and the way back.
#include <algorithm>
#include <map>
#include <utility>

#include "storage_node/replica/slot_control.h"

namespace sf {
namespace {

constexpr int64_t kExpiryHoldUs = 30'000'000;

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

}  // namespace

std::map<int, uint64_t> SlotControl::promoted(const SlotSet& slots, const std::string& plan) const {
  const std::lock_guard lock(state_.mutex);
  std::map<int, uint64_t> out;
  for (int slot : slots.to_vector()) {
    const SlotRecord& record = state_.records[at(slot)];
    out[slot] = !record.followed && record.promote_plan == plan ? record.promote_epoch : 0;
  }
  return out;
}

Result<PromoteAnswer> SlotControl::promote(const SlotSet& slots, const PlanEpoch& by,
                                           const Position& from) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (Status s = check_epoch(slots, by); !s) return s;
  if (state_.full) {
    return Status::refused(cat("ERR this node is a replica of ", state_.full->master.text(),
                               "; SLAVEOF NO ONE promotes it"));
  }
  PromoteAnswer answer;
  answer.applied = UINT64_MAX;
  SlotSet done_before;
  for (int slot : slots.to_vector()) {
    const SlotRecord& record = state_.records[at(slot)];
    if (!record.followed && record.promote_plan == by.plan && record.promote_epoch == by.epoch) {
      done_before.add(slot);
      answer.applied = std::min(answer.applied, record.promote_applied);
      answer.own = record.promote_own;
      continue;
    }
    if (!record.followed) {
      return Status::refused(cat("ERR slot ", slot, " follows nobody here"));
    }
    if (Status s = check_not_storing(slot); !s) return s;
    auto position = state_.applied(slot);
    if (!position) return Status::refused(cat("NOTAPPLIED slot ", slot, " is not copied yet"));
    if (!state_.has_applied(slot, from)) {
      return Status::refused(
          cat("NOTAPPLIED slot ", slot, " has applied ", position->text(), ", not ", from.text()));
    }
    answer.applied = std::min(answer.applied, position->seq);
    if (std::string skew = clock_difference(*state_.source_of(slot)); !skew.empty()) {
      return Status::refused(cat("ERR ", skew,
                                 "; set the clocks right, restart a node that was "
                                 "ahead, and try again"));
    }
  }
  if (done_before == slots) {  // that verb may have failed when it came to the disk
    if (Status s = open_when_settled(slots, lock); !s) return s;
    return answer;
  }
  SlotSet fresh = slots;
  fresh.remove(done_before);
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    // The entry of the log that says all this is the last of the old history: nobody can read it
    // before he can know of the new one.
    const uint64_t fork = gate.last_seq() + 1;
    History history = state_.histories.make(fork, records);
    answer.own = {history.id, history.fork};
    record_epoch(slots, by, records);
    leave(fresh, &records);
    std::map<int, SlotRecord> changed;
    fresh.for_each([&](int slot) {
      SlotRecord owned = state_.records[at(slot)];  // a fence for good is lifted by its plan only
      owned.followed = owned.placed = false;
      owned.master = {};
      owned.mark = fork;
      owned.left = {};
      owned.promote_plan = by.plan;
      owned.promote_epoch = by.epoch;
      owned.promote_applied = answer.applied;
      owned.promote_own = answer.own;
      put_slot_record(slot, owned, records);
      changed[slot] = std::move(owned);
    });
    if (Status s = write(gate, records); !s) return s;
    state_.histories.add(history);
    int64_t hold = state_.clock.mono_us() + kExpiryHoldUs;
    fresh.for_each([&](int slot) {
      state_.records[at(slot)] = std::move(changed[slot]);
      state_.expiry_held[slot] = hold;
      state_.opening.add(slot);
      set_flags(gate, slot);
    });
    return Status::ok();
  });
  if (!done) return done;
  set_epoch(slots, by);
  leave(fresh, nullptr);
  if (Status s = open_when_settled(slots, lock); !s) return s;
  return answer;
}

// Slots that became this node's own take no write before that is on disk.
Status SlotControl::open_when_settled(const SlotSet& slots, std::unique_lock<std::mutex>& lock) {
  if (Status s = settle(lock); !s) return s;
  return state_.engine.with_gate([&](Gate& gate) {
    state_.opening.remove(slots);
    slots.for_each([&](int slot) { set_flags(gate, slot); });
    return Status::ok();
  });
}

Status SlotControl::follow(const SlotSet& slots, const PlanEpoch& by, const HostPort& master,
                           const Position& from) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (Status s = check_epoch(slots, by); !s) return s;
  if (state_.full) {
    return Status::refused(
        cat("ERR this node is a replica of ", state_.full->master.text(), " as a whole"));
  }
  SlotSet fresh;
  for (int slot : slots.to_vector()) {
    const SlotRecord& record = state_.records[at(slot)];
    if (record.followed && record.master == master) continue;
    if (Status s = check_own(slot, by); !s) return s;
    fresh.add(slot);
  }
  std::map<int, SlotRecord> changed;
  std::map<int, Position> starts;
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    record_epoch(slots, by, records);
    for (int slot : fresh.to_vector()) {
      if (!untouched(gate, slot)) {
        return Status::refused(
            cat("ERR slot ", slot,
                " took writes of its own since its fence, promote or copy; only a new "
                "copy can follow (SLOTSSLAVEOF ... FORCE)"));
      }
      SlotRecord record = state_.records[at(slot)];
      record.followed = true;
      record.placed = true;
      record.master = master;
      record.promote_plan.clear();
      // What it has, it is not given again; what it does not have, it is not spared. The master
      // knows whether that is a state it went through.
      starts[slot] = record.left.history.empty() ? from : std::exchange(record.left, {});
      put_slot_record(slot, record, records);
      records.emplace_back(ahead_record_name(slot), encode_position(starts[slot]));
      changed[slot] = std::move(record);
    }
    if (!records.empty()) {
      if (Status s = write(gate, records); !s) return s;
    }
    take_followed(gate, changed);
    return Status::ok();
  });
  if (!done) return done;
  set_epoch(slots, by);
  if (fresh.empty()) return settle(lock);
  auto source = source_for(master);
  for (auto& [slot, start] : starts) source->positions.follow(slot, std::move(start));
  state_.sources_changed();
  return settle(lock);
}

}  // namespace sf
