#include "storage_node/replica/slot_control.h"

#include <algorithm>

namespace sf {
namespace {

constexpr int64_t kClockDifferenceMaxMs = 3'000;
constexpr size_t kPlansMax = 256;

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

}  // namespace

// ---- epochs

Status SlotControl::check_epoch(const SlotSet& slots, const PlanEpoch& by) const {
  for (int slot : slots.to_vector()) {
    const auto& epochs = state_.epochs[at(slot)];
    auto it = epochs.find(by.plan);
    if (it != epochs.end() && it->second > by.epoch) {
      return Status::refused(cat("STALEEPOCH plan ", by.plan, " is at epoch ", it->second,
                                 " for slot ", slot, ", not ", by.epoch));
    }
    if (it == epochs.end() && epochs.size() >= kPlansMax) {
      return Status::refused(cat("ERR slot ", slot, " has seen ", kPlansMax,
                                 " plans, no further one is remembered; move it to a fresh node"));
    }
  }
  return Status::ok();
}

void SlotControl::record_epoch(const SlotSet& slots, const PlanEpoch& by,
                               SysRecords& records) const {
  slots.for_each([&](int slot) {
    auto epochs = state_.epochs[at(slot)];
    uint64_t& known = epochs[by.plan];
    if (known == by.epoch) return;
    known = by.epoch;
    put_epochs(slot, epochs, records);
  });
}

void SlotControl::set_epoch(const SlotSet& slots, const PlanEpoch& by) {
  slots.for_each([&](int slot) { state_.epochs[at(slot)][by.plan] = by.epoch; });
}

Status SlotControl::announce_epoch(const SlotSet& slots, const PlanEpoch& by) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (Status s = check_epoch(slots, by); !s) return s;
  SysRecords records;
  record_epoch(slots, by, records);
  Status done = state_.engine.with_gate([&](Gate& gate) { return write(gate, records); });
  if (!done) return done;
  set_epoch(slots, by);
  return settle(lock);
}

// ---- flags

void SlotControl::set_flags(Gate& gate, int slot) {
  state_.set_flags(gate, slot);
}

void SlotControl::take_followed(Gate& gate, std::map<int, SlotRecord>& changed) {
  for (auto& [slot, record] : changed) {
    state_.records[at(slot)] = std::move(record);
    state_.leases.erase(slot);
    state_.expiry_held.erase(slot);
    set_flags(gate, slot);
  }
}

void SlotControl::tick() {
  const std::lock_guard lock(state_.mutex);
  int64_t now = state_.clock.mono_us();
  SlotSet over;
  for (const auto& [slot, until] : state_.expiry_held) {
    if (now >= until) over.add(slot);
  }
  std::erase_if(state_.leases, [&](const auto& item) { return now >= item.second.until_us; });
  if (over.empty()) return;
  over.for_each([&](int slot) { state_.expiry_held.erase(slot); });
  Status done = state_.engine.with_gate([&](Gate& gate) {
    over.for_each([&](int slot) { set_flags(gate, slot); });
    return Status::ok();
  });
  if (!done) state_.log.error(done.text());
}

// ---- shared checks

std::string SlotControl::clock_difference(const Source& source) const {
  if (!source.clock_offset_ms) return "";
  int64_t masters = *source.clock_offset_ms + state_.clock.mono_us() / 1000;
  int64_t ahead = state_.engine.own_time_ms() - masters;
  if (std::abs(ahead) <= kClockDifferenceMaxMs) return "";
  return cat("this node's clock is ", std::abs(ahead) / 1000, " s ",
             ahead > 0 ? "ahead of" : "behind", " the master's, ", source.master.text(),
             ": keys would end too ", ahead > 0 ? "early" : "late");
}

Status SlotControl::check_own(int slot, const PlanEpoch& by) const {
  const SlotRecord& record = state_.records[at(slot)];
  if (state_.full) {
    return Status::refused(
        cat("ERR this node is a replica of ", state_.full->master.text(), "; ask its master"));
  }
  if (record.followed) {
    return Status::refused(
        cat("ERR slot ", slot, " follows ", record.master.text(), " here; ask its master"));
  }
  auto lease = state_.leases.find(slot);
  if (state_.lease_alive(slot) && lease->second.plan != by.plan) {
    return Status::refused(cat("TRYAGAIN slot ", slot, " is fenced by plan ", lease->second.plan));
  }
  return Status::ok();
}

Status SlotControl::check_not_storing(int slot) const {
  auto source = state_.source_of(slot);
  if (source && source->storing.contains(slot)) {
    return Status::refused(cat("TRYAGAIN slot ", slot, " is being stored at this moment"));
  }
  return Status::ok();
}

