// A slot as SST files: written for a copy, ingested on the other side.
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/log_record.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

constexpr std::array<Cf, 3> kSlotFamilies = {Cf::kMeta, Cf::kData, Cf::kScore};
constexpr size_t kPaceBytes = 32UL << 10;
constexpr uint64_t kIngestFrom = 1UL << 20;  // bytes of SST files

uint64_t total_bytes(const std::vector<std::pair<Cf, std::string>>& files) {
  uint64_t total = 0;
  for (const auto& [family, path] : files) {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (!error) total += size;
  }
  return total;
}

// A file that is a string.
class StringFile : public rocksdb::FSWritableFile {
 public:
  explicit StringFile(std::string& out) : out_(out) {}
  using rocksdb::FSWritableFile::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions&,
                           rocksdb::IODebugContext*) override {
    out_.append(data.data(), data.size());
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo&,
                           rocksdb::IODebugContext* context) override {
    return Append(data, options, context);
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Flush(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return rocksdb::IOStatus::OK();
  }
  uint64_t GetFileSize(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return out_.size();
  }

 private:
  std::string& out_;
};

// Whatever file is opened for writing is the one string.
class StringFileSystem : public rocksdb::FileSystemWrapper {
 public:
  StringFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "StringFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string&, const rocksdb::FileOptions&,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext*) override {
    *result = std::make_unique<StringFile>(text);
    return rocksdb::IOStatus::OK();
  }
  std::string text;
};

// Writes SST files into memory, one at a time, and hands them on.
class ChunkWriter {
 public:
  ChunkWriter(const rocksdb::Options& base, Cf cf, size_t chunk_bytes,
              const std::function<Status(Engine::SstChunk)>& sink)
      : files_(std::make_shared<StringFileSystem>()),
        env_(rocksdb::NewCompositeEnv(files_)),
        options_(base),
        cf_(cf),
        chunk_bytes_(chunk_bytes),
        sink_(sink) {
    options_.env = env_.get();
  }

  Status add(const rocksdb::Slice& key, const rocksdb::Slice& value) {
    if (!writer_) {
      writer_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), options_);
      const rocksdb::Status opened = writer_->Open("chunk.sst");
      if (!opened.ok()) return to_status(opened, "exporting a slot");
    }
    const rocksdb::Status put = writer_->Put(key, value);
    if (!put.ok()) return to_status(put, "exporting a slot");
    ++entries_;
    bytes_ += key.size() + value.size();
    return bytes_ >= chunk_bytes_ ? finish() : Status::ok();
  }

  // Hands the open file on. Also at a db's end: a file must not span the slots between two dbs.
  Status finish() {
    if (!writer_) return Status::ok();
    const rocksdb::Status finished = writer_->Finish();
    writer_.reset();
    if (!finished.ok()) return to_status(finished, "exporting a slot");
    Engine::SstChunk chunk{cf_, std::exchange(files_->text, {}), entries_};
    entries_ = 0;
    bytes_ = 0;
    return sink_(std::move(chunk));
  }

 private:
  std::shared_ptr<StringFileSystem> files_;
  std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  Cf cf_;
  size_t chunk_bytes_;
  const std::function<Status(Engine::SstChunk)>& sink_;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
  uint64_t entries_ = 0;
  size_t bytes_ = 0;
};

// Behind the slot's last key of the last db.
std::string end_of_slot(int slot) {
  return prefix_end(slot_prefix(kDbCount - 1, slot));
}

// The db and the number of keys of a file of the meta family (a file holds keys of one db).
Status read_counts(rocksdb::SstFileReader& reader, std::array<int64_t, kDbCount>& keys) {
  const std::unique_ptr<rocksdb::Iterator> it(reader.NewIterator(rocksdb::ReadOptions()));
  it->SeekToFirst();
  if (!it->Valid()) return to_status(it->status(), "reading a copied slot's file");
  const int db = db_of_stored({it->key().data(), it->key().size()});
  if (db < 0 || db >= kDbCount) return Status::corrupt("a copied slot's file names no db");
  keys[static_cast<size_t>(db)] += static_cast<int64_t>(reader.GetTableProperties()->num_entries);
  return Status::ok();
}

}  // namespace

Status Engine::export_slot(int slot, const ReadView& view, size_t chunk_bytes,
                           const std::function<Status(SstChunk)>& sink,
                           const std::function<Status()>& pace) {
  size_t read = 0;
  for (const Cf cf : kSlotFamilies) {
    ChunkWriter writer(state_->table_options, cf, chunk_bytes, sink);
    const auto it = scan(cf, slot_prefix(0, slot), end_of_slot(slot), &view);
    for (int db = 0; db < kDbCount; ++db) {
      const std::string begin = slot_prefix(db, slot);
      const std::string end = prefix_end(begin);
      for (it->Seek(begin); it->Valid() && it->key().compare(end) < 0; it->Next()) {
        Status added = writer.add(it->key(), it->value());
        if (!added) return added;
        read += it->key().size() + it->value().size();
        if (read < kPaceBytes) continue;
        read = 0;
        if (Status go_on = pace(); !go_on) return go_on;
      }
      if (!it->status().ok()) return to_status(it->status(), "exporting a slot");
      Status finished = writer.finish();
      if (!finished) return finished;
    }
  }
  return Status::ok();
}

