// Timers as data: due times in order, without a clock of its own. Used by both loops. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sf {

class TimerQueue {
 public:
  // Ids grow; timers of the same due time run in the order they were added.
  uint64_t add(int64_t due_us, std::function<void()> fn);
  void cancel(uint64_t id);  // unknown ids are ignored
  std::optional<int64_t> next_due() const;
  // Runs every timer due at `now_us` that was there when the call began. A timer may add and
  // cancel.
  void run_due(int64_t now_us);
  void clear();

 private:
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>> by_due_;
  std::unordered_map<uint64_t, int64_t> due_of_;
  uint64_t next_id_ = 1;
};

}  // namespace sf