bool SlotControl::untouched(const Gate& gate, int slot) const {
  if (state_.lease_alive(slot) && gate.slot_seq(slot) <= state_.leases.at(slot).seq) return true;
  return untouched_since_mark(gate, slot);
}

bool SlotControl::untouched_since_mark(const Gate& gate, int slot) const {
  const SlotRecord& record = state_.records[at(slot)];
  const uint64_t seq = gate.slot_seq(slot);
  if (!record.mark) return false;
  return seq <= *record.mark ||
         (seq <= state_.start_seq && state_.untouched_at_start.contains(slot));
}

std::shared_ptr<Source> SlotControl::source_for(const HostPort& master) {
  auto& entry = state_.sources[master.text()];
  if (!entry) {
    entry = std::make_shared<Source>();
    entry->master = master;
  }
  return entry;
}

// The slots are followed no more: their positions go, and sources nobody needs. With `records` only
// the records are made; without, memory is changed.
void SlotControl::leave(const SlotSet& slots, SysRecords* records) {
  for (auto it = state_.sources.begin(); it != state_.sources.end();) {
    Source& source = *it->second;
    SlotSet mine;
    slots.for_each([&](int slot) {
      if (source.positions.follows(slot)) mine.add(slot);
    });
    SlotSet left = source.positions.slots();
    left.remove(mine);
    if (records != nullptr) {
      mine.for_each([&](int s) { records->emplace_back(ahead_record_name(s), std::nullopt); });
      if (left.empty()) records->emplace_back(stream_record_name(source.master), std::nullopt);
      ++it;
      continue;
    }
    source.positions.drop(mine);
    source.dropped.add(mine);
    source.gone = left.empty();
    it = source.gone ? state_.sources.erase(it) : std::next(it);
  }
  if (records == nullptr) {
    state_.sources_changed();
    state_.positions_moved();
  }
}

// ---- fences

Status SlotControl::write(Gate& gate, const SysRecords& records) {
  auto end = gate.log_sys(records, false);
  return end ? Status::ok() : end.status();
}

// What the verb wrote is on disk afterwards. Nobody waits for it: neither writers nor links; other
// verbs do, because verb_mutex_ is held.
Status SlotControl::settle(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  Status synced = state_.engine.flush_wal(true);
  lock.lock();
  return synced;
}

FenceAnswer SlotControl::fence_answer(const Gate& gate, const SlotSet& slots) const {
  FenceAnswer answer;
  answer.end.history = state_.histories.current();
  slots.for_each([&](int slot) { answer.end.seq = std::max(answer.end.seq, gate.slot_seq(slot)); });
  answer.time_ms = state_.engine.expiry_now_ms(slots.first());
  return answer;
}

Result<FenceAnswer> SlotControl::fence_leased(const SlotSet& slots, const PlanEpoch& by,
                                              int64_t lease_ms) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  bool wrote = false;
  auto answer = fence_now(slots, by, lease_ms, &wrote);
  if (!answer || !wrote) return answer;
  if (Status s = settle(lock); !s) return s;
  return answer;
}

std::optional<Result<FenceAnswer>> SlotControl::try_fence_leased(const SlotSet& slots,
                                                                 const PlanEpoch& by,
                                                                 int64_t lease_ms) {
  const std::unique_lock verb(verb_mutex_, std::try_to_lock);
  if (!verb.owns_lock()) return std::nullopt;
  const std::lock_guard lock(state_.mutex);
  SysRecords records;
  if (check_epoch(slots, by)) record_epoch(slots, by, records);
  if (!records.empty()) return std::nullopt;
  bool wrote = false;
  return fence_now(slots, by, lease_ms, &wrote);
}

Result<FenceAnswer> SlotControl::fence_now(const SlotSet& slots, const PlanEpoch& by,
                                           int64_t lease_ms, bool* wrote) {
  if (Status s = check_epoch(slots, by); !s) return s;
  for (int slot : slots.to_vector()) {
    if (Status s = check_own(slot, by); !s) return s;
    const SlotRecord& record = state_.records[at(slot)];
    if (record.fenced) {
      return Status::refused(cat("ERR slot ", slot, " was fenced for good by plan ",
                                 record.fence_plan, " and lives on ", record.new_owner,
                                 "; UNFENCE it first if that is not so"));
    }
  }
  SysRecords records;
  record_epoch(slots, by, records);
  FenceAnswer answer;
  Status done = state_.engine.with_gate([&](Gate& gate) {
    if (!records.empty()) {
      if (Status s = write(gate, records); !s) return s;
    }
    int64_t until = state_.clock.mono_us() + lease_ms * 1000;
    slots.for_each([&](int slot) {
      state_.leases[slot] = {by.plan, by.epoch, until, gate.slot_seq(slot)};
      set_flags(gate, slot);
    });
    answer = fence_answer(gate, slots);
    return Status::ok();
  });
  if (!done) return done;
  *wrote = !records.empty();
  set_epoch(slots, by);
  return answer;
}

