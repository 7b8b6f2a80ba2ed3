// Clients that wait until slots have applied a position (REPLICATION WAITAPPLIED). Woken by events.
// Not thread-safe: SlotControl's mutex covers it. Callbacks must only post.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/slots/slot_set.h"
#include "replication/history.h"

namespace sf {

class WaitTable {
 public:
  static constexpr size_t kWaitersMax = 4096;

  // reached(slot, want): has the slot applied it now?
  using Reached = std::function<bool(int, const Position&)>;

  // 0: reached already, and `done` was not kept. Else the waiter's number.
  uint64_t add(const SlotSet& slots, Position want, std::function<void()> done,
               const Reached& reached) {
    Waiter waiter{slots, std::move(want), std::move(done)};
    if (check(waiter, reached)) return 0;
    waiters_.emplace(++last_, std::move(waiter));
    return last_;
  }

  // True if it was still waiting.
  bool remove(uint64_t id) { return waiters_.erase(id) != 0; }

  // Some positions moved: tells whom it concerns.
  void moved(const Reached& reached) {
    for (auto it = waiters_.begin(); it != waiters_.end();) {
      if (check(it->second, reached)) {
        it->second.done();
        it = waiters_.erase(it);
      } else {
        ++it;
      }
    }
  }

  bool empty() const { return waiters_.empty(); }
  bool full() const { return waiters_.size() >= kWaitersMax; }

 private:
  struct Waiter {
    SlotSet missing;
    Position want;
    std::function<void()> done;
  };

  static bool check(Waiter& waiter, const Reached& reached) {
    for (int slot : waiter.missing.to_vector()) {
      if (!reached(slot, waiter.want)) return false;  // the others are looked at when it is
      waiter.missing.remove(slot);
    }
    return true;
  }

  std::map<uint64_t, Waiter> waiters_;
  uint64_t last_ = 0;
};

}  // namespace sf