bool Engine::State::add_wipe(Engine& engine, int slot, rocksdb::WriteBatch& batch) const {
  bool any = false;
  for (const Cf cf : kSlotFamilies) {
    const auto it = engine.scan(cf, slot_prefix(0, slot), end_of_slot(slot));
    for (int db = 0; db < kDbCount; ++db) {
      const std::string begin = slot_prefix(db, slot);
      const std::string end = prefix_end(begin);
      it->Seek(begin);
      if (!it->Valid()) break;
      if (it->key().compare(end) >= 0) continue;
      batch.DeleteRange(handle(cf), begin, end);
      any = true;
    }
  }
  return any;
}

// The contents of small files as writes: cheaper than three files more in the tree and their
// fsyncs.
Status Engine::State::add_files(const std::vector<std::pair<Cf, std::string>>& files,
                                rocksdb::WriteBatch& batch, SlotKeys& keys) const {
  for (const auto& [family, path] : files) {
    rocksdb::SstFileReader reader(table_options);
    const rocksdb::Status status = reader.Open(path);
    if (!status.ok()) return to_status(status, "reading a copied slot's file");
    if (family == Cf::kMeta) {
      if (Status s = read_counts(reader, keys); !s) return s;
    }
    const std::unique_ptr<rocksdb::Iterator> it(reader.NewIterator(rocksdb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next())
      batch.Put(handle(family), it->key(), it->value());
    if (!it->status().ok()) return to_status(it->status(), "reading a copied slot's file");
  }
  return Status::ok();
}

Status Engine::State::ingest(const std::vector<std::pair<Cf, std::string>>& files, SlotKeys& keys) {
  for (const auto& [family, path] : files) {
    if (family != Cf::kMeta) continue;
    rocksdb::SstFileReader reader(table_options);
    const rocksdb::Status status = reader.Open(path);
    if (!status.ok()) return to_status(status, "reading a copied slot's file");
    if (Status s = read_counts(reader, keys); !s) return s;
  }
  std::vector<rocksdb::IngestExternalFileArg> args;
  for (const Cf cf : kSlotFamilies) {
    rocksdb::IngestExternalFileArg arg;
    arg.column_family = handle(cf);
    arg.options.move_files = true;
    arg.options.write_global_seqno = false;
    for (const auto& [family, path] : files) {
      if (family == cf) arg.external_files.push_back(path);
    }
    if (!arg.external_files.empty()) args.push_back(std::move(arg));
  }
  if (args.empty()) return Status::ok();
  // All families at once: a compaction between two of them would find data without its meta.
  return to_status(rocks()->IngestExternalFiles(args), "ingesting a slot's files");
}

// A slot of small files is one batch, wiped and filled at once. A large one is ingested, which is
// not one critical section: a flush may be needed before the ingest, and other slots' writers must
// not wait for it. The slot itself takes no client write (the caller follows it), and a crash in
// the middle leaves sys records that say "not copied yet".
Status Engine::replace_slot(int slot, const std::vector<std::pair<Cf, std::string>>& files,
                            const SysRecords& sys, uint64_t version,
                            std::optional<uint64_t> as_seq) {
  State& s = *state_;
  raise_version(version);  // first: after a kill no older one may be given out
  const uint64_t size = total_bytes(files);
  const bool ingested = size > kIngestFrom;
  rocksdb::WriteBatch batch(ingested ? 0 : size + size / 4);  // grown by doubling, it costs twice
  const bool wiped = s.add_wipe(*this, slot, batch);
  Engine::State::SlotKeys keys{};
  Status done;
  if (!ingested) {
    done = s.add_files(files, batch, keys);
  } else {
    {
      const std::lock_guard lock(s.gate);
      done = s.check_disk(size);
      if (done && wiped) done = s.write_batch(batch, false);
    }
    batch.Clear();
    if (done) done = s.ingest(files, keys);
  }
  if (!done) return done;
  uint64_t seq = 0;
  {
    const std::lock_guard lock(s.gate);
    seq = as_seq.value_or(s.last_seq + 1);
    if (seq <= s.last_seq) {
      return Status::invalid(
          cat("a copied slot has seq ", seq, ", the log is at ", s.last_seq.load()));
    }
    s.add_sys(batch, sys);
    const SlotSet slots = SlotSet::of(slot);
    const int64_t now = s.expiry_now_ms(slot);  // of its master, who follows from here
    // In one batch, data and records are lost together or not at all: then no fsync is needed.
    done = s.write_logged(batch, seq, now, LogEntry::Kind::kReload, slots, ingested);
    if (!done) return done;
    s.slot_seq[static_cast<size_t>(slot)] = seq;
    s.publish(seq, now, LogEntry::Kind::kReload, slots, [] { return nullptr; });
  }
  for (int db = 0; db < kDbCount; ++db) s.counts.set(db, slot, keys[static_cast<size_t>(db)]);
  s.notify(seq);
  return Status::ok();
}

}  // namespace sf
