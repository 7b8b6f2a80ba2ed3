// Which requests are on their way to which side, slot by slot, on one worker: writes for HOLD
// (DESIGN 6.2, I2 b), reads too for PROMOTE, where the side they leave is about to refuse them. A
// command counts for every slot it may touch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/slots/slot_set.h"
#include "proxy_shim/data/data_plane.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class WriteLedger {
 public:
  void sent(const Pending& request) { change(request, 1); }
  void answered(const Pending& request) {
    change(request, -1);
    if (!waiters_.empty()) notify();
  }
  // Its connection broke or timed out after the bytes were handed over: a write may execute at any
  // time.
  void unanswered(const Pending& request);

  // Calls fn(unanswered writes of `slots` on `side` since forget) as soon as no request of that
  // kind is in flight to it for them; at once if so now.
  void when_drained(uint64_t id, const SlotSet& slots, InFlight what,
                    std::function<void(int64_t)> fn, Side side = Side::kOld);
  void cancel(uint64_t id);
  void forget_unanswered(const SlotSet& slots, Side side = Side::kOld);

  int64_t in_flight(Side side, int slot) const {
    const auto& s = sides_[static_cast<size_t>(side)];
    return s.slots[static_cast<size_t>(slot)] + s.all;
  }
  int64_t total() const { return total_; }

 private:
  struct SideCounts {
    std::array<int32_t, kSlotCount> slots{};  // writes
    std::array<int32_t, kSlotCount> reads{};
    std::array<int32_t, kSlotCount> unanswered{};
    int64_t all = 0;        // commands that may write any slot
    int64_t all_reads = 0;  // commands that may read any slot
  };
  struct Waiter {
    uint64_t id;
    SlotSet slots;
    InFlight what;
    Side side;
    std::function<void(int64_t)> fn;
  };

  void change(const Pending& request, int by) {
    auto& s = sides_[static_cast<size_t>(request.side)];
    if (request.is_write) total_ += by;
    if (request.all_slots) {
      (request.is_write ? s.all : s.all_reads) += by;
      return;
    }
    auto& counts = request.is_write ? s.slots : s.reads;
    request.for_each_slot([&](uint16_t slot) { counts[slot] += by; });
  }
  bool is_drained(const SlotSet& slots, InFlight what, Side side) const;
  int64_t unanswered_of(const SlotSet& slots, Side side) const;
  void notify();

  std::array<SideCounts, 2> sides_;
  int64_t total_ = 0;
  std::vector<Waiter> waiters_;
};

}  // namespace sf
