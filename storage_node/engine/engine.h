// The storage engine: one RocksDB whose WAL is the replication log (DESIGN 5.1, 5.2).
//
// Log sequence ("seq"): ours, one a committed batch, dense, starting at 1; carried in the batch as
// log data together with the wall time in milliseconds. RocksDB's own sequence numbers are never
// shown. The order of seq is the order of the WAL and the order in which readers see the batches.
//
// The gate: one mutex through which every change goes. Inside it the slot's flags are checked, seq
// is given, the batch is written, slot_seq and the backlog are updated. With sync `always` the
// caller waits, outside the gate, for a group fsync before it is told of success.
//
// Thread-safe unless a method says otherwise. Only engine/ and types/ include rocksdb/.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/ops/log.h"
#include "storage_node/engine/key_locks.h"
#include "storage_node/engine/log_retention.h"
#include "storage_node/engine/scan_cursors.h"
#include "storage_node/engine/write_txn.h"

namespace rocksdb {
class FileSystem;
class Iterator;
class Snapshot;
}  // namespace rocksdb

namespace sf {

enum class SyncPolicy { kNo, kEverySecond, kAlways };

struct EngineOptions {
  std::string dir;
  SyncPolicy sync = SyncPolicy::kNo;
  size_t write_buffer_bytes = 64UL << 20;
  size_t block_cache_bytes = 256UL << 20;
  size_t backlog_bytes = 32UL << 20;  // recent batches kept in memory for attached replicas
  // WAL on disk (log_retention.h): what somebody needs is kept up to these, what nobody needs up to
  // the spare size.
  size_t wal_keep_bytes = 4UL << 30;
  int64_t wal_keep_seconds = 24 * 3600;
  size_t wal_spare_bytes = 1UL << 30;
  int background_threads = 2;
  // With kAlways: commit() and apply() wait for the fsync. False: the caller waits with
  // wait_synced() before it tells anybody (the server: once a loop turn).
  bool sync_in_commit = true;
  // Writes are refused while the disk has less than this left, so that RocksDB itself never hits
  // the end.
  int64_t reserve_bytes = 32L << 20;
  // Called when it hit the end all the same, and there is space again: writes are refused until the
  // engine is closed and opened (ADR 0015). Once, or not at all; on a thread of the engine's, which
  // may not be the one that closes it. May be empty.
  std::function<void()> wants_reopen;
  bool expire_actively = true;  // the background task that removes expired keys of own slots
  std::shared_ptr<rocksdb::FileSystem> file_system;  // null: the machine's own
};

// A consistent view. Engine::snapshot() makes one; must die before the engine.
class ReadView {
 public:
  ~ReadView();
  ReadView(ReadView&&) noexcept;
  const rocksdb::Snapshot* raw() const { return snapshot_; }
  uint64_t seq() const { return seq_; }  // every batch up to seq, and none after, is visible

 private:
  friend class Engine;
  ReadView() = default;
  class Engine* engine_ = nullptr;
  const rocksdb::Snapshot* snapshot_ = nullptr;
  uint64_t seq_ = 0;
};

// One batch of the log, as replicas get it.
// Records of the node itself in family kSys, by name; nullopt deletes.
using SysRecords = std::vector<std::pair<std::string, std::optional<std::string>>>;
using LogOps = std::shared_ptr<const std::vector<WriteOp>>;

struct LogEntry {
  enum class Kind : uint8_t {
    kWrite = 1,
    kReload = 2,  // a slot was ingested from files: its content is not in the log, replicas fetch
                  // `slots` again
  };
  uint64_t seq = 0;
  int64_t time_ms = 0;  // wall clock of the node that took the write first
  Kind kind = Kind::kWrite;
  SlotSet slots;
  LogOps ops;  // kWrite
};

// Per-slot flags the gate and the read path check. Set only inside Engine::with_gate.
enum SlotFlag : uint8_t {
  kSlotFollowed = 1,      // a replica's slot: client writes refused (READONLY)
  kSlotFenced = 2,        // client writes refused (retryable)
  kSlotReadsRefused = 4,  // client reads refused too, except verification's
};

// The inside of the gate: exists only during Engine::with_gate's callback.
class Gate {
 public:
  uint64_t last_seq() const;
  uint64_t slot_seq(int slot) const;
  void set_flags(int slot, uint8_t flags);  // replaces
  uint8_t flags(int slot) const;
  // A lease: the kSlotFenced flag of the slot stops counting at this monotonic time, without
  // anybody's doing (checked by every write). 0: no end.
  void set_fence_until(int slot, int64_t mono_us);
  int64_t fence_until(int slot) const;
  // The RESP errors (without '-') that writes and reads of the slot get instead of the general ones
  // while it is fenced, or its reads refused. Empty: general.
  void set_refusal(int slot, std::string write_text, std::string read_text);
  // The same, as an entry of the log, if one of the names begins with kSharedPrefix: full replicas
  // get those. No slot is touched by it. Returns the log's end.
  Result<uint64_t> log_sys(
      const std::vector<std::pair<std::string, std::optional<std::string>>>& records, bool synced);
  // Writes node records in one batch, with fsync if `synced`. nullopt value erases. May be called
  // once or more; each call is atomic and durable (if synced) when it returns.
  Status write_sys(const SysRecords& records, bool synced);

