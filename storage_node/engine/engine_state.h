// The inside of Engine, shared by the files of this folder only.
#pragma once

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/transaction_log.h>
#include <rocksdb/write_batch.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <set>
#include <shared_mutex>
#include <thread>

#include "storage_node/engine/engine.h"
#include "storage_node/engine/expire_filter.h"
#include "storage_node/engine/key_counts.h"

namespace sf {

inline constexpr std::string_view kSysPrefix = "engine/";  // records of the engine itself in kSys
inline constexpr std::string_view kLastSeqRecord = "engine/last_seq";
// (seq, rocksdb seq): WAL entries up to the latter are of an earlier log (reset_log).
inline constexpr std::string_view kLogBaseRecord = "engine/log_base";
inline constexpr std::string_view kVersionRecord = "engine/version";
inline constexpr std::string_view kFormatRecord = "engine/format";
inline constexpr uint64_t kIndexEvery = 256;     // batches between two points of the log index
inline constexpr uint64_t kLastSeqEvery = 4096;  // batches between two last_seq records

struct Engine::State {
  State(const EngineOptions& opts, const Clock& clk, Log lg)
      : options(opts), clock(clk), log(std::move(lg)) {}

  // ---- set in open, constant afterwards
  const EngineOptions options;
  const Clock& clock;
  const Log log;
  std::unique_ptr<rocksdb::Env> env;  // null: the default one
  std::shared_ptr<rocksdb::Cache> cache;
  rocksdb::Options table_options;  // of a data family, for SST files written outside the DB
  std::atomic<rocksdb::DB*> open_db_ptr{
      nullptr};  // atomic: compaction filters ask before open() returns
  std::array<rocksdb::ColumnFamilyHandle*, kCfCount> families{};

  // ---- the gate
  std::mutex gate;
  std::atomic<uint64_t> last_seq{0};
  std::array<std::atomic<uint64_t>, kSlotCount> slot_seq{};
  std::array<std::atomic<uint8_t>, kSlotCount> flags{};
  std::array<std::atomic<int64_t>, kSlotCount> fence_until{};
  KeyCounts counts;
  bool index_next = true;             // the first batch after a start gets an index point
  uint64_t batches_since_record = 0;  // under gate
  std::atomic<bool> disk_full{false};
  int64_t next_space_check_us = 0;        // under gate
  int64_t written_since_check = 0;        // bytes; under gate
  std::atomic<bool> write_failed{false};  // by RocksDB, for lack of space; until it is opened anew
  struct Refusal {
    std::string write_text;
    std::string read_text;
  };
  mutable std::mutex refusal_mutex;  // inside the gate's
  std::map<int, Refusal> refusals;

  // ---- log
  std::mutex log_mutex;  // inside the gate's
  // Readers see entries up to log_end, which moves only when the backlog has what belongs to it:
  // else a reader between the two would look for the newest entry in the files.
  uint64_t log_end = 0;
  std::deque<LogEntry> backlog;  // up to log_end without a gap, or empty
  size_t backlog_bytes = 0;
  std::deque<std::pair<uint64_t, uint64_t>> log_index;  // (our seq, rocksdb seq), ascending
  bool log_end_guessed = false;                         // set at the start
  uint64_t log_begin = 1;  // the log is dense from here on (a copy or a damaged tail breaks it)
  struct Cursor {
    uint64_t after;
    uint64_t rocks_next;
    std::unique_ptr<rocksdb::TransactionLogIterator> iterator;
  };
  // Kept by need (log_trim.cc).
  std::map<std::string, LogClaim> claims;
  LogKept log_kept_now;                         // without claims
  std::mutex trim_mutex;                        // outside the log's; never taken inside the gate
  std::map<std::string, int64_t> closed_files;  // archived WAL file -> monotonic ms of its end
  int64_t attach_until_us = 0;  // replicas of the life before may come back until then; set at open
  bool trimmed_once = false;    // once in this life; under trim_mutex
  std::mutex cursor_mutex;      // never taken inside the gate
  std::vector<Cursor> cursors;  // where recent readers of the WAL stopped

  std::shared_mutex subscribers_mutex;
  std::vector<std::pair<int, std::function<void(uint64_t)>>> subscribers;
  std::atomic<int> subscriber_count{0};
  int next_subscriber = 1;

  mutable std::mutex views_mutex;
  std::multiset<uint64_t> views;  // RocksDB's sequences of live ReadViews

  // ---- fsync
  std::mutex sync_mutex;
  std::condition_variable sync_done;
  uint64_t synced_seq = 0;
  bool syncing = false;

