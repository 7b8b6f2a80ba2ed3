// SlotControl: becoming and ceasing to be a replica, and what is read back at the start.
#include <algorithm>

#include "storage_node/replica/slot_control.h"

namespace sf {
namespace {

constexpr size_t kTouchScanBytes = 512UL << 20;  // of the log, at the start

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

int64_t keys_in_slot(const Engine& engine, int slot) {
  int64_t keys = 0;
  for (int db = 0; db < kDbCount; ++db) keys += engine.key_count(db, slot);
  return keys;
}

}  // namespace

// ---- slots

Status SlotControl::slots_slave_of(const HostPort& master, const SlotSet& slots, bool force) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (state_.full) {
    return Status::refused(cat("ERR this node is a replica of ", state_.full->master.text(),
                               " as a whole; SLAVEOF NO ONE first"));
  }
  std::map<int, std::optional<Position>> fresh;
  for (int slot : slots.to_vector()) {
    const SlotRecord& record = state_.records[at(slot)];
    if (record.followed && record.master == master) continue;
    if (Status s = check_not_storing(slot); !s) return s;
    if (record.followed) {  // another master of the same data: its history decides
      fresh[slot] = state_.applied(slot);
      continue;
    }
    if (Status s = check_own(slot, {}); !s) return s;
    int64_t keys = keys_in_slot(state_.engine, slot);
    if (keys > 0 && !force) {
      return Status::refused(cat("ERR slot ", slot, " holds ", keys,
                                 " keys here and follows nobody; add FORCE to wipe it"));
    }
    fresh[slot] = std::nullopt;
  }
  if (fresh.empty()) return Status::ok();
  SlotSet set;
  for (const auto& [slot, position] : fresh) set.add(slot);
  std::map<int, SlotRecord> changed;
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    leave(set, &records);
    for (const auto& [slot, position] : fresh) {
      SlotRecord record;
      record.followed = true;
      record.master = master;
      record.placed = position.has_value();
      put_slot_record(slot, record, records);
      if (position) records.emplace_back(ahead_record_name(slot), encode_position(*position));
      changed[slot] = std::move(record);
    }
    if (Status s = write(gate, records); !s) return s;
    take_followed(gate, changed);
    return Status::ok();
  });
  if (!done) return done;
  leave(set, nullptr);
  auto source = source_for(master);
  for (auto& [slot, position] : fresh) source->positions.follow(slot, position);
  state_.log.info(cat("slots ", set.text(), " follow ", master.text()));
  state_.sources_changed();
  return settle(lock);
}

Status SlotControl::slots_slave_of_no_one(const SlotSet& slots) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (state_.full) {
    return Status::refused(cat("ERR this node is a replica of ", state_.full->master.text(),
                               " as a whole; SLAVEOF NO ONE ends that"));
  }
  SlotSet mine;
  for (int slot : slots.to_vector()) {
    if (!state_.records[at(slot)].followed) continue;
    if (Status s = check_not_storing(slot); !s) return s;
    mine.add(slot);
  }
  if (mine.empty()) return open_when_settled(slots, lock);  // an earlier one may have failed there
  std::map<int, SlotRecord> changed;
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    History history = state_.histories.make(gate.last_seq() + 1, records);
    leave(mine, &records);
    mine.for_each([&](int slot) {
      SlotRecord record = state_.records[at(slot)];
      // A slot half copied is no state of anybody's, whatever mark it had before.
      const std::optional<Position> stands =
          record.placed ? state_.applied(slot) : std::optional<Position>();
      record.mark = stands ? std::optional<uint64_t>(history.fork) : std::nullopt;
      record.left = stands.value_or(Position{});
      record.followed = record.placed = false;
      record.master = {};
      put_slot_record(slot, record, records);
      changed[slot] = std::move(record);
    });
    if (Status s = write(gate, records); !s) return s;
    state_.histories.add(history);
    for (auto& [slot, record] : changed) {
      state_.records[at(slot)] = std::move(record);
      state_.opening.add(slot);
      set_flags(gate, slot);
    }
    return Status::ok();
  });
  if (!done) return done;
  leave(mine, nullptr);
  state_.log.info(cat("slots ", mine.text(), " are this node's own"));
  return open_when_settled(mine, lock);
}

