// The gate and what passes through it.
#include <algorithm>

#include "common/base/coding.h"
#include "common/base/file.h"
#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/log_record.h"
#include "storage_node/engine/meta_peek.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

constexpr int64_t kFullRetryUs = 200'000;

rocksdb::Slice slice(std::string_view v) {
  return {v.data(), v.size()};
}

size_t entry_bytes(const LogEntry& entry) {
  size_t bytes = sizeof(LogEntry);
  if (entry.ops) {
    for (const WriteOp& op : *entry.ops) bytes += sizeof(WriteOp) + op.key.size() + op.value.size();
  }
  return bytes;
}

// Replicated operations carry no key counts; they are found out from what is stored.
class CountFinder {
 public:
  explicit CountFinder(Engine& engine) : engine_(engine) {}

  Status look_at(const WriteOp& op) {
    if (op.cf != Cf::kMeta) return Status::ok();
    const int db = db_of_stored(op.key);
    const int slot = slot_of_stored(op.key);
    if (db < 0 || db >= kDbCount || slot >= kSlotCount) {
      return Status::corrupt("a replicated batch names a db or slot that does not exist");
    }
    if (op.kind == WriteOp::Kind::kDeleteRange) return range(db, slot, op);
    Result<bool> there = exists(op.key);
    if (!there) return there.status();
    const bool put = op.kind == WriteOp::Kind::kPut;
    if (put && !*there) txn_.count_keys(db, slot, 1);
    if (!put && *there) txn_.count_keys(db, slot, -1);
    known_[op.key] = put;
    MetaPeek meta;
    if (put && peek_meta(op.value, &meta)) newest_version = std::max(newest_version, meta.version);
    return Status::ok();
  }

  const std::vector<WriteTxn::KeyCount>& counts() const { return txn_.key_counts(); }
  uint64_t newest_version = 0;

 private:
  Result<bool> exists(const std::string& key) {
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    for (const auto& [begin, end] : cleared_) {
      if (key >= begin && key < end) return false;
    }
    Result<std::optional<std::string>> stored = engine_.get(Cf::kMeta, key);
    if (!stored) return stored.status();
    return stored->has_value();
  }

  Status range(int db, int slot, const WriteOp& op) {
    if (op.key == slot_prefix(db, slot) && op.value == prefix_end(op.key)) {
      txn_.count_slot_cleared(db, slot);
      for (auto& [key, there] : known_) {
        if (key >= op.key && key < op.value) there = false;
      }
      cleared_.push_back({op.key, op.value});
      return Status::ok();
    }
    return Status::invalid("a replicated batch deletes a part of a slot's keys as a range");
  }

  Engine& engine_;
  WriteTxn txn_;
  std::map<std::string, bool> known_;
  std::vector<std::pair<std::string, std::string>> cleared_;
};

}  // namespace

// ---- inside the gate

namespace {

Status disk_is_full(const std::string& dir) {
  return Status::no_space(cat("the disk of the data folder ", dir,
                              " is full; free space on it, writes go on by themselves"));
}

}  // namespace

Status Engine::State::check_disk(size_t bytes) {
  // Before any of RocksDB's sequence numbers is looked at.
  if (write_failed) return disk_is_full(options.dir);
  const int64_t now = clock.mono_us();
  written_since_check += static_cast<int64_t>(bytes);
  if (now >= next_space_check_us ||
      written_since_check > std::max<int64_t>(options.reserve_bytes / 8, 1 << 20)) {
    written_since_check = 0;
    const Result<int64_t> left = free_bytes(options.dir);
    next_space_check_us = now + (disk_full ? kFullRetryUs : 1'000'000);
    const bool full = left.is_ok() && *left < options.reserve_bytes;
    if (full && !disk_full) {
      log.error(cat("the disk of ", options.dir, " is nearly full, writes are refused"));
    } else if (disk_full && !full) {
      log.info("there is space on the disk again, writes go on");
    }
    disk_full = full;
  }
  return disk_full ? disk_is_full(options.dir) : Status::ok();
}