  // ---- versions and time
  std::mutex version_mutex;
  uint64_t version_next = 1;
  uint64_t version_reserved = 1;  // persisted: versions below it may be in use
  mutable std::atomic<int64_t> own_time{0};
  mutable std::mutex behind_mutex;  // own_time_behind()
  mutable int64_t behind_from_ms = 0;
  mutable int64_t behind_mono_ms = 0;
  std::atomic<int> followed_count{0};  // slots with kSlotFollowed
  int64_t recovered_time = 0;
  int64_t newest_time = 0;  // of the log's entries; under the gate
  std::array<std::atomic<int64_t>, kSlotCount> slot_time{};

  KeyLocks key_locks;

  // ---- background thread: everysec fsync, expiry, looking for space after a full disk
  std::mutex background_mutex;
  std::condition_variable background_wake;
  bool stopping = false;
  bool reopen_wanted = false;  // background thread only
  std::thread background;
  std::string expire_cursor;  // expire_step; under expire_mutex
  std::mutex expire_mutex;
  std::atomic<uint64_t> expired_keys{0};
  std::array<int64_t, kDbCount> expiring_seen{};  // of the running pass; under expire_mutex
  std::array<std::atomic<int64_t>, kDbCount> expiring{};

  rocksdb::DB* rocks() const { return open_db_ptr.load(std::memory_order_acquire); }
  rocksdb::ColumnFamilyHandle* handle(Cf family) const {
    return families[static_cast<size_t>(family)];
  }

  // open.cc
  std::unique_ptr<MetaSource> open_meta_source();
  Status open_db();
  Status check_format();
  Status recount_keys();
  void close_db();
  // log_reader.cc
  Status recover_log();
  void copy_backlog(uint64_t after, size_t max_bytes, std::vector<LogEntry>* out) const;
  // log_trim.cc
  LogLimits log_limits() const {
    return {options.wal_keep_bytes, options.wal_keep_seconds, options.wal_spare_bytes};
  }
  Result<std::vector<LogFile>> list_log();
  uint64_t rocks_seq_after(uint64_t seq) const;  // log_mutex held
  Status forget_log_before(uint64_t rocks_seq);
  void note_lost_claims(const LogCut& cut, uint64_t bytes);
  // gate.cc; the gate is held in all of these
  Status check_disk(size_t bytes);  // about to be written
  void look_for_space();
  Status write_batch(rocksdb::WriteBatch& batch, bool synced);
  Status write_sys(const SysRecords& records, bool synced);
  void add_sys(rocksdb::WriteBatch& batch, const SysRecords& records) const;
  void add_ops(rocksdb::WriteBatch& batch, const std::vector<WriteOp>& ops) const;
  void add_last_seq(rocksdb::WriteBatch& batch, uint64_t seq) const;
  // Gives the batch its place in the log and writes it. On success last_seq is `seq`.
  Status write_logged(rocksdb::WriteBatch& batch, uint64_t seq, int64_t time_ms,
                      LogEntry::Kind kind, const SlotSet& slots, bool synced);
  // The entry just written may be read. `ops` are not made if nobody follows the log.
  void publish(uint64_t seq, int64_t time_ms, LogEntry::Kind kind, const SlotSet& slots,
               const std::function<LogOps()>& ops);
  bool wants_backlog() const { return subscriber_count.load(std::memory_order_relaxed) != 0; }
  std::string refusal(int slot, bool read) const;
  Status refuse_write(int slot) const;
  Status refuse_writes(const WriteTxn& txn) const;
  void raise_slot_seq(const WriteTxn& txn, uint64_t seq);
  // gate.cc, outside the gate
  Status after_commit(uint64_t seq);
  Status sync_until(uint64_t seq);
  void notify(uint64_t seq);
  int64_t own_now_ms() const;
  int64_t own_time_behind() const;
  int64_t removal_now_ms(int slot) const;
  int64_t expiry_now_ms(int slot) const;
  uint64_t oldest_view() const;  // RocksDB's sequence of the oldest live ReadView; UINT64_MAX: none
  Status reserve_versions(uint64_t up_to);  // version_mutex held
  // slot_files.cc
  bool add_wipe(Engine& engine, int slot,
                rocksdb::WriteBatch& batch) const;  // true: something is there
  using SlotKeys = std::array<int64_t, kDbCount>;   // a slot's keys, by db
  Status add_files(const std::vector<std::pair<Cf, std::string>>& files, rocksdb::WriteBatch& batch,
                   SlotKeys& keys) const;
  Status ingest(const std::vector<std::pair<Cf, std::string>>& files, SlotKeys& keys);
  // background.cc
  Result<bool> expire_key(Engine& engine, const std::string& stored);
  void run_background(Engine& engine);
};

}  // namespace sf