// ---- the whole node

Status SlotControl::slave_of(const HostPort& master) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (state_.full && state_.full->master == master) return Status::ok();
  SlotSet followed;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    if (state_.records[at(slot)].followed) followed.add(slot);
    if (Status s = check_not_storing(slot); !s) return s;
  }
  if (!followed.empty()) {
    return Status::refused(cat("ERR slots ", followed.text(),
                               " follow another master here; PKCLUSTER SLOTSSLAVEOF NO ONE ",
                               followed.text(), " first"));
  }
  FullRecord full{master, !state_.full || state_.full->mirror};
  auto before = state_.full ? state_.source_of(0) : nullptr;
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records{{std::string(kFullRecord), encode_full(full)},
                       {std::string(kDecidedRecord), "1"}};
    if (!state_.full) forget_own_records(records);
    if (Status s = gate.write_sys(records, true); !s) return s;
    if (!state_.full) state_.records.fill({});
    state_.full = full;
    if (Status s = load_shared(); !s) return s;
    state_.leases.clear();  // its fences end here: what is written from now on is another's
    SlotSet::all().for_each([&](int slot) { set_flags(gate, slot); });
    return Status::ok();
  });
  if (!done) return done;
  for (auto& [name, old] : state_.sources) old->gone = true;
  state_.sources.clear();
  auto source = source_for(master);
  source->full = true;
  source->mirror = full.mirror;
  Position own = state_.histories.snapshot().chain.normalize(
      {state_.histories.current(), state_.engine.last_seq()});
  for (int slot = 0; slot < kSlotCount; ++slot) {
    std::optional<Position> position = own;
    if (before) position = before->positions.position(slot);
    source->positions.follow(slot, std::move(position));
  }
  state_.log.info(cat("this node follows ", master.text()));
  state_.sources_changed();
  return done;
}

// A crash while a slot was put in place leaves it in pieces until its master is asked again.
Status SlotControl::check_none_torn() const {
  for (const auto& [name, value] : state_.engine.scan_sys(std::string(kAheadRecords))) {
    auto position = decode_position(value);
    if (!position) return position.status();
    if (!position->history.empty()) continue;
    return Status::refused(cat("ERR slot ", slot_of_name(name, kAheadRecords),
                               " was being stored at a crash and is not complete; SLAVEOF NO ONE "
                               "FORCE makes a master of what is there"));
  }
  return Status::ok();
}

