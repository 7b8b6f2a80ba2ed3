// Records that must not be lost, in a folder of their own: the shim's owners, the migrator's
// journal. RocksDB, opened so that damage is an error and never an older state; only a last write
// that was cut off, which nobody was told to be done (synced_mark.h), is left out.
//
// A failed write (a full disk) leaves RocksDB's log broken: the next write to it would end the
// process (docs/adr/0015, 0027). So after one nothing is written until reopen() has opened the
// database anew. Not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/records/record_batch.h"
#include "common/records/synced_mark.h"

namespace rocksdb {
class DB;
class Status;
}  // namespace rocksdb

namespace sf {

class RecordDb {
 public:
  enum class Mode { kExisting, kCreate, kReadOnly };

  static bool exists(const std::string& dir);
  // kCorrupt, kNoSpace, kIo; texts name the folder. kCreate also opens what is there.
  static Result<std::unique_ptr<RecordDb>> open(const std::string& dir, Mode mode);
  ~RecordDb();
  RecordDb(const RecordDb&) = delete;
  RecordDb& operator=(const RecordDb&) = delete;

  // All of the batch or nothing; with `sync` it is on the disk when this returns. After an error it
  // is unknown whether the batch is there, and whatever follows is refused with kUnavailable.
  Status write(const RecordBatch& batch, bool sync);
  // A write has failed since the last (re)open.
  bool broken() const { return broken_; }
  // As a start would open it: everything is to be read again, for the failed write is there or it
  // is not. On an error it stays broken, and nothing can be read; kNoSpace while there is less room
  // than opening takes.
  Status reopen();

  // Nothing if there is no such record.
  Result<std::optional<std::string>> get(const std::string& key) const;
  // Every record in the order of keys, from `from` on, until `fn` says false.
  Status scan(const std::string& from,
              const std::function<bool(std::string_view key, std::string_view value)>& fn) const;

 private:
  RecordDb(std::string dir, Mode mode);
  Status open_db(Mode mode);
  Status check_whole() const;
  Status status_of(const rocksdb::Status& status) const;
  Status closed() const;

  const std::string dir_;
  const Mode mode_;
  bool broken_ = false;
  SyncedMark synced_;
  std::unique_ptr<rocksdb::DB> db_;  // nullptr after a reopen() that failed
};

}  // namespace sf
