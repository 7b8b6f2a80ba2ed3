#include "proxy_shim/control/event_feed.h"

#include <algorithm>
#include <utility>

namespace sf {

void EventFeed::publish(uint64_t number, std::string json) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back({number, std::move(json)});
    if (events_.size() > kKept) events_.pop_front();
  }
  news_.notify_all();
}

std::vector<FeedEvent> EventFeed::after(uint64_t after, size_t max,
                                        std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, wait,
                 [&] { return closed_ || (!events_.empty() && events_.back().number > after); });
  std::vector<FeedEvent> out;
  if (closed_) return out;
  const auto first = std::upper_bound(events_.begin(), events_.end(), after,
                                      [](uint64_t n, const FeedEvent& e) { return n < e.number; });
  for (auto it = first; it != events_.end() && out.size() < max; ++it) out.push_back(*it);
  return out;
}

uint64_t EventFeed::newest() const {
  const std::lock_guard lock(mutex_);
  return events_.empty() ? 0 : events_.back().number;
}

void EventFeed::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  news_.notify_all();
}

bool EventFeed::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace sf