Status Engine::State::write_batch(rocksdb::WriteBatch& batch, bool synced) {
  if (write_failed) return disk_is_full(options.dir);
  rocksdb::WriteOptions write;
  write.sync = synced;
  const rocksdb::Status status = rocks()->Write(write, &batch);
  if (status.ok()) return Status::ok();
  Status out = to_status(status, "writing");
  if (out.code() == Code::kNoSpace) write_failed = true;
  log.error(out.text());
  return out;
}

void Engine::State::add_sys(rocksdb::WriteBatch& batch, const SysRecords& records) const {
  for (const auto& [name, value] : records) {
    if (value) {
      batch.Put(handle(Cf::kSys), name, *value);
    } else {
      batch.Delete(handle(Cf::kSys), name);
    }
  }
}

Status Engine::State::write_sys(const SysRecords& records, bool synced) {
  if (records.empty()) return Status::ok();
  rocksdb::WriteBatch batch;
  add_sys(batch, records);
  return write_batch(batch, synced);
}

void Engine::State::add_ops(rocksdb::WriteBatch& batch, const std::vector<WriteOp>& ops) const {
  for (const WriteOp& op : ops) {
    switch (op.kind) {
      case WriteOp::Kind::kPut:
        batch.Put(handle(op.cf), op.key, op.value);
        break;
      case WriteOp::Kind::kDelete:
        batch.Delete(handle(op.cf), op.key);
        break;
      case WriteOp::Kind::kDeleteRange:
        batch.DeleteRange(handle(op.cf), op.key, op.value);
        break;
    }
  }
}

// The record pairs our seq with RocksDB's, which outlives every WAL file: see recover_log.
void Engine::State::add_last_seq(rocksdb::WriteBatch& batch, uint64_t seq) const {
  std::string value;
  put_big64(value, seq);
  put_big64(value, rocks()->GetLatestSequenceNumber() + batch.Count() + 1);
  put_big64(value, static_cast<uint64_t>(newest_time));
  batch.Put(handle(Cf::kSys), slice(kLastSeqRecord), value);
}

Status Engine::State::write_logged(rocksdb::WriteBatch& batch, uint64_t seq, int64_t time_ms,
                                   LogEntry::Kind kind, const SlotSet& slots, bool synced) {
  Status space = check_disk(batch.GetDataSize());
  if (!space) return space;
  const bool jump = seq != last_seq + 1;
  if (++batches_since_record >= kLastSeqEvery || batch.Count() == 0 || jump) {
    add_last_seq(batch, seq);
    batches_since_record = 0;
  }
  newest_time = time_ms;
  batch.PutLogData(encode_log_data(seq, time_ms, kind, slots));
  const uint64_t rocks_seq = rocks()->GetLatestSequenceNumber() + 1;
  Status written = write_batch(batch, synced);
  if (!written) return written;
  if (jump || index_next || seq % kIndexEvery == 1) {
    index_next = false;
    const std::lock_guard lock(log_mutex);
    if (jump) {
      log_begin = seq;
      log_index.clear();
      backlog.clear();
      backlog_bytes = 0;
    }
    log_index.emplace_back(seq, rocks_seq);
  }
  last_seq.store(seq, std::memory_order_release);
  return Status::ok();
}

void Engine::State::publish(uint64_t seq, int64_t time_ms, LogEntry::Kind kind,
                            const SlotSet& slots, const std::function<LogOps()>& ops) {
  const bool kept = wants_backlog();
  LogEntry entry;
  if (kept) entry = {seq, time_ms, kind, slots, ops()};
  const std::lock_guard lock(log_mutex);
  log_end = seq;
  if (!kept || (!backlog.empty() && backlog.back().seq + 1 != seq)) {
    backlog.clear();
    backlog_bytes = 0;
  }
  if (!kept) return;
  backlog_bytes += entry_bytes(entry);
  backlog.push_back(std::move(entry));
  while (backlog_bytes > options.backlog_bytes && backlog.size() > 1) {
    backlog_bytes -= entry_bytes(backlog.front());
    backlog.pop_front();
  }
}