Status SlotControl::slave_of_no_one(bool force) {
  const std::lock_guard verb(verb_mutex_);
  std::unique_lock lock(state_.mutex);
  if (!state_.full) return Status::ok();
  for (int slot = 0; slot < kSlotCount; ++slot) {
    if (Status s = check_not_storing(slot); !s) return s;
  }
  auto source = state_.source_of(0);
  if (Status s = check_none_torn(); !s && !force) return s;
  if (source && !source->mirror && !force) {
    return Status::refused(cat("ERR the first copy of ", state_.full->master.text(),
                               " is not complete (", source->copy.slots_done, " of ",
                               source->copy.slots_total,
                               " slots); SLAVEOF NO ONE FORCE makes a master of what is there"));
  }
  // Nobody can refuse a failover for a clock, but the log shall say what became of short-lived
  // keys.
  std::string skew = source ? clock_difference(*source) : "";
  if (!skew.empty()) state_.log.warning(cat("becoming a master: ", skew));
  state_.engine.raise_own_time(state_.engine.expiry_now_ms(0));
  Status done = state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    // Where slots are ahead of the log, or it is nobody's because a copy was broken off, this state
    // is none the master went through: the new history begins without a parent, and who asks
    // copies.
    const bool apart = (source && !source->mirror) || gate.last_seq() < state_.floor;
    HistoryChain alone;
    History history;
    if (apart) {
      alone = state_.histories.make_alone(gate.last_seq(), records);
    } else {
      history = state_.histories.make(gate.last_seq(), records);
    }
    records.emplace_back(std::string(kFullRecord), std::nullopt);
    records.emplace_back(std::string(kDecidedRecord), "1");
    leave(SlotSet::all(), &records);
    for (int slot = 0; slot < kSlotCount; ++slot) {  // the master's word becomes our own
      if (apart) {  // but for what it says of a state that may not be here
        state_.records[at(slot)].mark.reset();
        state_.records[at(slot)].left = {};
      }
      if (!state_.records[at(slot)].ordinary()) {
        records.emplace_back(slot_record_name(slot), encode_slot_record(state_.records[at(slot)]));
      }
      if (!state_.epochs[at(slot)].empty()) {
        records.emplace_back(epoch_record_name(slot), encode_epochs(state_.epochs[at(slot)]));
      }
    }
    const uint64_t floor = apart ? gate.last_seq() : state_.floor;
    records.emplace_back(std::string(kFloorRecord), std::to_string(floor));
    if (Status s = gate.write_sys(records, true); !s) return s;
    state_.floor = floor;
    if (apart) {
      state_.histories.replace(std::move(alone));
    } else {
      state_.histories.add(history);
    }
    state_.full.reset();
    SlotSet::all().for_each([&](int slot) { set_flags(gate, slot); });
    return Status::ok();
  });
  if (!done) return done;
  leave(SlotSet::all(), nullptr);
  state_.log.info("this node is a master");
  return done;
}

// ---- the start

Status SlotControl::load() {
  const std::lock_guard lock(state_.mutex);
  state_.start_seq = state_.engine.last_seq();
  if (Status s = state_.histories.load(state_.engine); !s) return s;
  if (Status s = load_records(); !s) return s;
  if (Status s = load_sources(); !s) return s;
  find_untouched();
  SysRecords forgotten;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    SlotRecord& record = state_.records[at(slot)];
    if (!record.mark || state_.untouched_at_start.contains(slot)) continue;
    record.mark.reset();
    record.left = {};
    if (state_.full) continue;  // it is the master's word, and it may still be true there
    forgotten.emplace_back(slot_record_name(slot), encode_slot_record(record));
  }
  Status cleaned =
      state_.engine.with_gate([&](Gate& gate) { return gate.write_sys(forgotten, false); });
  if (!cleaned) return cleaned;
  // The time of the log's end does not come again, though the wall clock was set back meanwhile.
  if (state_.full) {
    state_.engine.raise_master_time(state_.engine.recovered_time_ms(), SlotSet::all());
  } else if (state_.sources.empty()) {
    state_.engine.raise_own_time(state_.engine.recovered_time_ms());
  }
  // A full replica goes on in its master's history: it writes nothing of its own. When it becomes a
  // master it begins one.
  if (!state_.full) {
    if (Status s = begin_history(); !s) return s;
  }
  return state_.engine.with_gate([&](Gate& gate) {
    for (int slot = 0; slot < kSlotCount; ++slot) {
      if (state_.full || !state_.records[at(slot)].ordinary()) set_flags(gate, slot);
    }
    return Status::ok();
  });
}

void SlotControl::forget_own_records(SysRecords& records) const {
  for (const auto& [name, value] : state_.engine.scan_sys(std::string(kSlotRecords))) {
    records.emplace_back(name, std::nullopt);
  }
}

Status SlotControl::load_shared() {
  SysRecords shared;
  for (auto& [name, value] : state_.engine.scan_sys(std::string(kSharedPrefix))) {
    shared.emplace_back(name, std::move(value));
  }
  SlotSet slots;
  return state_.take_shared(shared, &slots);
}

Status SlotControl::begin_history() {
  return state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    History history = state_.histories.make(gate.last_seq(), records);
    if (Status s = gate.write_sys(records, true); !s) return s;
    state_.histories.add(history);
    return Status::ok();
  });
}

