// How far a new side is behind over time, and what follows from it: how long the rest would take to
// be applied once writes are held (the time in BARRIER). Pure; numbers are writes or bytes, as the
// driver counts. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

namespace sf {

struct LagSample {
  int64_t at_us = 0;
  int64_t lag = 0;       // not negative
  uint64_t applied = 0;  // the new side's own position; grows by what it applies
};

struct LagForecast {
  enum class Course { kUnknown, kSteady, kGrowing, kFalling };
  Course course = Course::kUnknown;
  int64_t lag = -1;        // of the last sample; -1: none
  int64_t per_second = 0;  // of the lag; 0 unless it grows or falls
  int64_t apply_ms = -1;   // -1: unknown, too few samples of a lag
  int64_t stuck_ms = 0;    // behind, and nothing applied for so long
};

class LagTrend {
 public:
  static constexpr int64_t kWindowUs = 10'000'000;  // older samples say nothing any more
  static constexpr size_t kSamplesMax = 16;
  static constexpr size_t kSamplesMin = 4;         // before a course is named
  static constexpr int64_t kSpanMinUs = 100'000;   // likewise
  static constexpr int64_t kStuckMinUs = 300'000;  // in three samples or more
  static constexpr int64_t kRateSpanUs = 200'000;  // a rate over less is mostly noise
  static constexpr int64_t kLeadMs = 200;          // from a sample to writes held; it grows on

  // A position that went back (a new copy, another history) begins anew; a sample older than the
  // last one (two threads look) is not taken.
  void add(const LagSample& sample);
  void clear() { samples_.clear(); }  // unknown, or the new side does not follow
  LagForecast forecast() const;

 private:
  double applied_per_us() const;  // -1: unknown
  int64_t stuck_us() const;
  void name_course(LagForecast* out) const;

  std::deque<LagSample> samples_;
};

// 1/n of the bound is what applying the rest may take: draining, fencing, promoting and the owner
// record need the other. A trial's figure is of all of that and counts once.
constexpr int64_t kApplyShareOfBound = 2;

// Why a pause of at most `bound_ms` would be missed; "" if nothing says so. `limit`: the driver's
// largest lag; `queue_ms`: what else is known to take time until it is applied, 0 if nothing.
std::string why_too_late(const LagForecast& forecast, int64_t bound_ms, int64_t limit,
                         int64_t queue_ms, bool in_bytes);

}  // namespace sf