std::string Engine::State::refusal(int slot, bool read) const {
  const std::lock_guard lock(refusal_mutex);
  const auto it = refusals.find(slot);
  if (it != refusals.end()) {
    const std::string& text = read ? it->second.read_text : it->second.write_text;
    if (!text.empty()) return text;
  }
  return cat("TRYAGAIN slot ", slot, " is fenced");
}

Status Engine::State::refuse_write(int slot) const {
  const uint8_t raw = flags[static_cast<size_t>(slot)].load(std::memory_order_relaxed);
  if (raw == 0) return Status::ok();
  const int64_t until = fence_until[static_cast<size_t>(slot)].load(std::memory_order_relaxed);
  if ((raw & kSlotFenced) != 0 && (until == 0 || clock.mono_us() < until)) {
    return Status::refused(refusal(slot, false));
  }
  if ((raw & kSlotFollowed) != 0) {
    return Status::refused("READONLY You can't write against a read only replica.");
  }
  return Status::ok();
}

Status Engine::State::refuse_writes(const WriteTxn& txn) const {
  if (txn.only_slot() >= 0) return refuse_write(txn.only_slot());
  for (const int slot : txn.slots().to_vector()) {
    Status allowed = refuse_write(slot);
    if (!allowed) return allowed;
  }
  return Status::ok();
}

void Engine::State::raise_slot_seq(const WriteTxn& txn, uint64_t seq) {
  if (txn.only_slot() >= 0) {
    slot_seq[static_cast<size_t>(txn.only_slot())] = seq;
    return;
  }
  txn.slots().for_each([&](int slot) { slot_seq[static_cast<size_t>(slot)] = seq; });
}

// ---- after the gate

Status Engine::State::after_commit(uint64_t seq) {
  Status synced = Status::ok();
  if (options.sync == SyncPolicy::kAlways && options.sync_in_commit) synced = sync_until(seq);
  notify(seq);
  return synced;
}

void Engine::State::notify(uint64_t seq) {
  if (!wants_backlog()) return;
  const std::shared_lock lock(subscribers_mutex);
  for (const auto& [id, fn] : subscribers) fn(seq);
}

Status Engine::State::sync_until(uint64_t seq) {
  std::unique_lock lock(sync_mutex);
  while (synced_seq < seq) {
    if (syncing) {
      sync_done.wait(lock);
      continue;
    }
    if (write_failed) return disk_is_full(options.dir);
    syncing = true;
    lock.unlock();
    const uint64_t target = last_seq.load(std::memory_order_acquire);
    const rocksdb::Status status = rocks()->SyncWAL();
    lock.lock();
    syncing = false;
    sync_done.notify_all();
    if (!status.ok()) return to_status(status, "syncing the log");
    synced_seq = std::max(synced_seq, target);
  }
  return Status::ok();
}

// ---- Engine: writing

Result<uint64_t> Engine::commit(const WriteTxn& txn) {
  WriteTxn copy = txn;
  return commit(std::move(copy));
}

Result<uint64_t> Engine::commit(WriteTxn&& txn) {
  State& s = *state_;
  if (txn.empty()) return s.last_seq.load();
  rocksdb::WriteBatch batch;
  s.add_ops(batch, txn.ops());
  uint64_t seq = 0;
  {
    const std::lock_guard lock(s.gate);
    Status allowed = s.refuse_writes(txn);
    if (!allowed) return allowed;
    seq = s.last_seq + 1;
    const int64_t time_ms = s.own_now_ms();
    Status written =
        s.write_logged(batch, seq, time_ms, LogEntry::Kind::kWrite, txn.slots(), false);
    if (!written) return written;
    s.raise_slot_seq(txn, seq);
    for (const WriteTxn::KeyCount& count : txn.key_counts()) s.counts.add(count);
    s.publish(seq, time_ms, LogEntry::Kind::kWrite, txn.slots(),
              [&txn] { return std::make_shared<const std::vector<WriteOp>>(txn.take_ops()); });
  }
  Status done = s.after_commit(seq);
  if (!done) return done;
  return seq;
}

