#include "proxy_shim/data/hold_queue.h"

#include <algorithm>

#include "common/base/check.h"

namespace sf {

bool HoldBudget::take(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  const int64_t requests = requests_.fetch_add(1, std::memory_order_relaxed) + 1;
  const int64_t total = bytes_.fetch_add(size, std::memory_order_relaxed) + size;
  if (requests <= requests_max_ && total <= bytes_max_) return true;
  give(bytes);
  if (!told_.exchange(true, std::memory_order_relaxed) && on_overflow_) on_overflow_();
  return false;
}

void HoldBudget::give(size_t bytes) {
  requests_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

void SessionHolds::change(const Pending& held, int by) {
  total += static_cast<uint32_t>(by);
  if (held.all_slots) all += static_cast<uint32_t>(by);
  held.for_each_slot([&](uint16_t slot) { slots[slot] += static_cast<uint32_t>(by); });
}

void HoldQueue::Part::merge(const Part& other) {
  requests += other.requests;
  bytes += other.bytes;
  if (other.first_us != 0 && (first_us == 0 || other.first_us < first_us)) {
    first_us = other.first_us;
  }
  last_us = std::max(last_us, other.last_us);
}

HoldQueue::~HoldQueue() {
  for (Pending* record = head_; record != nullptr; record = record->next) {
    budget_.give(record->bytes.size());
  }
}

bool HoldQueue::push(Pending* record, std::string_view raw) {
  if (!budget_.take(raw.size())) return false;
  record->bytes.assign(raw);
  append(record);
  return true;
}

void HoldQueue::append(Pending* record) {
  record->is_held = true;
  record->hold_pass = pass_;
  record->next = nullptr;
  record->prev = tail_;
  (tail_ != nullptr ? tail_->next : head_) = record;
  tail_ = record;
}

void HoldQueue::unlink(Pending* record) {
  SF_CHECK(record->is_held);
  (record->prev != nullptr ? record->prev->next : head_) = record->next;
  (record->next != nullptr ? record->next->prev : tail_) = record->prev;
  record->next = record->prev = nullptr;
  record->is_held = false;
}

void HoldQueue::remove(Pending* record) {
  unlink(record);
  budget_.give(record->bytes.size());
}

Pending* HoldQueue::take_next() {
  Pending* record = head_;
  if (record == nullptr || record->hold_pass == pass_) return nullptr;
  unlink(record);
  return record;
}

void HoldQueue::keep(Pending* record) {
  append(record);
}

void HoldQueue::let_go(Pending* record, int64_t now_us) {
  budget_.give(record->bytes.size());
  const Part one{1, static_cast<int64_t>(record->bytes.size()), record->started_us, now_us};
  bool is_first = true;  // a command of several slots counts once
  record->for_each_slot([&](uint16_t slot) {
    parts_[slot].merge(is_first ? one : Part{0, 0, one.first_us, one.last_us});
    is_first = false;
  });
}

HoldQueue::Part HoldQueue::take_report(const SlotSet& slots) {
  Part sum;
  slots.for_each([&](int slot) {
    Part& part = parts_[static_cast<size_t>(slot)];
    sum.merge(part);
    part = Part{};
  });
  return sum;
}

}  // namespace sf