Result<FenceAnswer> SlotControl::fence_permanently(const SlotSet& slots, const PlanEpoch& by,
                                                   const HostPort& new_owner) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (Status s = check_epoch(slots, by); !s) return s;
  auto sealed = [&](int slot) {
    const SlotRecord& record = state_.records[at(slot)];
    return record.fenced && record.fence_plan == by.plan && record.fence_epoch == by.epoch;
  };
  FenceAnswer answer;
  std::map<int, SlotRecord> changed;
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    for (int slot : slots.to_vector()) {
      if (sealed(slot)) continue;
      auto lease = state_.leases.find(slot);
      bool mine = state_.lease_alive(slot) && lease->second.plan == by.plan &&
                  lease->second.epoch == by.epoch;
      if (!mine) {
        return Status::refused(cat("LEASEEXPIRED slot ", slot, " has no live fence of plan ",
                                   by.plan, " epoch ", by.epoch,
                                   "; writes may have come in, take the attempt back"));
      }
      SlotRecord record = state_.records[at(slot)];
      record.fenced = true;
      record.fence_plan = by.plan;
      record.fence_epoch = by.epoch;
      record.new_owner = new_owner.text();
      if (!untouched_since_mark(gate, slot)) record.left = {};
      record.mark = gate.slot_seq(slot);
      put_slot_record(slot, record, records);
      changed[slot] = std::move(record);
    }
    record_epoch(slots, by, records);
    if (!records.empty()) {
      if (Status s = write(gate, records); !s) return s;
    }
    for (auto& [slot, record] : changed) {
      state_.records[at(slot)] = std::move(record);
      state_.leases.erase(slot);
      set_flags(gate, slot);
    }
    answer = fence_answer(gate, slots);
    return Status::ok();
  });
  if (!done) return done;
  set_epoch(slots, by);
  // In force already; said only when it is on disk. Also if it was sealed before: that verb may
  // have failed here.
  state_.settling.add(slots);
  Status synced = settle(lock);
  if (!synced) return synced;
  state_.settling.remove(slots);
  return answer;
}

Status SlotControl::unfence(const SlotSet& slots, const PlanEpoch& by) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (Status s = check_epoch(slots, by); !s) return s;
  SysRecords records;
  record_epoch(slots, by, records);
  bool sealed = false;  // perhaps by an UNFENCE that failed when it came to the disk
  for (int slot : slots.to_vector()) {
    const SlotRecord& record = state_.records[at(slot)];
    auto lease = state_.leases.find(slot);
    bool leased = state_.lease_alive(slot);
    if ((record.fenced && record.fence_plan != by.plan) ||
        (leased && lease->second.plan != by.plan)) {
      return Status::refused(cat("ERR slot ", slot, " is fenced by plan ",
                                 record.fenced ? record.fence_plan : lease->second.plan, ", not ",
                                 by.plan));
    }
    sealed = sealed || (state_.engine.slot_flags(slot) & kSlotReadsRefused) != 0;
    if (!record.fenced) continue;
    if (Status s = check_not_storing(slot); !s) return s;
    SlotRecord open = record;
    open.fenced = false;
    put_slot_record(slot, open, records);
  }
  Status done = state_.engine.with_gate([&](Gate& gate) {
    if (Status s = records.empty() ? Status::ok() : write(gate, records); !s) return s;
    slots.for_each([&](int slot) { state_.records[at(slot)].fenced = false; });
    return Status::ok();
  });
  if (!done) return done;
  set_epoch(slots, by);
  // The fence stands until its end is on disk.
  if (sealed || !records.empty()) {
    if (Status s = settle(lock); !s) return s;
  }
  return state_.engine.with_gate([&](Gate& gate) {
    slots.for_each([&](int slot) {
      state_.leases.erase(slot);
      set_flags(gate, slot);
    });
    return Status::ok();
  });
}

// ---- waiting

Result<bool> SlotControl::wait_applied(const SlotSet& slots, const Position& want,
                                       std::function<void()> done, uint64_t* waiter) {
  const std::lock_guard lock(state_.mutex);
  if (state_.waits.full()) {
    return Status::no_space(cat("ERR more than ", WaitTable::kWaitersMax, " clients wait here"));
  }
  *waiter = state_.waits.add(slots, want, std::move(done), [this](int slot, const Position& p) {
    return state_.has_applied(slot, p);
  });
  return *waiter == 0;
}

bool SlotControl::stop_waiting(uint64_t waiter) {
  const std::lock_guard lock(state_.mutex);
  return state_.waits.remove(waiter);
}

}  // namespace sf