Status SlotControl::load_records() {
  Engine& engine = state_.engine;
  for (const auto& [name, value] : engine.scan_sys(std::string(kSlotRecords))) {
    auto record = decode_slot_record(value);
    if (!record) return record.status();
    state_.records[at(slot_of_name(name, kSlotRecords))] = std::move(*record);
  }
  for (const auto& [name, value] : engine.scan_sys(std::string(kEpochRecords))) {
    auto epochs = decode_epochs(value);
    if (!epochs) return epochs.status();
    state_.epochs[at(slot_of_name(name, kEpochRecords))] = std::move(*epochs);
  }
  auto full = engine.get_sys(std::string(kFullRecord));
  if (!full) return full.status();
  if (*full) {
    auto record = decode_full(**full);
    if (!record) return record.status();
    state_.full = std::move(*record);
    state_.records.fill({});
    if (Status s = load_shared(); !s) return s;
  }
  auto floor = engine.get_sys(std::string(kFloorRecord));
  if (!floor) return floor.status();
  if (*floor) state_.floor = parse_uint64(**floor).value_or(UINT64_MAX);
  return Status::ok();
}

Status SlotControl::load_sources() {
  std::map<int, Position> ahead;
  for (const auto& [name, value] : state_.engine.scan_sys(std::string(kAheadRecords))) {
    auto position = decode_position(value);
    if (!position) return position.status();
    ahead[slot_of_name(name, kAheadRecords)] = std::move(*position);
  }
  if (state_.full) {
    auto source = source_for(state_.full->master);
    source->full = true;
    source->mirror = state_.full->mirror;
    Position own = state_.histories.snapshot().chain.normalize(
        {state_.histories.current(), state_.engine.last_seq()});
    for (int slot = 0; slot < kSlotCount; ++slot) {
      std::optional<Position> position;
      // An end too high would claim batches that are not here.
      bool known = source->mirror && !own.history.empty() && !state_.engine.log_end_guessed();
      if (known) position = own;
      if (ahead.contains(slot)) position = ahead[slot];
      if (position && position->history.empty()) position.reset();  // a store was broken off
      source->positions.follow(slot, std::move(position));
    }
    return Status::ok();
  }
  for (int slot = 0; slot < kSlotCount; ++slot) {
    const SlotRecord& record = state_.records[at(slot)];
    if (!record.followed) continue;
    std::optional<Position> position;
    if (record.placed && ahead.contains(slot)) {
      position = ahead[slot];
    } else if (record.placed) {
      auto stored = state_.engine.get_sys(stream_record_name(record.master));
      if (!stored) return stored.status();
      if (*stored) {
        auto stream = decode_position(**stored);
        if (!stream) return stream.status();
        position = std::move(*stream);
      }
    }
    source_for(record.master)->positions.follow(slot, std::move(position));
  }
  return Status::ok();
}

// Which slots with a mark took no write between it and this start: slot_seq does not know, the log
// does.
void SlotControl::find_untouched() {
  uint64_t lowest = UINT64_MAX;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    const SlotRecord& record = state_.records[at(slot)];
    if (!record.mark) continue;
    state_.untouched_at_start.add(slot);
    // A permanent fence stood before the first client could come.
    if (!record.fenced && !record.followed) lowest = std::min(lowest, *record.mark);
  }
  size_t bytes = 0;
  while (lowest < state_.start_seq) {
    auto entries = state_.engine.read_log(lowest, 1UL << 20);
    bytes += 1UL << 20;
    if (!entries || entries->empty() || bytes > kTouchScanBytes) {
      for (int slot = 0; slot < kSlotCount; ++slot) {
        const SlotRecord& record = state_.records[at(slot)];
        if (record.mark && !record.fenced && !record.followed) {
          state_.untouched_at_start.remove(slot);
        }
      }
      return;
    }
    for (const LogEntry& entry : *entries) {
      entry.slots.for_each([&](int slot) {
        const SlotRecord& record = state_.records[at(slot)];
        bool counts = record.mark && entry.seq > *record.mark;
        if (counts && !record.fenced && !record.followed) state_.untouched_at_start.remove(slot);
      });
      lowest = entry.seq;
    }
  }
}

}  // namespace sf
