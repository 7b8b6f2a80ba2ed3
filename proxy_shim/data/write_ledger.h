// Which writes are on their way to which side, slot by slot, on one worker (DESIGN 6.2 HOLD, I2 b).
// A command counts for every slot it may write.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/slots/slot_set.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class WriteLedger {
 public:
  void sent(const Pending& write) { change(write, 1); }
  void answered(const Pending& write) {
    change(write, -1);
    if (!waiters_.empty()) notify();
  }
  // Its connection broke or timed out after the bytes were handed over: it may execute at any time.
  void unanswered(const Pending& write);

  // Calls fn(unanswered writes of `slots` on the old side since forget) as soon as none of them is
  // in flight to the old side; at once if so now.
  void when_drained(uint64_t id, const SlotSet& slots, std::function<void(int64_t)> fn);
  void cancel(uint64_t id);
  void forget_unanswered(const SlotSet& slots);

  int64_t in_flight(Side side, int slot) const {
    const auto& s = sides_[static_cast<size_t>(side)];
    return s.slots[static_cast<size_t>(slot)] + s.all;
  }
  int64_t total() const { return total_; }

 private:
  struct SideCounts {
    std::array<int32_t, kSlotCount> slots{};
    std::array<int32_t, kSlotCount> unanswered{};
    int64_t all = 0;  // commands that may write any slot
  };
  struct Waiter {
    uint64_t id;
    SlotSet slots;
    std::function<void(int64_t)> fn;
  };

  void change(const Pending& write, int by) {
    auto& s = sides_[static_cast<size_t>(write.side)];
    total_ += by;
    if (write.all_slots) {
      s.all += by;
      return;
    }
    write.for_each_slot([&](uint16_t slot) { s.slots[slot] += by; });
  }
  bool is_drained(const SlotSet& slots) const;
  int64_t unanswered_of(const SlotSet& slots) const;
  void notify();

  std::array<SideCounts, 2> sides_;
  int64_t total_ = 0;
  std::vector<Waiter> waiters_;
};

}  // namespace sf
