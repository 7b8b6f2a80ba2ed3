// Reading the log back: the memory backlog first, RocksDB's WAL for what is older.
#include <algorithm>

#include "common/base/coding.h"
#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/log_record.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

constexpr size_t kCursorsKept = 4;

size_t bytes_of(const LogEntry& entry) {
  size_t bytes = 32;
  if (entry.ops) {
    for (const WriteOp& op : *entry.ops) bytes += op.key.size() + op.value.size() + 16;
  }
  return bytes;
}

// Walks the WAL batch by batch, over the gaps that ingested files leave in RocksDB's sequence.
class WalWalker {
 public:
  WalWalker(rocksdb::DB* db, uint64_t rocks_seq,
            std::unique_ptr<rocksdb::TransactionLogIterator> iterator)
      : db_(db), next_(rocks_seq), iterator_(std::move(iterator)) {}

  // False at the end of what is written (status() ok) or on an error.
  bool next(rocksdb::BatchResult* batch) {
    if (iterator_ != nullptr) {
      iterator_->Next();
      if (take(batch)) return true;
      iterator_.reset();
    }
    if (next_ > db_->GetLatestSequenceNumber()) return false;
    const rocksdb::Status status = db_->GetUpdatesSince(next_, &iterator_);
    if (!status.ok()) {
      iterator_.reset();
      // NotFound: RocksDB's sequence moved without a batch (an ingest) since the last one written.
      if (!status.IsNotFound()) status_ = to_status(status, "reading the log");
      return false;
    }
    if (take(batch)) return true;
    iterator_.reset();
    return false;
  }

  const Status& status() const { return status_; }
  uint64_t rocks_next() const { return next_; }
  std::unique_ptr<rocksdb::TransactionLogIterator> release() { return std::move(iterator_); }

 private:
  bool take(rocksdb::BatchResult* batch) {
    if (!iterator_->Valid()) return false;
    *batch = iterator_->GetBatch();
    const uint64_t count = static_cast<uint64_t>(std::max(1U, batch->writeBatchPtr->Count()));
    next_ = batch->sequence + count;
    return true;
  }

  rocksdb::DB* db_;
  uint64_t next_;
  std::unique_ptr<rocksdb::TransactionLogIterator> iterator_;
  Status status_;
};

Status purged(uint64_t after) {
  return Status::not_found(cat("the log after ", after, " is no longer kept"));
}

struct FileStart {
  uint64_t rocks_seq;
};

Result<std::vector<FileStart>> wal_files(rocksdb::DB* db) {
  rocksdb::VectorLogPtr files;
  const rocksdb::Status status = db->GetSortedWalFiles(files);
  if (!status.ok()) return to_status(status, "listing the log");
  std::vector<FileStart> out;
  for (const auto& file : files) out.push_back({file->StartSequence()});
  return out;
}

}  // namespace

// The log's end is the last entry in the WAL. If no WAL file holds one (all purged, or a first
// start), it is at most the last_seq record plus what RocksDB's sequence has moved since: too high
// leaves a gap that replicas see and copy over; too low would give a sequence out twice.
Status Engine::State::recover_log() {
  const Result<std::vector<FileStart>> files = wal_files(rocks());
  if (!files) return files.status();
  std::string base;
  const rocksdb::Status based =
      rocks()->Get(rocksdb::ReadOptions(), handle(Cf::kSys),
                   rocksdb::Slice(kLogBaseRecord.data(), kLogBaseRecord.size()), &base);
  if (!based.ok() && !based.IsNotFound()) return to_status(based, "reading the log's beginning");
  const uint64_t base_rocks = base.size() == 16 ? big64(base.data() + 8) : 0;
  uint64_t last = 0;
  std::deque<std::pair<uint64_t, uint64_t>> index;
  for (size_t i = files->size(); i-- > 0;) {
    const uint64_t begin = (*files)[i].rocks_seq;
    const uint64_t end = i + 1 < files->size() ? (*files)[i + 1].rocks_seq : UINT64_MAX;
    if (begin == end) continue;
    WalWalker walker(rocks(), begin, nullptr);
    rocksdb::BatchResult batch;
    bool first = true;
    while (walker.next(&batch) && batch.sequence < end) {
      if (batch.sequence <= base_rocks) continue;
      const Result<LogEntry> entry = decode_batch(*batch.writeBatchPtr, DecodeWhat::kHeader);
      if (!entry && entry.status().code() == Code::kNotFound) continue;
      if (!entry) return entry.status();
      if (first) index.emplace_front(entry->seq, batch.sequence);
      first = false;
      if (last != 0 && index.size() > 1) break;  // older file: its first entry is all we need
      if (entry->seq > last) recovered_time = entry->time_ms;
      last = std::max(last, entry->seq);
    }
    if (!walker.status().is_ok()) return walker.status();
  }
  std::string record;
  const rocksdb::Status status =
      rocks()->Get(rocksdb::ReadOptions(), handle(Cf::kSys),
                   rocksdb::Slice(kLastSeqRecord.data(), kLastSeqRecord.size()), &record);
  if (!status.ok() && !status.IsNotFound()) return to_status(status, "reading the log's end");
  if (last == 0 && record.size() == 24) {
    recovered_time = static_cast<int64_t>(big64(record.data() + 16));
  }
  if (last == 0 && record.size() >= 16) {
    const uint64_t moved = rocks()->GetLatestSequenceNumber() - big64(record.data() + 8);
    last = big64(record.data()) + moved;
    log_end_guessed = moved != 0;
  }
  log_index = std::move(index);
  log_begin = log_index.empty() ? last + 1 : log_index.front().first;
  last_seq = last;
  log_end = last;
  for (auto& seq : slot_seq) seq = last;
  rocksdb::WriteBatch batch;
  add_last_seq(batch, last);
  return write_batch(batch, false);
}