 private:
  friend class Engine;
  explicit Gate(class Engine* engine) : engine_(engine) {}
  class Engine* engine_;
  uint64_t logged_ = 0;
};

// A replicated batch to apply. Positions are saved in the same RocksDB batch as the data.
struct ApplyRequest {
  // Full replica: the master's seq, which becomes ours (must be last_seq()+1 or, after a copy,
  // larger). nullopt: a followed slot's batch, which gets a seq of our own log.
  std::optional<uint64_t> as_seq;
  int64_t time_ms = 0;
  std::vector<WriteOp> ops;  // may be empty when only sys records change
  SysRecords sys;
};

class Engine {
 public:
  // Errors name the folder and the way out: not ours, newer format, damaged, locked, disk full.
  static Result<std::unique_ptr<Engine>> open(const EngineOptions& options, const Clock& clock,
                                              Log log);
  ~Engine();

  // ---- reading
  // nullopt: not there. Checked errors (I/O, corruption) come as Status.
  Result<std::optional<std::string>> get(Cf cf, std::string_view key,
                                         const ReadView* view = nullptr);
  // Positioned before begin; iterate while Valid() (bounded by end). Must die before the engine.
  std::unique_ptr<rocksdb::Iterator> scan(Cf cf, std::string_view begin, std::string_view end,
                                          const ReadView* view = nullptr);
  ReadView snapshot();  // taken inside the gate: exact seq
  ReadView peek();      // not inside the gate, so it waits for no writer; has no seq (0)

  // ---- writing
  // Commits a client's write; returns its seq (or the last one, for an empty txn). kRefused: a slot
  // is fenced or followed; the text is the RESP error to send. kNoSpace/kIO: nothing was written.
  Result<uint64_t> commit(const WriteTxn& txn);
  Result<uint64_t> commit(WriteTxn&& txn);  // cheaper: the operations move to the backlog
  // kAlways with sync_in_commit off: returns when everything up to `seq` is on disk. Else at once.
  Status wait_synced(uint64_t seq);
  // Commits a replica's batch, whatever the flags.
  Result<uint64_t> apply(const ApplyRequest& request);
  // The exclusive section: no write is in progress while fn runs, and none starts.
  Status with_gate(const std::function<Status(Gate&)>& fn);

  // ---- log
  uint64_t last_seq() const;  // newest committed
  uint64_t slot_seq(int slot)
      const;  // last batch that touched the slot; after a start, conservatively last_seq()
  bool log_end_guessed() const;  // the start found no log: its end is too high rather than too low
  uint64_t oldest_seq() const;   // oldest batch still readable; from memory
  // Entries with seq > after, in order, until max_bytes. Empty: none yet. kNotFound: purged.
  Result<std::vector<LogEntry>> read_log(uint64_t after, size_t max_bytes);
  // The same from memory alone; nullopt: they are older than the backlog, and read_log would have
  // to go to the disk (which may take long: not on a loop).
  std::optional<std::vector<LogEntry>> read_backlog(uint64_t after, size_t max_bytes);
  // `fn` is called after each commit, on the committing thread, outside the gate; must be quick
  // (post). Returns an id for unsubscribe, after which fn is not running and will not run.
  int subscribe(std::function<void(uint64_t seq)> fn);
  void unsubscribe(int id);
  // The entries after `seq` are needed by a replica or a running copy: they are kept within the
  // limits of EngineOptions. Calls replace each other.
  void claim_log_after(const std::string& claimant, uint64_t seq);
  void drop_log_claim(const std::string& claimant);
  // Not empty: the claim went over a limit and what it needs is gone; says which, for people.
  std::string lost_log_claim(const std::string& claimant) const;
  // Deletes the files of the log that are not to be kept. The background task's step, each second.
  Status trim_log();
  struct LogClaim {
    std::string claimant;
    uint64_t after = 0;
    uint64_t bytes = 0;  // of the files it keeps
    std::string lost;    // as lost_log_claim
  };
  struct LogKept {  // as trim_log saw it last
    uint64_t bytes = 0;
    uint64_t files = 0;
    LogLimits limits;
    uint64_t cuts = 0;     // claims lost since the start
    std::string last_cut;  // the newest of them, for people
    std::vector<LogClaim> claims;
  };
  LogKept log_kept() const;

