#include "proxy_shim/control/permits.h"

#include <algorithm>

#include "common/base/strings.h"

namespace sf {

void Permits::grant(const SlotSet& slots) {
  std::lock_guard guard(mutex_);
  const int64_t until = clock_->mono_us() + kValidMs * 1000;
  slots.for_each([&](int slot) { until_us_[static_cast<size_t>(slot)] = until; });
}

bool Permits::valid(const SlotSet& slots, std::string* why_not) const {
  std::lock_guard guard(mutex_);
  const int64_t now = clock_->mono_us();
  SlotSet without;
  slots.for_each([&](int slot) {
    if (until_us_[static_cast<size_t>(slot)] <= now) without.add(slot);
  });
  if (without.empty()) return true;
  *why_not =
      cat("slots ", without.text(),
          " have no valid permit: the migrator gives it (SHIM PERMIT) after reading back every "
          "proxy, and it lasts ",
          kValidMs / 1000, " s");
  return false;
}

int64_t Permits::ms_left(const SlotSet& slots) const {
  std::lock_guard guard(mutex_);
  const int64_t now = clock_->mono_us();
  int64_t least = slots.empty() ? 0 : kValidMs;
  slots.for_each([&](int slot) {
    least = std::min(least, (until_us_[static_cast<size_t>(slot)] - now) / 1000);
  });
  return std::max<int64_t>(least, 0);
}

}  // namespace sf
