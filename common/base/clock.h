// Time comes in through constructors, so that tests and the simulation own it.
#pragma once

#include <cstdint>

namespace sf {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t wall_ms() const = 0;  // milliseconds since 1970, may jump
  virtual int64_t mono_us() const = 0;  // microseconds from an arbitrary start, never goes back
};

// The machine's clocks. Thread-safe, has no state.
class SystemClock : public Clock {
 public:
  int64_t wall_ms() const override;
  int64_t mono_us() const override;
};

// A clock that moves only when told to. Not thread-safe.
class ManualClock : public Clock {
 public:
  explicit ManualClock(int64_t wall_ms = 1'700'000'000'000, int64_t mono_us = 0)
      : wall_ms_(wall_ms), mono_us_(mono_us) {}
  int64_t wall_ms() const override { return wall_ms_; }
  int64_t mono_us() const override { return mono_us_; }
  void advance_ms(int64_t ms) {
    wall_ms_ += ms;
    mono_us_ += ms * 1000;
  }
  void advance_mono_us(int64_t us) { mono_us_ += us; }
  void jump_wall_ms(int64_t ms) { wall_ms_ += ms; }  // as an operator or NTP would

 private:
  int64_t wall_ms_;
  int64_t mono_us_;
};

}  // namespace sf
