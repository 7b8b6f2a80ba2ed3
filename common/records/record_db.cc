#include "common/records/record_db.h"

#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/write_batch.h>

#include <filesystem>

#include "common/base/file.h"
#include "common/base/strings.h"

namespace sf {
namespace {

constexpr size_t kMemtableBytes = 1UL << 20;
// A new log, which is laid out ahead, and what was in memory, twice over.
constexpr int64_t kRoomToOpen = 4 * static_cast<int64_t>(kMemtableBytes);

class NoRecovery : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status /*error*/,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }
};

rocksdb::Options options_of(bool create) {
  rocksdb::Options options;
  options.create_if_missing = create;
  options.paranoid_checks = true;
  // Leaves out a record that ends behind the end of the log: cut off, or its length is damaged,
  // which check_whole() tells apart.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  options.write_buffer_size = kMemtableBytes;
  options.max_background_jobs = 2;
  options.max_bgerror_resume_count = 0;
  options.info_log_level = rocksdb::InfoLogLevel::ERROR_LEVEL;
  options.keep_log_file_num = 2;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.compression = rocksdb::kNoCompression;
  options.listeners.push_back(std::make_shared<NoRecovery>());
  return options;
}

rocksdb::Status fill(rocksdb::WriteBatch& to, const RecordBatch::Change& change) {
  switch (change.kind) {
    case RecordBatch::Change::Kind::kPut:
      return to.Put(change.key, change.value);
    case RecordBatch::Change::Kind::kErase:
      return to.Delete(change.key);
    case RecordBatch::Change::Kind::kEraseRange:
      break;
  }
  return to.DeleteRange(change.key, change.value);
}

}  // namespace

RecordDb::RecordDb(std::string dir, Mode mode) : dir_(std::move(dir)), mode_(mode) {}
RecordDb::~RecordDb() = default;

bool RecordDb::exists(const std::string& dir) {
  return std::filesystem::exists(dir + "/CURRENT");
}

Result<std::unique_ptr<RecordDb>> RecordDb::open(const std::string& dir, Mode mode) {
  std::unique_ptr<RecordDb> out(new RecordDb(dir, mode));
  Status status = out->open_db(mode);
  if (status) status = out->synced_.open(dir + "/SYNCED", mode == Mode::kReadOnly);
  if (status) status = out->check_whole();
  if (!status) return status;
  return out;
}

Status RecordDb::open_db(Mode mode) {
  rocksdb::DB* db = nullptr;
  const rocksdb::Options options = options_of(mode == Mode::kCreate);
  const rocksdb::Status status = mode == Mode::kReadOnly
                                     ? rocksdb::DB::OpenForReadOnly(options, dir_, &db)
                                     : rocksdb::DB::Open(options, dir_, &db);
  db_.reset(db);
  return status_of(status);
}

Status RecordDb::check_whole() const {
  const uint64_t there = db_->GetLatestSequenceNumber();
  if (there >= synced_.value()) return Status::ok();
  return Status::corrupt(cat("the records in ", dir_, " are damaged (of ", synced_.value(),
                             " changes written for certain ", there, " are there)"));
}

Status RecordDb::status_of(const rocksdb::Status& status) const {
  if (status.ok()) return Status::ok();
  if (status.IsCorruption()) {
    return Status::corrupt(cat("the records in ", dir_, " are damaged (", status.ToString(), ")"));
  }
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace) {
    return Status::no_space(cat(dir_, ": no space left on the device"));
  }
  return Status::io(cat(dir_, ": ", status.ToString()));
}

Status RecordDb::closed() const {
  return Status::unavailable(cat(dir_, " is closed since a write to it failed: free some space"));
}

Status RecordDb::write(const RecordBatch& batch, bool sync) {
  if (mode_ == Mode::kReadOnly) return Status::refused(cat(dir_, " was opened for reading only"));
  if (broken_) return closed();
  rocksdb::WriteBatch changes;
  for (const RecordBatch::Change& change : batch.changes()) {
    const rocksdb::Status added = fill(changes, change);
    if (!added.ok()) return status_of(added);
  }
  rocksdb::WriteOptions options;
  options.sync = sync;
  const rocksdb::Status status = db_->Write(options, &changes);
  broken_ = !status.ok();
  if (status.ok() && sync) synced_.raise(db_->GetLatestSequenceNumber());
  return status_of(status);
}

Status RecordDb::reopen() {
  Result<int64_t> room = free_bytes(dir_);
  if (room && *room < kRoomToOpen) {
    return Status::no_space(cat(dir_, ": no space left on the device (", kRoomToOpen >> 20,
                                " MiB are needed to go on after a write that failed)"));
  }
  db_.reset();
  broken_ = true;
  Status status = open_db(Mode::kExisting);
  if (status) status = check_whole();
  if (status) broken_ = false;
  return status;
}

Result<std::optional<std::string>> RecordDb::get(const std::string& key) const {
  if (db_ == nullptr) return closed();
  std::string value;
  const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return status_of(status);
  return std::optional<std::string>(std::move(value));
}

Status RecordDb::scan(
    const std::string& from,
    const std::function<bool(std::string_view key, std::string_view value)>& fn) const {
  if (db_ == nullptr) return closed();
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
  for (it->Seek(from); it->Valid(); it->Next()) {
    if (!fn(it->key().ToStringView(), it->value().ToStringView())) break;
  }
  return status_of(it->status());
}

}  // namespace sf
