// A disk that is full for the log only, or for everything, as RocksDB meets it.
#include <rocksdb/file_system.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "common/base/random.h"
#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

using rocksdb::IOStatus;

enum class Full { kNo, kLog, kAll };

class FullFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FullFile(std::unique_ptr<rocksdb::FSWritableFile> file, const std::atomic<Full>& full, bool log)
      : FSWritableFileOwnerWrapper(std::move(file)), full_(full), log_(log) {}
  IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* context) override {
    if (full_ == Full::kNo || (full_ == Full::kLog && !log_)) {
      return FSWritableFileOwnerWrapper::Append(data, options, context);
    }
    // A part of it fits.
    const rocksdb::Slice part(data.data(), data.size() / 2);
    static_cast<void>(FSWritableFileOwnerWrapper::Append(part, options, context).ok());
    return IOStatus::NoSpace("full");
  }
  IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                  const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* context) override {
    return Append(data, options, context);
  }

 private:
  const std::atomic<Full>& full_;
  const bool log_;
};

class FullDisk : public rocksdb::FileSystemWrapper {
 public:
  FullDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "FullDisk"; }
  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           rocksdb::IODebugContext* context) override {
    if (path.ends_with(".sst") && --tables_left == 0) full = Full::kAll;
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &file, context);
    if (status.ok())
      *result = std::make_unique<FullFile>(std::move(file), full, path.ends_with(".log"));
    return status;
  }
  std::atomic<Full> full{Full::kNo};
  std::atomic<int> tables_left{0};  // at the last of them the disk is full
};

struct DiskFixture : EngineFixture {
  std::shared_ptr<FullDisk> disk = std::make_shared<FullDisk>();
  std::atomic<int> reopens_wanted{0};
  DiskFixture() {
    engine.reset();
    options.wants_reopen = [this] { ++reopens_wanted; };
    options.dir = temp.sub("full");
    options.write_buffer_bytes = 1 << 20;
    options.file_system = disk;
    reopen();
  }
};

}  // namespace

TEST_CASE(
    "R12 disk full: the log's disk fills up again and again, and nothing acknowledged is lost") {
  DiskFixture f;
  Random random(3);
  std::map<std::string, std::string> acked;
  uint64_t n = 0;
  uint64_t last = 0;
  const auto write = [&] {
    const std::string key = "k" + std::to_string(random.below(200));
    const std::string value = std::string(random.below(5000), 'x') + std::to_string(n++);
    const auto seq = f.try_set(key, value);
    if (!seq) {
      CHECK(seq.status().code() == Code::kNoSpace);
      return false;
    }
    REQUIRE(*seq == last + 1);
    last = *seq;
    acked[key] = value;
    return true;
  };
  for (int round = 0; round < 40; ++round) {
    for (uint64_t i = random.below(100); i > 0; --i) REQUIRE(write());
    f.disk->full = random.below(3) == 0 ? Full::kAll : Full::kLog;
    // Refused, tried again while it is full, refused.
    for (uint64_t i = 1 + random.below(6); i > 0; --i) {
      CHECK_FALSE(write());
      static_cast<void>(f.engine->flush_wal(true));
      f.clock.advance_ms(random.below(2) == 0 ? 1 : 300);
    }
    f.disk->full = Full::kNo;
    CHECK_FALSE(write());
    f.reopen();
    CHECK(f.engine->last_seq() == last);
    REQUIRE(write());
    for (const auto& [key, value] : acked) REQUIRE(f.value(key) == value);
  }
  uint64_t after = f.engine->oldest_seq() - 1;
  while (after < last) {
    const auto entries = f.engine->read_log(after, 100'000);
    REQUIRE_MESSAGE(entries.is_ok(), entries.status().text());
    for (const LogEntry& entry : *entries) REQUIRE(entry.seq == ++after);
  }
}

TEST_CASE("R12 disk full: with space again the engine asks once to be opened anew") {
  DiskFixture f;
  f.set("a", "1");
  CHECK(f.reopens_wanted == 0);
  f.disk->full = Full::kLog;
  CHECK_FALSE(f.try_set("a", "2"));
  while (f.reopens_wanted == 0) std::this_thread::yield();  // the machine's own disk has space
  f.disk->full = Full::kNo;
  CHECK(f.try_set("a", "3").status().code() == Code::kNoSpace);
  CHECK(f.value("a") == "1");
  f.reopen();
  CHECK(f.value("a") == "1");
  f.set("a", "4");
  CHECK(f.reopens_wanted == 1);
}

TEST_CASE(
    "R12 disk full: met in a flush or a compaction, it refuses writes, keeps nobody waiting, and "
    "can be closed") {
  for (int tables = 2; tables <= 9; ++tables) {
    INFO(tables);
    DiskFixture f;
    Random random(static_cast<uint64_t>(tables));
    std::map<std::string, std::string> acked;
    const auto write = [&] {
      const std::string key = "k" + std::to_string(random.below(50));
      std::string value(20'000, 'x');
      for (char& c : value) c = static_cast<char>(random.below(256));
      if (!f.try_set(key, value)) return false;
      acked[key] = value;
      return true;
    };
    f.disk->tables_left = tables;
    int64_t written = 0;
    while (write()) REQUIRE(++written < 10'000);
    const uint64_t last = f.engine->last_seq();
    auto rest = std::async(std::launch::async, [&] {
      for (int i = 0; i < 20; ++i) CHECK_FALSE(write());
      for (const auto& [key, value] : acked) CHECK(f.value(key) == value);
      f.engine.reset();
    });
    const bool ended = rest.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    f.disk->full = Full::kNo;
    REQUIRE(ended);
    f.reopen();
    CHECK(f.engine->last_seq() == last);
    for (const auto& [key, value] : acked) REQUIRE(f.value(key) == value);
    CHECK(write());
  }
}
