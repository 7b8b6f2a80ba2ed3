// A disk whose fsyncs of the log can be held up, for tests of who waits for them.
#pragma once

#include <rocksdb/file_system.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

namespace sf {

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
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    turnpike_.pass();
    return FSWritableFileOwnerWrapper::Sync(options, context);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
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
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    const rocksdb::IOStatus status =
        FileSystemWrapper::NewWritableFile(path, options, &file, context);
    if (status.ok() && path.ends_with(".log")) {
      *result = std::make_unique<SlowLog>(std::move(file), turnpike);
    } else {
      *result = std::move(file);
    }
    return status;
  }
  Turnpike turnpike;
};

}  // namespace sf
