#include "common/net/timer_queue.h"

namespace sf {

uint64_t TimerQueue::add(int64_t due_us, std::function<void()> fn) {
  const uint64_t id = next_id_++;
  by_due_.emplace(std::make_pair(due_us, id), std::move(fn));
  due_of_.emplace(id, due_us);
  return id;
}

void TimerQueue::cancel(uint64_t id) {
  const auto it = due_of_.find(id);
  if (it == due_of_.end()) return;
  // The function dies last: what it owns may cancel timers, too.
  const auto dead = by_due_.extract({it->second, id});
  due_of_.erase(it);
}

std::optional<int64_t> TimerQueue::next_due() const {
  if (by_due_.empty()) return std::nullopt;
  return by_due_.begin()->first.first;
}

void TimerQueue::run_due(int64_t now_us) {
  // Timers added meanwhile wait for the next call: a timer of no delay that adds itself again must
  // not keep the loop from its sockets.
  const uint64_t first_new = next_id_;
  auto it = by_due_.begin();
  while (it != by_due_.end() && it->first.first <= now_us) {
    if (it->first.second >= first_new) {
      ++it;
      continue;
    }
    const auto key = it->first;
    const std::function<void()> fn = std::move(it->second);
    by_due_.erase(it);
    due_of_.erase(key.second);
    fn();
    it = by_due_.begin();
  }
}

void TimerQueue::clear() {
  due_of_.clear();
  std::map<std::pair<int64_t, uint64_t>, std::function<void()>>().swap(by_due_);
}

}  // namespace sf
