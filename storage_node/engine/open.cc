// Opening and closing: options, column families, recovery of what is kept in memory.
#include <rocksdb/convenience.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/table.h>

#include "common/base/coding.h"
#include "common/base/file.h"
#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/expire_filter.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

constexpr int kFormat = 1;
constexpr int64_t kAttachUs = 60'000'000;
constexpr std::array<const char*, kCfCount> kFamilyNames = {"default", "data", "score", "sys"};

rocksdb::BlockBasedTableOptions table_format(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  return table;
}

rocksdb::DBOptions db_options(const EngineOptions& options) {
  rocksdb::DBOptions db;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  // RocksDB only archives WAL files; Engine::trim_log alone deletes them. Any smaller number would
  // be less than an age that a clock set back has made negative.
  db.WAL_ttl_seconds = UINT64_MAX;
  db.max_total_wal_size = 4 * options.write_buffer_bytes;
  db.db_write_buffer_size = 4 * options.write_buffer_bytes;
  db.max_background_jobs = std::max(2, options.background_threads);
  db.max_open_files = 2048;
  db.keep_log_file_num = 4;
  db.max_log_file_size = 16UL << 20;
  db.info_log_level = rocksdb::WARN_LEVEL;
  db.bytes_per_sync = 1UL << 20;
  // Writes come one at a time, through the gate: no leaders, followers and their spinning are
  // needed.
  db.allow_concurrent_memtable_write = false;
  db.enable_write_thread_adaptive_yield = false;
  return db;
}

rocksdb::ColumnFamilyOptions family_options(const EngineOptions& options, Cf family,
                                            const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions out;
  out.write_buffer_size = family == Cf::kSys ? 1UL << 20 : options.write_buffer_bytes;
  out.max_write_buffer_number = 3;
  out.memtable_whole_key_filtering = true;  // most lookups of a key not written lately end here
  out.memtable_prefix_bloom_size_ratio = 0.05;
  out.target_file_size_base = options.write_buffer_bytes;
  out.max_bytes_for_level_base = 4 * options.write_buffer_bytes;
  out.level_compaction_dynamic_level_bytes = true;
  out.compression_per_level = {rocksdb::kNoCompression,  rocksdb::kNoCompression,
                               rocksdb::kLZ4Compression, rocksdb::kLZ4Compression,
                               rocksdb::kLZ4Compression, rocksdb::kLZ4Compression,
                               rocksdb::kLZ4Compression};
  out.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_format(cache)));
  return out;
}

// A full disk. After one met by a write or a flush RocksDB's own recovery cannot be relied on
// (ADR 0015): it is told to leave it. A compaction it tries again by itself.
class FullDiskListener : public rocksdb::EventListener {
 public:
  explicit FullDiskListener(std::atomic<bool>& write_failed) : write_failed_(write_failed) {}
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* status) override {
    if (stops_writes(reason, *status)) write_failed_ = true;
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason reason, rocksdb::Status status,
                            bool* auto_recovery) override {
    if (stops_writes(reason, status)) *auto_recovery = false;
  }

 private:
  static bool stops_writes(rocksdb::BackgroundErrorReason reason, const rocksdb::Status& status) {
    return reason != rocksdb::BackgroundErrorReason::kCompaction &&
           (status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace);
  }
  std::atomic<bool>& write_failed_;
};

Status open_error(const rocksdb::Status& status, const std::string& dir) {
  const std::string text = status.ToString();
  if (status.IsNoSpace()) {
    return Status::no_space(
        cat("data folder ", dir, ": the disk is full; free space and start again"));
  }
  if (text.find("lock") != std::string::npos && status.IsIOError()) {
    return Status::refused(
        cat("data folder ", dir, " is in use by another process; stop it or give another --dir"));
  }
  if (status.IsInvalidArgument()) {
    return Status::refused(cat("data folder ", dir,
                               " holds a database of another program or version (", text,
                               "); give another --dir"));
  }
  if (status.IsCorruption()) {
    return Status::corrupt(
        cat("data folder ", dir, " is damaged (", text,
            "); restore it, or start with an empty --dir and copy from a replica"));
  }
  return Status::io(cat("data folder ", dir, " cannot be opened: ", text));
}

}  // namespace