uint64_t Engine::oldest_seq() const {
  State& s = *state_;
  const std::lock_guard lock(s.log_mutex);
  if (s.log_index.empty()) return std::max(s.log_begin, s.log_end + 1);
  return std::max(s.log_begin, s.log_index.front().first);
}

void Engine::State::copy_backlog(uint64_t after, size_t max_bytes,
                                 std::vector<LogEntry>* out) const {
  size_t bytes = 0;
  size_t i = after + 1 - backlog.front().seq;
  for (; i < backlog.size() && bytes < max_bytes; ++i) {
    out->push_back(backlog[i]);
    bytes += bytes_of(out->back());
  }
}

std::optional<std::vector<LogEntry>> Engine::read_backlog(uint64_t after, size_t max_bytes) {
  State& s = *state_;
  std::vector<LogEntry> out;
  const std::lock_guard lock(s.log_mutex);
  if (after >= s.log_end) return out;
  if (s.backlog.empty() || s.backlog.front().seq > after + 1) return std::nullopt;
  s.copy_backlog(after, max_bytes, &out);
  return out;
}

Result<std::vector<LogEntry>> Engine::read_log(uint64_t after, size_t max_bytes) {
  State& s = *state_;
  if (auto recent = read_backlog(after, max_bytes)) return std::move(*recent);
  std::vector<LogEntry> out;
  uint64_t last = 0;
  uint64_t rocks_seq = 0;
  {
    const std::lock_guard lock(s.log_mutex);
    last = s.log_end;
    if (after + 1 < s.log_begin) return purged(after);
    const auto point = std::upper_bound(s.log_index.begin(), s.log_index.end(),
                                        std::pair<uint64_t, uint64_t>(after + 1, UINT64_MAX));
    if (point == s.log_index.begin()) return purged(after);
    rocks_seq = std::prev(point)->second;
  }
  // Not the log's own mutex: the gate takes that one, and the disk may be slow.
  const std::lock_guard reading(s.cursor_mutex);
  std::unique_ptr<rocksdb::TransactionLogIterator> iterator;
  const auto cursor = std::find_if(s.cursors.begin(), s.cursors.end(),
                                   [&](const State::Cursor& c) { return c.after == after; });
  if (cursor != s.cursors.end()) {
    rocks_seq = cursor->rocks_next;
    iterator = std::move(cursor->iterator);
    s.cursors.erase(cursor);
  }
  WalWalker walker(s.rocks(), rocks_seq, std::move(iterator));
  rocksdb::BatchResult batch;
  uint64_t reached = after;
  size_t bytes = 0;
  while (bytes < max_bytes && reached < last && walker.next(&batch)) {
    Result<LogEntry> entry = decode_batch(*batch.writeBatchPtr, DecodeWhat::kHeader);
    if (!entry && entry.status().code() == Code::kNotFound) continue;
    if (!entry) return entry.status();
    if (entry->seq <= reached) continue;
    if (entry->seq != reached + 1) return purged(after);
    entry = decode_batch(*batch.writeBatchPtr, DecodeWhat::kAll);
    if (!entry) return entry.status();
    reached = entry->seq;
    bytes += bytes_of(*entry);
    out.push_back(std::move(*entry));
  }
  if (!walker.status().is_ok()) return walker.status();
  // Everything up to `last` was written before this call began.
  if (out.empty()) return purged(after);
  if (s.cursors.size() >= kCursorsKept) s.cursors.erase(s.cursors.begin());
  s.cursors.push_back({reached, walker.rocks_next(), walker.release()});
  return out;
}

}  // namespace sf
