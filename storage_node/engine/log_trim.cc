// Letting go of the log: who needs what of it, and deleting the files that are not to be kept.
#include <algorithm>

#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/log_record.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

std::string megabytes(uint64_t bytes) {
  return cat((bytes + (1UL << 20) - 1) >> 20, " MB");
}

}  // namespace

// ---- who needs what

void Engine::claim_log_after(const std::string& claimant, uint64_t seq) {
  const std::lock_guard lock(state_->log_mutex);
  LogClaim& claim = state_->claims[claimant];
  if (claim.after != seq) claim.lost.clear();
  claim.claimant = claimant;
  claim.after = seq;
}

void Engine::drop_log_claim(const std::string& claimant) {
  const std::lock_guard lock(state_->log_mutex);
  state_->claims.erase(claimant);
}

std::string Engine::lost_log_claim(const std::string& claimant) const {
  const std::lock_guard lock(state_->log_mutex);
  const auto claim = state_->claims.find(claimant);
  return claim == state_->claims.end() ? std::string() : claim->second.lost;
}

Engine::LogKept Engine::log_kept() const {
  const std::lock_guard lock(state_->log_mutex);
  LogKept out = state_->log_kept_now;
  out.limits = state_->log_limits();
  for (const auto& [name, claim] : state_->claims) out.claims.push_back(claim);
  return out;
}

// ---- the files

Result<std::vector<LogFile>> Engine::State::list_log() {
  rocksdb::VectorLogPtr listed;
  const rocksdb::Status status = rocks()->GetSortedWalFiles(listed);
  if (!status.ok()) return to_status(status, "listing the log");
  const int64_t now = clock.mono_us() / 1000;
  std::vector<LogFile> out;
  std::map<std::string, int64_t> closed;
  for (const auto& file : listed) {
    LogFile one{file->PathName(), file->StartSequence(), file->SizeFileBytes(), 0,
                file->Type() == rocksdb::kArchivedLogFile};
    if (one.archived) {
      int64_t since = now;
      uint64_t changed_s = 0;
      const auto known = closed_files.find(one.path);
      if (known != closed_files.end()) {
        since = known->second;
      } else if (!trimmed_once &&  // of an earlier life: only the file itself knows
                 rocks()
                     ->GetEnv()
                     ->GetFileModificationTime(options.dir + one.path, &changed_s)
                     .ok()) {
        const int64_t age = clock.wall_ms() - static_cast<int64_t>(changed_s) * 1000;
        since -= std::max<int64_t>(0, age);
      }
      closed[one.path] = since;
      one.age_ms = now - since;
    }
    out.push_back(std::move(one));
  }
  closed_files = std::move(closed);
  return out;
}

// At or before the batch of the entry after `seq`.
uint64_t Engine::State::rocks_seq_after(uint64_t seq) const {
  const auto point = std::upper_bound(log_index.begin(), log_index.end(),
                                      std::pair<uint64_t, uint64_t>(seq + 1, UINT64_MAX));
  return point == log_index.begin() ? 0 : std::prev(point)->second;
}

// Nobody begins to read before `rocks_seq` from here on; who is reading has the files open.
Status Engine::State::forget_log_before(uint64_t rocks_seq) {
  std::pair<uint64_t, uint64_t> first;  // the log's first entry from there on
  {
    const std::lock_guard lock(log_mutex);
    first = {log_end + 1, rocks_seq};  // if there is none: all of them are older
  }
  std::unique_ptr<rocksdb::TransactionLogIterator> it;
  const rocksdb::Status status = rocks()->GetUpdatesSince(rocks_seq, &it);
  if (!status.ok() && !status.IsNotFound()) return to_status(status, "reading the log");
  for (; status.ok() && it->Valid(); it->Next()) {
    const rocksdb::BatchResult batch = it->GetBatch();
    if (batch.sequence < rocks_seq) continue;
    const Result<LogEntry> entry = decode_batch(*batch.writeBatchPtr, DecodeWhat::kHeader);
    if (!entry && entry.status().code() == Code::kNotFound) continue;
    if (!entry) return entry.status();
    first = {entry->seq, batch.sequence};
    break;
  }
  {
    const std::lock_guard lock(log_mutex);
    while (!log_index.empty() && log_index.front().second < first.second) log_index.pop_front();
    const bool missing = log_index.empty() || first.first < log_index.front().first;
    if (missing && first.first >= log_begin) log_index.push_front(first);
  }
  const std::lock_guard lock(cursor_mutex);
  std::erase_if(cursors, [rocks_seq](const Cursor& c) { return c.rocks_next < rocks_seq; });
  return Status::ok();
}

void Engine::State::note_lost_claims(const LogCut& cut, uint64_t bytes) {
  const std::lock_guard lock(log_mutex);
  const uint64_t oldest = log_index.empty() ? log_end + 1 : log_index.front().first;
  for (auto& [name, claim] : claims) {
    if (claim.after + 1 >= std::max(log_begin, oldest) || !claim.lost.empty()) continue;
    claim.lost = cat("the log after ", claim.after, " is no longer kept (log end ", log_end, ")");
    if (cut.limit == LogCut::Limit::kBytes) {
      claim.lost += cat(": the log grew to ", megabytes(bytes), ", over wal-keep-size ",
                        megabytes(options.wal_keep_bytes));
    } else if (cut.limit == LogCut::Limit::kSeconds) {
      claim.lost += cat(": it is older than wal-keep-seconds ", options.wal_keep_seconds);
    }
    claim.bytes = 0;
    ++log_kept_now.cuts;
    log_kept_now.last_cut = cat(name, ": ", claim.lost);
    log.error(log_kept_now.last_cut);
  }
}

Status Engine::trim_log() {
  State& s = *state_;
  const std::lock_guard trimming(s.trim_mutex);
  const Result<std::vector<LogFile>> files = s.list_log();
  if (!files) return files.status();
  uint64_t needed = UINT64_MAX;
  uint64_t readable = 0;
  {
    const std::lock_guard lock(s.log_mutex);
    for (auto& [name, claim] : s.claims) {
      const uint64_t from = s.rocks_seq_after(claim.after);
      claim.bytes = claim.lost.empty() ? log_bytes_from(*files, from) : 0;
      if (claim.lost.empty()) needed = std::min(needed, from);
    }
    if (!s.log_index.empty()) readable = s.log_index.front().second;
  }
  LogLimits limits = s.log_limits();
  // Claims die with the process; who had one gets the time to claim again.
  if (s.clock.mono_us() < s.attach_until_us) limits.spare_bytes = limits.keep_bytes;
  if (s.disk_full || s.write_failed) limits.spare_bytes = 0;  // a place for writes is worth more
  const LogCut cut = decide_log_cut(*files, needed, readable, limits);
  const uint64_t before = log_bytes_from(*files, 0);
  s.trimmed_once = true;
  uint64_t gone = 0;
  Status done = Status::ok();
  if (cut.files > 0) done = s.forget_log_before((*files)[cut.files].start);
  for (size_t i = 0; done && i < cut.files; ++i) {
    // RocksDB looks at every file when somebody begins to read: none may vanish under it.
    const std::lock_guard no_reader(s.cursor_mutex);
    done = to_status(s.rocks()->DeleteFile((*files)[i].path), "deleting old log");
    if (done) gone += (*files)[i].bytes;
  }
  {
    const std::lock_guard lock(s.log_mutex);
    s.log_kept_now.bytes = before - gone;
    s.log_kept_now.files = files->size() - cut.files;
  }
  s.note_lost_claims(cut, before);
  return done;
}

}  // namespace sf
