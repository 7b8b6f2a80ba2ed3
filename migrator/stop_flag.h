// Ctrl-C as a value: every wait of the migrator ends at once when it is raised. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace sf {

class StopFlag {
 public:
  void raise() {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      raised_ = true;
    }
    changed_.notify_all();
  }
  bool raised() const {
    const std::lock_guard<std::mutex> guard(mutex_);
    return raised_;
  }
  // Waits so long, or until raised; true if raised.
  bool wait_ms(int64_t ms) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return raised_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool raised_ = false;
};

}  // namespace sf
