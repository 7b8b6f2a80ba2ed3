// Requests kept back while their slot changes owner: in order of arrival, bounded over all workers
// (I9).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "common/slots/slot_set.h"
#include "proxy_shim/data/data_plane.h"
#include "proxy_shim/data/pending.h"

namespace sf {

// Shared by all workers. Thread-safe.
class HoldBudget {
 public:
  HoldBudget(size_t requests_max, size_t bytes_max)
      : requests_max_(static_cast<int64_t>(requests_max)),
        bytes_max_(static_cast<int64_t>(bytes_max)) {}

  void set_on_overflow(std::function<void()> fn) { on_overflow_ = std::move(fn); }  // before start
  // False if the request does not fit; the first refusal since rearm() calls on_overflow.
  bool take(size_t bytes);
  void give(size_t bytes);
  void rearm() { told_.store(false, std::memory_order_relaxed); }
  int64_t requests() const { return requests_.load(std::memory_order_relaxed); }
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  const int64_t requests_max_;
  const int64_t bytes_max_;
  std::function<void()> on_overflow_;
  std::atomic<int64_t> requests_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<bool> told_{false};
};

// Slots in which one connection has held requests: what arrives for them later waits too (I5).
struct SessionHolds {
  std::array<uint32_t, kSlotCount> slots{};
  uint32_t total = 0;
  uint32_t all = 0;  // held requests that may write any slot
  void change(const Pending& held, int by);
};

// One worker's queue. Its thread.
class HoldQueue {
 public:
  explicit HoldQueue(HoldBudget& budget) : budget_(budget) {}
  ~HoldQueue();

  // Takes `raw` (RESP) into the record. False over the budget: nothing was changed.
  bool push(Pending* record, std::string_view raw);
  // Its client closed, or it was answered with an error.
  void remove(Pending* record);

  // One pass over the queue, oldest first: begin_pass(), then take_next() until null, each record
  // given back by keep() or let_go(). A client may close in between: its records leave by remove().
  void begin_pass() { ++pass_; }
  Pending* take_next();
  void keep(Pending* record);                    // still held: at the end, budget unchanged
  void let_go(Pending* record, int64_t now_us);  // about to be sent or refused: leaves the budget

  bool empty() const { return head_ == nullptr; }
  template <class Fn>
  void for_each(Fn&& fn) const {
    for (Pending* record = head_; record != nullptr; record = record->next) fn(*record);
  }
  // What was let go of `slots` since the last call. first_us and last_us are kept apart so that
  // workers can be merged; 0: none.
  struct Part {
    int64_t requests = 0, bytes = 0, first_us = 0, last_us = 0;
    void merge(const Part& other);
  };
  Part take_report(const SlotSet& slots);

 private:
  void append(Pending* record);
  void unlink(Pending* record);
  HoldBudget& budget_;
  Pending* head_ = nullptr;
  Pending* tail_ = nullptr;
  uint32_t pass_ = 0;
  std::array<Part, kSlotCount> parts_{};
};

}  // namespace sf