  // ---- slots as a whole
  struct SstChunk {
    Cf cf;
    std::string bytes;  // one SST file, at most about chunk_bytes
    uint64_t entries;
  };
  // Streams all dbs of a slot as SST files under `view`, in key order by column family. `pace` is
  // called each 32 KiB, and may take its time; the view, but no lock, is held meanwhile.
  Status export_slot(int slot, const ReadView& view, size_t chunk_bytes,
                     const std::function<Status(SstChunk)>& sink,
                     const std::function<Status()>& pace);
  // Replaces the slot: wipes its ranges, ingests `files` (paths of SST files with their family;
  // they are moved), writes the sys records, in this order: synced if the slot is large, else all
  // in one batch. Raises slot_seq and logs a kReload entry. as_seq as in ApplyRequest; `version` is
  // above every version in the files (the other side's next_version(), asked after its snapshot).
  Status replace_slot(int slot, const std::vector<std::pair<Cf, std::string>>& files,
                      const SysRecords& sys, uint64_t version,
                      std::optional<uint64_t> as_seq = std::nullopt);
  // For replica/: a full replica after its first copy. The log so far was this node's own and ends;
  // numbering goes on from `seq` (may be LOWER than last_seq()), so that the next apply has as_seq
  // == seq+1. Older entries are no longer readable (oldest_seq() == seq+1), every slot_seq becomes
  // seq. Synced, with the sys records in the same batch; survives a restart.
  Status reset_log(uint64_t seq, const SysRecords& sys);
  int64_t key_count(int db, int slot) const;  // user keys, expired ones not yet removed included
  int64_t key_count(int db) const;
  int64_t expiring_keys(
      int db) const;  // keys with a TTL, as the expiry task's last pass counted them

  // ---- node records (kSys)
  Result<std::optional<std::string>> get_sys(const std::string& name);
  std::vector<std::pair<std::string, std::string>> scan_sys(const std::string& prefix);

  // ---- versions and time
  uint64_t next_version();                // unique and rising on this node
  void raise_version(uint64_t at_least);  // above every version copied or replicated
  // The time by which keys expire: never goes back; own clock, unless a master's time counts for a
  // followed slot (DESIGN 5.3 Time).
  int64_t expiry_now_ms(int slot) const;
  void raise_master_time(int64_t time_ms, const SlotSet& followed);
  // The first word of another master: its time counts, though the one before was ahead of it.
  void begin_master_time(int64_t time_ms, const SlotSet& followed);
  void raise_own_time(int64_t time_ms);  // of a node that goes on where its master was
  int64_t own_time_ms() const;           // never goes back, and never stands still
  // Of the newest entry of the log at the start; 0 if there was none.
  int64_t recovered_time_ms() const;
  // A time that every later write of this node has passed, and that no slot's master is behind of;
  // with the log's end at that moment. 0: a master's time is not known yet.
  struct SettledTime {
    uint64_t seq = 0;
    int64_t time_ms = 0;
  };
  SettledTime settled_time() const;
  int followed_slots() const;  // how many slots have kSlotFollowed

  uint8_t slot_flags(int slot) const;  // with a run-out lease already taken off
  // The RESP error a client's write (or read) of the slot gets now; empty: it is allowed.
  std::string write_refusal(int slot) const;
  std::string read_refusal(int slot) const;
  // Every command on a key, from its first read to its commit, holds the key's lock.
  KeyLocks& key_locks();
  ScanCursors& scan_cursors() { return scan_cursors_; }
  // Removes keys of own slots that are expired, looking at `budget` metas from where the last call
  // ended; returns how many it removed. The background task's step.
  Result<int64_t> expire_step(int64_t budget);
  Status flush_wal(bool synced);
  std::string dir() const;
  struct Stats {
    uint64_t wal_bytes = 0;
    uint64_t disk_bytes = 0;
    uint64_t memtable_bytes = 0;
    uint64_t expired_keys = 0;  // removed by the expiry task since the start
    bool disk_full = false;
  };
  Stats stats() const;

 private:
  friend class Gate;
  friend class ReadView;
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  ScanCursors scan_cursors_;
};

}  // namespace sf
