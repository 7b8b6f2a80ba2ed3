// How fast copies of slots may leave this node, all replicas together. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "common/base/clock.h"

namespace sf {

class CopyRate {
 public:
  // `bytes_per_second` is asked each time; 0: no limit.
  CopyRate(const Clock& clock, std::function<int64_t()> bytes_per_second)
      : clock_(clock), bytes_per_second_(std::move(bytes_per_second)) {}

  // These bytes are about to leave: how long to wait first, in microseconds. Time nobody used is
  // not saved up beyond kBurstUs.
  int64_t take(size_t bytes) {
    const int64_t rate = bytes_per_second_();
    if (rate <= 0) return 0;
    const std::lock_guard lock(mutex_);
    const int64_t now = clock_.mono_us();
    free_us_ = std::max(free_us_, now - kBurstUs);
    free_us_ += static_cast<int64_t>(static_cast<double>(bytes) * 1e6 / static_cast<double>(rate));
    return std::max<int64_t>(0, free_us_ - now);
  }

 private:
  static constexpr int64_t kBurstUs = 20'000;
  const Clock& clock_;
  const std::function<int64_t()> bytes_per_second_;
  std::mutex mutex_;
  int64_t free_us_ = 0;  // when what was taken so far has left
};

}  // namespace sf
