// The migrator's word that every proxy was read back as sending these slots to the shim
// (DESIGN 6.2). Kept in memory only: a restart voids it. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "common/base/clock.h"
#include "common/slots/slot_set.h"

namespace sf {

class Permits {
 public:
  static constexpr int64_t kValidMs = 10'000;

  explicit Permits(const Clock* clock) : clock_(clock) {}

  void grant(const SlotSet& slots);
  bool valid(const SlotSet& slots, std::string* why_not) const;
  int64_t ms_left(const SlotSet& slots) const;  // of the slot with least; 0 if any has none

 private:
  const Clock* const clock_;
  mutable std::mutex mutex_;
  std::array<int64_t, kSlotCount> until_us_{};
};

}  // namespace sf
