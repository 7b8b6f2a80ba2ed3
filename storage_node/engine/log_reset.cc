// A full replica after its first copy: the log here becomes its master's, with the master's
// numbers.
#include "common/base/coding.h"
#include "storage_node/engine/engine_state.h"

namespace sf {

bool Engine::log_end_guessed() const {
  return state_->log_end_guessed;
}

Status Engine::reset_log(uint64_t seq, const SysRecords& sys) {
  State& s = *state_;
  {
    const std::lock_guard lock(s.gate);
    rocksdb::WriteBatch batch;
    s.add_sys(batch, sys);
    // Entries of the WAL before this batch are of the old log: see recover_log.
    const uint64_t rocks_seq =
        s.rocks()->GetLatestSequenceNumber() + static_cast<uint64_t>(batch.Count()) + 2;
    std::string base;
    put_big64(base, seq);
    put_big64(base, rocks_seq);
    batch.Put(s.handle(Cf::kSys), rocksdb::Slice(kLogBaseRecord.data(), kLogBaseRecord.size()),
              base);
    s.newest_time = s.slot_time[0];  // the master's from here on
    s.add_last_seq(batch, seq);
    Status written = s.write_batch(batch, true);
    if (!written) return written;
    const std::lock_guard log_lock(s.log_mutex);
    s.last_seq.store(seq, std::memory_order_release);
    for (auto& slot_seq : s.slot_seq) slot_seq = seq;
    s.log_begin = seq + 1;
    s.log_end = seq;
    s.log_index.clear();
    s.log_index.emplace_back(seq + 1, rocks_seq + 1);
    s.backlog.clear();
    s.backlog_bytes = 0;
  }
  {
    const std::lock_guard lock(s.cursor_mutex);
    s.cursors.clear();
  }
  {
    const std::lock_guard lock(s.sync_mutex);
    s.synced_seq = seq;
  }
  s.notify(seq);
  return Status::ok();
}

}  // namespace sf
