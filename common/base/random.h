// Randomness comes in through constructors: one seed replays one history.
#pragma once

#include <cstdint>
#include <string>

namespace sf {

// xoshiro-style generator, seeded by hand. Not thread-safe; one owner.
class Random {
 public:
  explicit Random(uint64_t seed);
  static uint64_t system_seed();  // from the operating system, for ids and nonces

  uint64_t next();
  uint64_t below(uint64_t bound);     // uniform in [0, bound); bound > 0
  bool chance(double probability);    // true with that probability
  std::string hex(size_t digits);     // lower-case hex digits, for run ids, history ids, nonces

 private:
  uint64_t state_[4];
};

}  // namespace sf
