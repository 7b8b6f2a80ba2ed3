// How long to wait before the next try: doubling, with jitter so that replicas of one master
// spread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/random.h"

namespace sf {

class Backoff {
 public:
  Backoff(int64_t first_us, int64_t max_us, uint64_t seed)
      : first_us_(first_us), max_us_(max_us), next_us_(first_us), random_(seed) {}

  int64_t next_us() {
    int64_t wait =
        next_us_ / 2 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(next_us_ / 2 + 1)));
    next_us_ = std::min(max_us_, next_us_ * 2);
    return wait;
  }
  void reset() { next_us_ = first_us_; }

 private:
  int64_t first_us_;
  int64_t max_us_;
  int64_t next_us_;
  Random random_;
};

}  // namespace sf
