#include "storage_node/replica/disk_syncer.h"

#include <utility>

#include "common/base/check.h"

namespace sf {

DiskSyncer::DiskSyncer(Engine& engine) : engine_(engine), thread_([this] { work(); }) {}

DiskSyncer::~DiskSyncer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void DiskSyncer::sync(std::function<void(Status)> done) {
  {
    const std::lock_guard lock(mutex_);
    SF_CHECK(wanted_ == nullptr);
    wanted_ = std::move(done);
  }
  wake_.notify_all();
}

void DiskSyncer::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || wanted_ != nullptr; });
    if (stopping_) return;
    const std::function<void(Status)> done = std::exchange(wanted_, nullptr);
    lock.unlock();
    done(engine_.flush_wal(true));
    lock.lock();
  }
}

}  // namespace sf
