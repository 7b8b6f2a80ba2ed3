// How fast copies of slots may be read and leave this node, all replicas together. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "common/base/clock.h"
#include "storage_node/replica/replica_settings.h"

namespace sf {

// What was taken must have passed before more is; time nobody used is not saved up beyond `burst`.
class Allowance {
 public:
  explicit Allowance(int64_t burst_us) : burst_us_(burst_us) {}
  // How long to wait, in microseconds, for something that takes `cost_us` of the time there is.
  int64_t take(int64_t now_us, double cost_us) {
    free_us_ = std::max(free_us_, now_us - burst_us_) + static_cast<int64_t>(cost_us);
    return std::max<int64_t>(0, free_us_ - now_us);
  }

 private:
  const int64_t burst_us_;
  int64_t free_us_ = 0;  // when what was taken so far has passed
};

class CopyRate {
 public:
  // The settings are asked for each time.
  CopyRate(const Clock& clock, std::function<ReplicaSettings()> settings)
      : clock_(clock), settings_(std::move(settings)) {}

  int64_t now_us() const { return clock_.mono_us(); }

  // These bytes are about to leave: how long to wait first, in microseconds.
  int64_t take(size_t bytes) {
    const int64_t rate = settings_().copy_bytes_per_second;
    if (rate <= 0) return 0;
    const std::lock_guard lock(mutex_);
    return bytes_.take(now_us(), static_cast<double>(bytes) * 1e6 / static_cast<double>(rate));
  }

  // A slot was read for so long: how long to rest. On a busy machine reading takes longer, and so
  // does the rest.
  int64_t worked(int64_t us) {
    const int64_t percent = settings_().copy_cpu_percent;
    if (percent <= 0) return 0;
    const std::lock_guard lock(mutex_);
    const int64_t now = now_us();
    return work_.take(now - us, static_cast<double>(us) * 100 / static_cast<double>(percent)) - us;
  }

 private:
  const Clock& clock_;
  const std::function<ReplicaSettings()> settings_;
  std::mutex mutex_;
  Allowance bytes_{20'000};
  Allowance work_{0};
};

}  // namespace sf