Result<uint64_t> Engine::apply(const ApplyRequest& request) {
  State& s = *state_;
  rocksdb::WriteBatch batch;
  s.add_ops(batch, request.ops);
  s.add_sys(batch, request.sys);
  const bool logged = request.as_seq.has_value() || !request.ops.empty();
  if (!logged && request.sys.empty()) return s.last_seq.load();
  SlotSet slots;
  for (const WriteOp& op : request.ops) {
    if (op.cf == Cf::kSys) {
      if (op.key.starts_with(kSharedPrefix) && op.kind != WriteOp::Kind::kDeleteRange) continue;
      return Status::corrupt(cat("a replicated batch changes the record ", printable(op.key)));
    }
    const int slot = slot_of_stored(op.key);
    if (slot < 0 || slot >= kSlotCount) return Status::corrupt("a replicated batch names no slot");
    slots.add(slot);
  }
  uint64_t seq = 0;
  uint64_t newest_version = 0;
  {
    const std::lock_guard lock(s.gate);
    CountFinder finder(*this);
    for (const WriteOp& op : request.ops) {
      if (op.cf == Cf::kSys) continue;
      Status looked = finder.look_at(op);
      if (!looked) return looked;
    }
    newest_version = finder.newest_version;
    seq = request.as_seq.value_or(s.last_seq + (logged ? 1 : 0));
    if (request.as_seq && *request.as_seq <= s.last_seq) {
      return Status::invalid(cat("a replicated batch has seq ", *request.as_seq, ", the log is at ",
                                 s.last_seq.load()));
    }
    Status written =
        logged ? s.write_logged(batch, seq, request.time_ms, LogEntry::Kind::kWrite, slots, false)
               : s.write_batch(batch, false);
    if (!written) return written;
    slots.for_each([&](int slot) { s.slot_seq[static_cast<size_t>(slot)] = seq; });
    for (const WriteTxn::KeyCount& count : finder.counts()) s.counts.add(count);
    if (logged) {
      s.publish(seq, request.time_ms, LogEntry::Kind::kWrite, slots,
                [&request] { return std::make_shared<const std::vector<WriteOp>>(request.ops); });
    }
  }
  if (newest_version != 0) raise_version(newest_version);
  if (!logged) return seq;
  Status done = s.after_commit(seq);
  if (!done) return done;
  return seq;
}

Status Engine::wait_synced(uint64_t seq) {
  if (state_->options.sync != SyncPolicy::kAlways) return Status::ok();
  return state_->sync_until(std::min(seq, state_->last_seq.load()));
}

Status Engine::with_gate(const std::function<Status(Gate&)>& fn) {
  Gate gate(this);
  Status done;
  {
    const std::lock_guard lock(state_->gate);
    done = fn(gate);
  }
  if (gate.logged_ != 0) state_->notify(gate.logged_);
  return done;
}

Status Engine::flush_wal(bool synced) {
  if (state_->write_failed) return disk_is_full(state_->options.dir);
  return to_status(state_->rocks()->FlushWAL(synced), "syncing the log");
}

int Engine::subscribe(std::function<void(uint64_t seq)> fn) {
  const std::unique_lock lock(state_->subscribers_mutex);
  const int id = state_->next_subscriber++;
  state_->subscribers.emplace_back(id, std::move(fn));
  ++state_->subscriber_count;
  return id;
}

void Engine::unsubscribe(int id) {
  const std::unique_lock lock(state_->subscribers_mutex);
  const auto gone = std::remove_if(state_->subscribers.begin(), state_->subscribers.end(),
                                   [id](const auto& s) { return s.first == id; });
  state_->subscriber_count -= static_cast<int>(state_->subscribers.end() - gone);
  state_->subscribers.erase(gone, state_->subscribers.end());
}

uint64_t Engine::last_seq() const {
  return state_->last_seq.load(std::memory_order_acquire);
}

