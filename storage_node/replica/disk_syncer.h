// Brings the log to the disk on a thread of its own. A replica's loop applies batches for slots
// that may be about to be cut over; an fsync on it was seen to stop it for 50 to 100 ms under load.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "storage_node/engine/engine.h"

namespace sf {

class DiskSyncer {
 public:
  explicit DiskSyncer(Engine& engine);
  ~DiskSyncer();  // waits for the sync under way; one not begun is dropped, `done` not called
  DiskSyncer(const DiskSyncer&) = delete;
  DiskSyncer& operator=(const DiskSyncer&) = delete;

  // Everything committed before the call is on the disk when `done` is called, on the syncer's
  // thread (it must only post). One at a time: not to be called again before that.
  void sync(std::function<void(Status)> done);

 private:
  void work();

  Engine& engine_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<void(Status)> wanted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sf
