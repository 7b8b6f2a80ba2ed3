// How long cutovers paused the requests of their slots. Thread-safe.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "common/ops/histogram.h"

namespace sf {

struct PauseSummary {
  int64_t cutovers = 0;      // units switched in this life of the shim
  int64_t pause_p50_us = 0;  // first request held to last held one sent (DESIGN 8)
  int64_t pause_p99_us = 0;
  int64_t pause_max_us = 0;
  int64_t sync_p99_us = 0;  // the owner record's synced write, part of the pause
  int64_t gap_p50_us = 0;   // nothing held although a unit was there to be switched
  int64_t gap_p99_us = 0;
  int64_t gap_max_us = 0;
  std::string last_error;  // of an attempt taken back
};

class PauseStats {
 public:
  // A pause of 0 means that nothing was held and is not counted among the pauses.
  void switched(int64_t pause_us, int64_t sync_us) {
    std::lock_guard guard(mutex_);
    ++cutovers_;
    if (pause_us > 0) pause_.record(pause_us);
    sync_.record(sync_us);
  }
  void taken_back(const std::string& why) {
    std::lock_guard guard(mutex_);
    last_error_ = why;
  }
  void idle(int64_t gap_us) {
    std::lock_guard guard(mutex_);
    gap_.record(gap_us);
  }
  PauseSummary summary() const {
    std::lock_guard guard(mutex_);
    return {.cutovers = cutovers_,
            .pause_p50_us = pause_.percentile(50),
            .pause_p99_us = pause_.percentile(99),
            .pause_max_us = pause_.max(),
            .sync_p99_us = sync_.percentile(99),
            .gap_p50_us = gap_.percentile(50),
            .gap_p99_us = gap_.percentile(99),
            .gap_max_us = gap_.max(),
            .last_error = last_error_};
  }

 private:
  mutable std::mutex mutex_;
  Histogram pause_;
  Histogram sync_;
  Histogram gap_;
  int64_t cutovers_ = 0;
  std::string last_error_;
};

}  // namespace sf
