// A slot as SST files: written for a copy, ingested on the other side.
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>
#include <rocksdb/sst_file_writer.h>

#include <algorithm>
#include <filesystem>

#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/log_record.h"
#include "storage_node/engine/meta_peek.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

constexpr std::array<Cf, 3> kSlotFamilies = {Cf::kMeta, Cf::kData, Cf::kScore};
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

// Writes SST files into memory, one at a time, and hands them on.
class ChunkWriter {
 public:
  ChunkWriter(const rocksdb::Options& base, Cf cf, size_t chunk_bytes,
              const std::function<Status(Engine::SstChunk)>& sink)
      : env_(rocksdb::NewMemEnv(rocksdb::Env::Default())),
        options_(base),
        cf_(cf),
        chunk_bytes_(chunk_bytes),
        sink_(sink) {
    options_.env = env_.get();
  }

  Status add(const rocksdb::Slice& key, const rocksdb::Slice& value) {
    if (!writer_) {
      writer_ = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), options_);
      const rocksdb::Status opened = writer_->Open(kName);
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
    Engine::SstChunk chunk{cf_, {}, entries_};
    const rocksdb::Status read = rocksdb::ReadFileToString(env_.get(), kName, &chunk.bytes);
    if (!read.ok()) return to_status(read, "exporting a slot");
    static_cast<void>(env_->DeleteFile(kName));
    entries_ = 0;
    bytes_ = 0;
    return sink_(std::move(chunk));
  }

 private:
  static constexpr const char* kName = "/chunk.sst";
  std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  Cf cf_;
  size_t chunk_bytes_;
  const std::function<Status(Engine::SstChunk)>& sink_;
  std::unique_ptr<rocksdb::SstFileWriter> writer_;
  uint64_t entries_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

Status Engine::export_slot(int slot, const ReadView& view, size_t chunk_bytes,
                           const std::function<Status(SstChunk)>& sink) {
  for (const Cf cf : kSlotFamilies) {
    ChunkWriter writer(state_->table_options, cf, chunk_bytes, sink);
    for (int db = 0; db < kDbCount; ++db) {
      const std::string begin = slot_prefix(db, slot);
      const auto it = scan(cf, begin, prefix_end(begin), &view);
      for (; it->Valid(); it->Next()) {
        Status added = writer.add(it->key(), it->value());
        if (!added) return added;
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
    for (int db = 0; db < kDbCount; ++db) {
      const std::string begin = slot_prefix(db, slot);
      const std::string end = prefix_end(begin);
      if (!engine.scan(cf, begin, end)->Valid()) continue;
      batch.DeleteRange(handle(cf), begin, end);
      any = true;
    }
  }
  return any;
}

// The contents of small files as writes: cheaper than three files more in the tree and their
// fsyncs.
Status Engine::State::add_files(const std::vector<std::pair<Cf, std::string>>& files,
                                rocksdb::WriteBatch& batch) const {
  for (const auto& [family, path] : files) {
    rocksdb::SstFileReader reader(table_options);
    rocksdb::Status status = reader.Open(path);
    if (status.ok()) status = reader.VerifyChecksum();
    if (!status.ok()) return to_status(status, "reading a copied slot's file");
    const std::unique_ptr<rocksdb::Iterator> it(reader.NewIterator(rocksdb::ReadOptions()));
    for (it->SeekToFirst(); it->Valid(); it->Next())
      batch.Put(handle(family), it->key(), it->value());
    if (!it->status().ok()) return to_status(it->status(), "reading a copied slot's file");
  }
  return Status::ok();
}

Status Engine::State::ingest(const std::vector<std::pair<Cf, std::string>>& files) {
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

// Counts the slot's keys anew; returns the newest version in it.
Result<uint64_t> Engine::State::recount_slot(Engine& engine, int slot) {
  uint64_t newest = 0;
  for (int db = 0; db < kDbCount; ++db) {
    const std::string begin = slot_prefix(db, slot);
    const auto it = engine.scan(Cf::kMeta, begin, prefix_end(begin));
    int64_t count = 0;
    for (; it->Valid(); it->Next()) {
      ++count;
      MetaPeek meta;
      const rocksdb::Slice value = it->value();
      if (peek_meta({value.data(), value.size()}, &meta)) newest = std::max(newest, meta.version);
    }
    if (!it->status().ok()) return to_status(it->status(), "counting a slot's keys");
    counts.set(db, slot, count);
  }
  return newest;
}

// A slot of small files is one batch, wiped and filled at once. A large one is ingested, which is
// not one critical section: a flush may be needed before the ingest, and other slots' writers must
// not wait for it. The slot itself takes no client write (the caller follows it), and a crash in
// the middle leaves sys records that say "not copied yet".
Status Engine::replace_slot(int slot, const std::vector<std::pair<Cf, std::string>>& files,
                            const SysRecords& sys, std::optional<uint64_t> as_seq) {
  State& s = *state_;
  rocksdb::WriteBatch batch;
  const bool wiped = s.add_wipe(*this, slot, batch);
  const bool ingested = total_bytes(files) > kIngestFrom;
  Status done;
  if (!ingested) {
    done = s.add_files(files, batch);
  } else {
    if (wiped) {
      const std::lock_guard lock(s.gate);
      done = s.check_disk();
      if (done) done = s.write_batch(batch, false);
    }
    batch.Clear();
    if (done) done = s.ingest(files);
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
    const int64_t now = s.own_now_ms();
    // In one batch, data and records are lost together or not at all: then no fsync is needed.
    done = s.write_logged(batch, seq, now, LogEntry::Kind::kReload, slots, ingested);
    if (!done) return done;
    s.slot_seq[static_cast<size_t>(slot)] = seq;
    s.publish(seq, now, LogEntry::Kind::kReload, slots, [] { return nullptr; });
  }
  if (wiped || !files.empty()) {
    const Result<uint64_t> newest = s.recount_slot(*this, slot);
    if (!newest) return newest.status();
    raise_version(*newest);
  }
  s.notify(seq);
  return Status::ok();
}

}  // namespace sf