uint64_t Engine::slot_seq(int slot) const {
  return state_->slot_seq[static_cast<size_t>(slot)];
}

KeyLocks& Engine::key_locks() {
  return state_->key_locks;
}

std::string Engine::dir() const {
  return state_->options.dir;
}

// ---- flags

uint8_t Engine::slot_flags(int slot) const {
  const size_t i = static_cast<size_t>(slot);
  const uint8_t raw = state_->flags[i].load(std::memory_order_acquire);
  if ((raw & kSlotFenced) == 0) return raw;
  const int64_t until = state_->fence_until[i].load(std::memory_order_relaxed);
  const bool over = until != 0 && state_->clock.mono_us() >= until;
  return over ? static_cast<uint8_t>(raw & ~kSlotFenced) : raw;
}

std::string Engine::write_refusal(int slot) const {
  const uint8_t flags = slot_flags(slot);
  if ((flags & kSlotFenced) != 0) return state_->refusal(slot, false);
  if ((flags & kSlotFollowed) != 0) return "READONLY You can't write against a read only replica.";
  return {};
}

std::string Engine::read_refusal(int slot) const {
  if ((state_->flags[static_cast<size_t>(slot)] & kSlotReadsRefused) == 0) return {};
  return state_->refusal(slot, true);
}

uint64_t Gate::last_seq() const {
  return engine_->state_->last_seq;
}

uint64_t Gate::slot_seq(int slot) const {
  return engine_->state_->slot_seq[static_cast<size_t>(slot)];
}

void Gate::set_flags(int slot, uint8_t flags) {
  Engine::State& s = *engine_->state_;
  const uint8_t before =
      s.flags[static_cast<size_t>(slot)].exchange(flags, std::memory_order_release);
  s.followed_count +=
      ((flags & kSlotFollowed) != 0 ? 1 : 0) - ((before & kSlotFollowed) != 0 ? 1 : 0);
}

uint8_t Gate::flags(int slot) const {
  return engine_->state_->flags[static_cast<size_t>(slot)];
}

void Gate::set_fence_until(int slot, int64_t mono_us) {
  engine_->state_->fence_until[static_cast<size_t>(slot)] = mono_us;
}

int64_t Gate::fence_until(int slot) const {
  return engine_->state_->fence_until[static_cast<size_t>(slot)];
}

void Gate::set_refusal(int slot, std::string write_text, std::string read_text) {
  const std::lock_guard lock(engine_->state_->refusal_mutex);
  if (write_text.empty() && read_text.empty()) {
    engine_->state_->refusals.erase(slot);
  } else {
    engine_->state_->refusals[slot] = {std::move(write_text), std::move(read_text)};
  }
}

Result<uint64_t> Gate::log_sys(
    const std::vector<std::pair<std::string, std::optional<std::string>>>& records, bool synced) {
  Engine::State& s = *engine_->state_;
  std::vector<WriteOp> shared;
  for (const auto& [name, value] : records) {
    if (!name.starts_with(kSharedPrefix)) continue;
    shared.push_back(
        {value ? WriteOp::Kind::kPut : WriteOp::Kind::kDelete, Cf::kSys, name, value.value_or("")});
  }
  if (shared.empty()) {
    Status done = s.write_sys(records, synced);
    if (!done) return done;
    return s.last_seq.load();
  }
  rocksdb::WriteBatch batch;
  s.add_sys(batch, records);
  const uint64_t seq = s.last_seq + 1;
  const int64_t time_ms = s.own_now_ms();
  Status done = s.write_logged(batch, seq, time_ms, LogEntry::Kind::kWrite, {}, synced);
  if (!done) return done;
  s.publish(seq, time_ms, LogEntry::Kind::kWrite, {},
            [&shared] { return std::make_shared<const std::vector<WriteOp>>(std::move(shared)); });
  logged_ = seq;
  return seq;
}

Status Gate::write_sys(
    const std::vector<std::pair<std::string, std::optional<std::string>>>& records, bool synced) {
  return engine_->state_->write_sys(records, synced);
}

}  // namespace sf