Status Engine::State::open_db() {
  Status made = make_dirs(options.dir);
  if (!made) return made;
  cache = rocksdb::NewLRUCache(options.block_cache_bytes);
  rocksdb::DBOptions db_opts = db_options(options);
  if (options.file_system) {
    env = rocksdb::NewCompositeEnv(options.file_system);
    db_opts.env = env.get();
  }
  db_opts.listeners.push_back(std::make_shared<FullDiskListener>(write_failed));
  const auto filter = make_expire_filter([this] { return open_meta_source(); });
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (int i = 0; i < kCfCount; ++i) {
    const Cf family = static_cast<Cf>(i);
    rocksdb::ColumnFamilyOptions cf_opts = family_options(options, family, cache);
    if (family == Cf::kMeta) table_options = rocksdb::Options(db_opts, cf_opts);
    if (family == Cf::kData || family == Cf::kScore) cf_opts.compaction_filter_factory = filter;
    descriptors.emplace_back(kFamilyNames[static_cast<size_t>(i)], cf_opts);
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::Open(db_opts, options.dir, descriptors, &handles, &opened);
  if (!status.ok()) return open_error(status, options.dir);
  std::copy(handles.begin(), handles.end(), this->families.begin());
  open_db_ptr.store(opened, std::memory_order_release);
  return Status::ok();
}

// A collection that is dead at the compaction's start is dead to everybody who reads a later
// moment; while somebody still reads an earlier one, nothing is said.
std::unique_ptr<MetaSource> Engine::State::open_meta_source() {
  class Source : public MetaSource {
   public:
    explicit Source(State& state)
        : state_(state), db_(state.rocks()), snapshot_(db_ ? db_->GetSnapshot() : nullptr) {}
    ~Source() override {
      if (snapshot_ != nullptr) db_->ReleaseSnapshot(snapshot_);
    }
    std::optional<Answer> find(std::string_view meta_key) override {
      if (snapshot_ == nullptr || state_.oldest_view() < snapshot_->GetSequenceNumber()) {
        return std::nullopt;
      }
      rocksdb::ReadOptions read;
      read.snapshot = snapshot_;
      const rocksdb::Status status =
          db_->Get(read, state_.handle(Cf::kMeta), rocksdb::Slice(meta_key.data(), meta_key.size()),
                   &value_);
      if (status.IsNotFound()) return Answer{};
      Answer answer{true, {}};
      if (!status.ok() || !peek_meta(value_, &answer.meta)) return std::nullopt;
      return answer;
    }
    int64_t expiry_now_ms(int slot) override { return state_.removal_now_ms(slot); }

   private:
    State& state_;
    rocksdb::DB* db_;  // null: the database is still being opened
    const rocksdb::Snapshot* snapshot_;
    std::string value_;
  };
  return std::make_unique<Source>(*this);
}

Status Engine::State::check_format() {
  std::string value;
  const rocksdb::Status status =
      rocks()->Get(rocksdb::ReadOptions(), handle(Cf::kSys),
                   rocksdb::Slice(kFormatRecord.data(), kFormatRecord.size()), &value);
  if (status.IsNotFound()) {
    return write_sys({{std::string(kFormatRecord), std::to_string(kFormat)}}, true);
  }
  if (!status.ok()) return to_status(status, "reading the data folder's format");
  if (value != std::to_string(kFormat)) {
    return Status::refused(cat("data folder ", options.dir, " has format ", printable(value),
                               ", this program knows ", kFormat,
                               "; use the version that wrote it"));
  }
  return Status::ok();
}

Status Engine::State::recount_keys() {
  rocksdb::ReadOptions read;
  read.fill_cache = false;
  read.readahead_size = 2UL << 20;
  const std::unique_ptr<rocksdb::Iterator> it(rocks()->NewIterator(read, handle(Cf::kMeta)));
  std::string prefix;
  int64_t count = 0;
  const auto store = [&] {
    if (count != 0) counts.set(db_of_stored(prefix), slot_of_stored(prefix), count);
  };
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const rocksdb::Slice key = it->key();
    if (key.size() < kPrefixBytes || db_of_stored({key.data(), key.size()}) >= kDbCount) {
      return Status::corrupt(cat("data folder ", options.dir, " holds keys of another layout"));
    }
    if (prefix != std::string_view(key.data(), kPrefixBytes)) {
      store();
      prefix.assign(key.data(), kPrefixBytes);
      count = 0;
    }
    ++count;
  }
  store();
  return to_status(it->status(), "counting keys");
}

void Engine::State::close_db() {
  {
    const std::lock_guard lock(background_mutex);
    stopping = true;
  }
  background_wake.notify_all();
  if (background.joinable()) background.join();
  rocksdb::DB* open = rocks();
  if (open == nullptr) return;
  {
    const std::lock_guard lock(gate);
    rocksdb::WriteBatch batch;
    add_last_seq(batch, last_seq.load());
    static_cast<void>(write_batch(batch, true));
  }
  rocksdb::CancelAllBackgroundWork(open, true);
  cursors.clear();
  for (rocksdb::ColumnFamilyHandle* h : families) {
    if (h != nullptr) open->DestroyColumnFamilyHandle(h);
  }
  open_db_ptr.store(nullptr);
  delete open;
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Engine::~Engine() {
  state_->close_db();
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options, const Clock& clock,
                                             Log log) {
  auto state = std::make_unique<State>(options, clock, std::move(log));
  State& s = *state;
  std::unique_ptr<Engine> engine(new Engine(std::move(state)));
  static_cast<void>(s.own_now_ms());
  Status done = s.open_db();
  if (done) done = s.check_format();
  if (done) done = s.recover_log();
  if (done) done = s.recount_keys();
  if (s.last_seq != 0) s.attach_until_us = clock.mono_us() + kAttachUs;
  if (done) done = engine->trim_log();
  if (!done) return done;
  const auto version = engine->get_sys(std::string(kVersionRecord));
  if (!version) return version.status();
  if (*version && (*version)->size() == 8) {
    s.version_next = s.version_reserved = big64((*version)->data());
  }
  s.synced_seq = s.last_seq;
  s.newest_time = s.recovered_time;
  s.background = std::thread([&s, raw = engine.get()] { s.run_background(*raw); });
  return engine;
}

}  // namespace sf
