// The newest entries of the audit log, for those who watch: bounded, in memory, waited for.
// Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace sf {

struct FeedEvent {
  uint64_t number = 0;  // of the audit entry, ascending
  std::string json;     // one line, without its end
};

class EventFeed {
 public:
  static constexpr size_t kKept = 1000;

  void publish(uint64_t number, std::string json);

  // Those above `after`, oldest first, at most `max`; waits for one up to `wait`. A watcher further
  // back than what is kept gets what there is. Nothing once closed.
  std::vector<FeedEvent> after(uint64_t after, size_t max, std::chrono::milliseconds wait);
  uint64_t newest() const;  // 0: none yet

  void close();  // ends every wait, for good
  bool closed() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable news_;
  std::deque<FeedEvent> events_;
  bool closed_ = false;
};

}  // namespace sf
