#include "storage_node/replica/follow_store.h"

#include <algorithm>
#include <map>

#include "common/base/coding.h"

namespace sf {
namespace {

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

std::vector<WriteOp> write_ops(const std::vector<wire::StreamOp>& ops) {
  std::vector<WriteOp> out;
  out.reserve(ops.size());
  for (const wire::StreamOp& op : ops) {
    out.push_back({static_cast<WriteOp::Kind>(op.kind), static_cast<Cf>(op.family),
                   std::string(op.key), std::string(op.value)});
  }
  return out;
}

Status decode_shared(std::string_view in, SysRecords* out) {
  std::string_view name;
  std::string_view value;
  while (!in.empty()) {
    bool ok = take_bytes(in, &name) && take_bytes(in, &value) && name.starts_with(kSharedPrefix);
    if (!ok) return Status::corrupt("the master's node records are unreadable");
    out->emplace_back(std::string(name), std::string(value));
  }
  return Status::ok();
}

}  // namespace

// ---- handshake and copies

Status FollowStore::accepted(const wire::Hello& hello) {
  Source& source = *source_;
  source.chain = hello.chain;
  source.master_seq = hello.seq;
  source.clock_offset_ms.reset();
  if (hello.time_ms != 0) source.clock_offset_ms = hello.time_ms - state_.clock.mono_us() / 1000;
  if (hello.copy.empty()) return Status::ok();
  SysRecords records;
  if (source.full && source.mirror) {  // what is kept keeps its position through the copy
    hello.keep.for_each([&](int slot) {
      if (auto position = source.positions.position(slot)) {
        records.emplace_back(ahead_record_name(slot), encode_position(*position));
      }
    });
    records.emplace_back(std::string(kFullRecord), encode_full({source.master, false}));
  }
  SysRecords shared;
  if (source.full) {  // all of the master's, as of about now; the stream brings what changes
    if (Status s = decode_shared(hello.records, &shared); !s) return s;
    for (const auto& [name, value] : state_.engine.scan_sys(std::string(kSharedPrefix))) {
      records.emplace_back(name, std::nullopt);
    }
    records.insert(records.end(), shared.begin(), shared.end());
  }
  if (Status s = unplace(hello.copy, source.full, std::move(records)); !s) return s;
  if (source.full) {
    if (source.mirror) state_.histories.end_generation();
    source.mirror = false;
    state_.full->mirror = false;
    state_.records.fill({});
    if (Status s = take_shared(shared, SlotSet::all()); !s) return s;
  }
  if (hello.time_ms != 0) {
    state_.engine.begin_master_time(hello.time_ms, hello.copy);
    told_slots_.add(hello.copy);
    told_time_ms_ = std::max(told_time_ms_, hello.time_ms);
  }
  source.copy = {};
  plan_copies(hello.copy.size());
  return Status::ok();
}

Status FollowStore::took(const follow::Took& took) {
  if (took.copy.empty()) return Status::ok();
  if (Status s = unplace(took.copy, false, {}); !s) return s;
  plan_copies(took.copy.size());
  return Status::ok();
}

// On record: the slots have no position, before the first of their data changes.
Status FollowStore::unplace(const SlotSet& slots, bool forget_position, SysRecords records) {
  slots.for_each([&](int slot) {
    if (!source_->positions.follows(slot)) return;
    SlotRecord& record = state_.records[at(slot)];
    if (record.placed || forget_position) {
      records.emplace_back(ahead_record_name(slot), std::nullopt);
    }
    if (!record.placed) return;
    record.placed = false;
    records.emplace_back(slot_record_name(slot), encode_slot_record(record));
  });
  // Also without records: the verb that made the slot a replica's may still be on its way to the
  // disk, and ingested files are not behind it in the log.
  if (records.empty()) return state_.engine.flush_wal(true);
  return state_.engine.with_gate([&](Gate& gate) { return gate.write_sys(records, true); });
}

// Progress counts from the beginning of a run of copies to its end.
void FollowStore::plan_copies(int slots) {
  CopyProgress& copy = source_->copy;
  if (copy.started_us == 0 || copy.ended_us != 0) copy = {0, 0, 0, 0, state_.clock.mono_us(), 0};
  copy.slots_total += slots;
  state_.log.info(cat("copying ", slots, " slots from ", source_->master.text()));
}

StoreJob FollowStore::store_job(const wire::CopyDone& done, std::optional<uint64_t> reload_seq) {
  Source& source = *source_;
  StoreJob job;
  job.slot = done.slot;
  job.version = done.version;
  bool joined = reload_seq && done.at.seq == *reload_seq;
  std::optional<std::string> position;
  if (!joined) position = encode_position(done.at);
  job.sys.emplace_back(ahead_record_name(done.slot), std::move(position));
  if (reload_seq) {  // the stream passes the entry with it, and may catch up with others
    source.positions.slots().for_each([&](int slot) {
      auto own = source.positions.own(slot);
      if (slot != done.slot && own && *own <= *reload_seq) {
        job.sys.emplace_back(ahead_record_name(slot), std::nullopt);
      }
    });
  }
  if (source.full) {
    job.as_seq = reload_seq;
    if (source.mirror) {
      job.before.emplace_back(ahead_record_name(done.slot), encode_position({}));
      job.sys.emplace_back(std::string(kFloorRecord),
                           std::to_string(std::max(state_.floor, done.at.seq)));
    }
    return job;
  }
  SlotRecord record = state_.records[at(done.slot)];
  record.placed = true;
  job.sys.emplace_back(slot_record_name(done.slot), encode_slot_record(record));
  return job;
}

void FollowStore::stored(const wire::CopyDone& done, std::optional<uint64_t> reload_seq) {
  Source& source = *source_;
  if (!source.full) state_.records[at(done.slot)].placed = true;
  if (source.full && source.mirror) state_.floor = std::max(state_.floor, done.at.seq);
  if (reload_seq) source.saved_seq = *reload_seq;
  ++source.copy.slots_done;
  if (!source.full && source.copy.slots_done >= source.copy.slots_total) end_copies();
}

void FollowStore::end_copies() {
  CopyProgress& copy = source_->copy;
  if (copy.started_us == 0 || copy.ended_us != 0) return;
  copy.ended_us = state_.clock.mono_us();
  state_.log.info(cat("copied ", copy.slots_done, " slots, ", copy.bytes, " bytes, ", copy.entries,
                      " entries from ", source_->master.text()));
}

// ---- the stream

// One record for the joined stream, one for each slot that is ahead of it.
void FollowStore::put_position(uint64_t stream, SysRecords& records) const {
  const SlotPositions& positions = source_->positions;
  records.emplace_back(stream_record_name(source_->master),
                       encode_position({positions.history(), stream}));
}

Status FollowStore::begin_stream(uint64_t seq) {
  Source& source = *source_;
  if (source.positions.without_position().empty()) end_copies();
  if (source.full) return begin_mirror(seq);
  ApplyRequest request;
  put_position(seq, request.sys);
  source.positions.slots().for_each([&](int slot) {
    // A slot without a position may get one at this moment, on the thread that ingests.
    if (!source.positions.position(slot)) return;
    std::optional<std::string> value;
    if (source.positions.own(slot)) value = encode_position(*source.positions.position(slot));
    request.sys.emplace_back(ahead_record_name(slot), std::move(value));
  });
  auto done = state_.engine.apply(request);
  if (!done) return done.status();
  source.saved_seq = seq;
  return Status::ok();
}

// The log here becomes the master's: its numbers, its histories.
Status FollowStore::begin_mirror(uint64_t seq) {
  Source& source = *source_;
  SysRecords records;
  uint64_t floor = state_.floor;
  SlotSet::all().for_each([&](int slot) {
    auto own = source.positions.own(slot);
    std::optional<std::string> value;
    if (own) value = encode_position(*source.positions.position(slot));
    if (own) floor = std::max(floor, *own);
    records.emplace_back(ahead_record_name(slot), std::move(value));
  });
  if (!source.mirror) floor = std::max(floor, seq);
  state_.histories.records_of(source.chain, records);
  records.emplace_back(std::string(kFloorRecord), std::to_string(floor));
  records.emplace_back(std::string(kFullRecord), encode_full({source.master, true}));
  Status done;
  if (source.mirror && seq == state_.engine.last_seq()) {
    bool same = state_.histories.snapshot().chain.entries() == source.chain.entries();
    if (same && floor == state_.floor) return done;
    done = state_.engine.with_gate([&](Gate& gate) { return gate.write_sys(records, true); });
  } else {
    done = state_.engine.reset_log(seq, records);
  }
  if (!done) return done;
  state_.histories.replace(source.chain);
  state_.sources_changed();  // replicas of this node hear of it without a write
  state_.floor = floor;
  state_.full->mirror = true;
  source.mirror = true;
  return done;
}

Status FollowStore::apply(const follow::Apply& apply) {
  Source& source = *source_;
  Status done = source.full ? apply_mirror(apply) : apply_slots(apply);
  if (!done) return done;
  if (apply.version != 0) state_.engine.raise_version(apply.version);
  master_time(apply.time_ms);
  source.master_seq = std::max(source.master_seq, apply.to);
  return done;
}

// Keys of followed slots expire by it, so it must go on while nobody writes.
void FollowStore::master_time(int64_t time_ms) {
  if (time_ms == 0) return;
  note_clock(time_ms);
  SlotSet slots = source_->positions.slots();
  if (time_ms <= told_time_ms_ && slots == told_slots_) return;
  SlotSet fresh = slots;
  fresh.remove(told_slots_);
  state_.engine.begin_master_time(time_ms, fresh);
  state_.engine.raise_master_time(time_ms, slots);
  told_time_ms_ = std::max(told_time_ms_, time_ms);
  told_slots_ = slots;
}

void FollowStore::note_clock(int64_t time_ms) {
  auto& known = source_->clock_offset_ms;
  if (known) known = std::max(*known, time_ms - state_.clock.mono_us() / 1000);
}

// In memory, after it is on record.
Status FollowStore::take_shared(const SysRecords& changes, SlotSet slots) {
  if (changes.empty() && slots.empty()) return Status::ok();
  if (Status s = state_.take_shared(changes, &slots); !s) return s;
  return state_.engine.with_gate([&](Gate& gate) {
    slots.for_each([&](int slot) { state_.set_flags(gate, slot); });
    return Status::ok();
  });
}

Status FollowStore::apply_mirror(const follow::Apply& apply) {
  for (const wire::Record& record : apply.records) {
    ApplyRequest request;
    request.as_seq = record.seq;
    request.time_ms = record.time_ms;
    request.ops = write_ops(record.ops);
    SysRecords shared;
    for (const WriteOp& op : request.ops) {
      if (op.cf != Cf::kSys) continue;
      bool put = op.kind == WriteOp::Kind::kPut;
      shared.emplace_back(op.key, put ? std::optional(op.value) : std::nullopt);
    }
    // With the very batch a slot joins by: the next one may be lost.
    apply.joined.for_each([&](int slot) {
      auto own = source_->positions.own(slot);
      if (own && *own <= record.seq) {
        request.sys.emplace_back(ahead_record_name(slot), std::nullopt);
      }
    });
    auto done = state_.engine.apply(request);
    if (!done) return done.status();
    if (Status s = take_shared(shared, {}); !s) return s;
  }
  return Status::ok();
}

Status FollowStore::apply_slots(const follow::Apply& apply) {
  const bool saved_later = apply.joined.empty() && apply.moved.empty() && apply.lost.empty();
  if (apply.records.empty() && saved_later) return Status::ok();  // by save_position
  ApplyRequest request;
  for (const wire::Record& record : apply.records) {
    request.time_ms = record.time_ms;
    auto ops = write_ops(record.ops);
    request.ops.insert(request.ops.end(), std::make_move_iterator(ops.begin()),
                       std::make_move_iterator(ops.end()));
  }
  put_position(apply.stream, request.sys);
  apply.joined.for_each(
      [&](int slot) { request.sys.emplace_back(ahead_record_name(slot), std::nullopt); });
  std::string there = encode_position({source_->positions.history(), apply.to});
  apply.moved.for_each([&](int slot) { request.sys.emplace_back(ahead_record_name(slot), there); });
  std::map<int, SlotRecord> lost;
  apply.lost.for_each([&](int slot) {
    SlotRecord& record = lost[slot] = state_.records[at(slot)];
    record.placed = false;
    request.sys.emplace_back(ahead_record_name(slot), std::nullopt);
    request.sys.emplace_back(slot_record_name(slot), encode_slot_record(record));
  });
  auto done = state_.engine.apply(request);
  if (!done) return done.status();
  source_->saved_seq = apply.stream;
  if (lost.empty()) return Status::ok();
  for (auto& [slot, record] : lost) state_.records[at(slot)] = std::move(record);
  plan_copies(apply.lost.size());
  return state_.engine.flush_wal(true);
}

Status FollowStore::adopt(const History& history) {
  Source& source = *source_;
  if (Status s = source.chain.add(history); !s) return s;
  if (!source.full || !source.mirror) return Status::ok();
  return state_.engine.with_gate([&](Gate& gate) {
    SysRecords records;
    state_.histories.record(history, records);
    if (Status s = gate.write_sys(records, true); !s) return s;
    state_.histories.add(history);
    state_.sources_changed();
    return Status::ok();
  });
}

Status FollowStore::save_position() {
  Source& source = *source_;
  if (source.full || !source.positions.streaming()) return Status::ok();
  if (source.positions.stream() == source.saved_seq) return Status::ok();
  ApplyRequest request;
  put_position(source.positions.stream(), request.sys);
  auto done = state_.engine.apply(request);
  if (!done) return done.status();
  source.saved_seq = source.positions.stream();
  return Status::ok();
}

}  // namespace sf
