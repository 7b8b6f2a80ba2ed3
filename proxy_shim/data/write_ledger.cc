#include "proxy_shim/data/write_ledger.h"

#include <algorithm>

namespace sf {

void WriteLedger::unanswered(const Pending& request) {
  auto& lost = sides_[static_cast<size_t>(request.side)].unanswered;
  if (request.is_write && request.all_slots) {
    for (auto& count : lost) ++count;
  } else if (request.is_write) {
    request.for_each_slot([&](uint16_t slot) { ++lost[slot]; });
  }
  answered(request);
}

void WriteLedger::when_drained(uint64_t id, const SlotSet& slots, InFlight what,
                               std::function<void(int64_t)> fn) {
  if (is_drained(slots, what)) {
    fn(unanswered_of(slots));
    return;
  }
  waiters_.push_back({id, slots, what, std::move(fn)});
}

void WriteLedger::cancel(uint64_t id) {
  std::erase_if(waiters_, [id](const Waiter& waiter) { return waiter.id == id; });
}

void WriteLedger::forget_unanswered(const SlotSet& slots) {
  auto& lost = sides_[static_cast<size_t>(Side::kOld)].unanswered;
  slots.for_each([&](int slot) { lost[static_cast<size_t>(slot)] = 0; });
}

bool WriteLedger::is_drained(const SlotSet& slots, InFlight what) const {
  const auto& old_side = sides_[static_cast<size_t>(Side::kOld)];
  const bool reads_too = what == InFlight::kAll;
  if (old_side.all != 0 || (reads_too && old_side.all_reads != 0)) return false;
  bool drained = true;
  slots.for_each([&](int slot) {
    const auto i = static_cast<size_t>(slot);
    if (old_side.slots[i] != 0 || (reads_too && old_side.reads[i] != 0)) drained = false;
  });
  return drained;
}

int64_t WriteLedger::unanswered_of(const SlotSet& slots) const {
  int64_t count = 0;
  slots.for_each([&](int slot) {
    count += sides_[static_cast<size_t>(Side::kOld)].unanswered[static_cast<size_t>(slot)];
  });
  return count;
}

void WriteLedger::notify() {
  for (size_t i = 0; i < waiters_.size();) {
    if (!is_drained(waiters_[i].slots, waiters_[i].what)) {
      ++i;
      continue;
    }
    const Waiter waiter = std::move(waiters_[i]);
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    waiter.fn(unanswered_of(waiter.slots));
  }
}

}  // namespace sf
