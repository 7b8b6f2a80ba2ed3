// An fsync that takes as long as it likes: who does not wait for it by his policy must not notice.
#include <rocksdb/file_system.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

using rocksdb::IOStatus;

// Holds every fsync of the log while it is shut.
class Turnpike {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !shut_; });
    --waiting_;
  }
  void shut(bool shut) {
    const std::lock_guard lock(mutex_);
    shut_ = shut;
    changed_.notify_all();
  }
  bool wait_for_somebody() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(30), [this] { return waiting_ > 0; });
  }
  bool somebody_waits() {
    const std::lock_guard lock(mutex_);
    return waiting_ > 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false;
  int waiting_ = 0;
};

class SlowLog : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  SlowLog(std::unique_ptr<rocksdb::FSWritableFile> file, Turnpike& turnpike)
      : FSWritableFileOwnerWrapper(std::move(file)), turnpike_(turnpike) {}
  IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    turnpike_.pass();
    return FSWritableFileOwnerWrapper::Sync(options, context);
  }
  IOStatus Fsync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
    turnpike_.pass();
    return FSWritableFileOwnerWrapper::Fsync(options, context);
  }

 private:
  Turnpike& turnpike_;
};

class SlowDisk : public rocksdb::FileSystemWrapper {
 public:
  SlowDisk() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "SlowDisk"; }
  IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result,
                           rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &file, context);
    if (status.ok() && path.ends_with(".log")) {
      *result = std::make_unique<SlowLog>(std::move(file), turnpike);
    } else {
      *result = std::move(file);
    }
    return status;
  }
  Turnpike turnpike;
};

struct SlowFixture : EngineFixture {
  std::shared_ptr<SlowDisk> disk = std::make_shared<SlowDisk>();
  explicit SlowFixture(SyncPolicy sync) {
    engine.reset();
    options.dir = temp.sub("slow");
    options.sync = sync;
    options.file_system = disk;
    reopen();
  }
  ~SlowFixture() { disk->turnpike.shut(false); }
};

}  // namespace

TEST_CASE("sync everysec: writers go on while the fsync takes as long as it likes") {
  SlowFixture f(SyncPolicy::kEverySecond);
  f.set("first", "v");
  f.disk->turnpike.shut(true);
  REQUIRE(f.disk->turnpike.wait_for_somebody());
  auto writes = std::async(std::launch::async, [&f] {
    const std::string value(5'000, 'x');
    // More than a memtable, so that a WAL file ends meanwhile too.
    for (int i = 0; i < 1200; ++i) f.set("k" + std::to_string(i), value);
  });
  CHECK(writes.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(f.disk->turnpike.somebody_waits());
  f.disk->turnpike.shut(false);
}

TEST_CASE("sync always: a write is told of only after its fsync, and readers do not wait for it") {
  SlowFixture f(SyncPolicy::kAlways);
  f.set("first", "v");
  f.disk->turnpike.shut(true);
  auto write = std::async(std::launch::async, [&f] { f.set("second", "v"); });
  REQUIRE(f.disk->turnpike.wait_for_somebody());
  CHECK(write.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  CHECK(f.value("first") == "v");
  f.disk->turnpike.shut(false);
  CHECK(write.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
}
