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
                               std::function<void(int64_t)> fn, Side side) {
  if (is_drained(slots, what, side)) {
    fn(unanswered_of(slots, side));
    return;
  }
  waiters_.push_back({id, slots, what, side, std::move(fn)});
}

void WriteLedger::cancel(uint64_t id) {
  std::erase_if(waiters_, [id](const Waiter& waiter) { return waiter.id == id; });
}

void WriteLedger::forget_unanswered(const SlotSet& slots, Side side) {
  auto& lost = sides_[static_cast<size_t>(side)].unanswered;
  slots.for_each([&](int slot) { lost[static_cast<size_t>(slot)] = 0; });
}

bool WriteLedger::is_drained(const SlotSet& slots, InFlight what, Side side) const {
  const auto& counts = sides_[static_cast<size_t>(side)];
  const bool reads_too = what == InFlight::kAll;
  if (counts.all != 0 || (reads_too && counts.all_reads != 0)) return false;
  bool drained = true;
  slots.for_each([&](int slot) {
    const auto i = static_cast<size_t>(slot);
    if (counts.slots[i] != 0 || (reads_too && counts.reads[i] != 0)) drained = false;
  });
  return drained;
}

int64_t WriteLedger::unanswered_of(const SlotSet& slots, Side side) const {
  int64_t count = 0;
  slots.for_each([&](int slot) {
    count += sides_[static_cast<size_t>(side)].unanswered[static_cast<size_t>(slot)];
  });
  return count;
}

void WriteLedger::notify() {
  for (size_t i = 0; i < waiters_.size();) {
    if (!is_drained(waiters_[i].slots, waiters_[i].what, waiters_[i].side)) {
      ++i;
      continue;
    }
    const Waiter waiter = std::move(waiters_[i]);
    waiters_.erase(waiters_.begin() + static_cast<std::ptrdiff_t>(i));
    waiter.fn(unanswered_of(waiter.slots, waiter.side));
  }
}

}  // namespace sf
