#include "proxy_shim/control/lag_trend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/base/strings.h"

namespace sf {
namespace {

using Course = LagForecast::Course;

constexpr double kAgreeShare = 0.85;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string one_digit(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%.1f" : "%.0f", value);
  return text;
}

std::string amount(int64_t value, bool in_bytes) {
  if (!in_bytes) return cat(value, " writes");
  const auto bytes = static_cast<double>(value);
  if (value < 1'000) return cat(value, " B");
  if (value < 1'000'000) return one_digit(bytes / 1e3) + " KB";
  return one_digit(bytes / 1e6) + " MB";
}

std::string duration(int64_t ms) {
  return ms < 1'000 ? cat(ms, " ms") : one_digit(static_cast<double>(ms) / 1e3) + " s";
}

}  // namespace

void LagTrend::add(const LagSample& sample) {
  if (!samples_.empty() && sample.at_us < samples_.back().at_us) return;
  if (!samples_.empty() && sample.applied < samples_.back().applied) samples_.clear();
  samples_.push_back(sample);
  while (samples_.size() > kSamplesMax || samples_.front().at_us < sample.at_us - kWindowUs) {
    samples_.pop_front();
  }
}

// What the new side can apply is seen only while it is behind, and then as a least: it may have
// been waiting for more. So the best stretch counts, and stretches too short to mean anything only
// where there are no others.
double LagTrend::applied_per_us() const {
  double best = -1;
  double longest = -1;
  int64_t longest_us = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    for (size_t j = i + 1; j < samples_.size() && samples_[j - 1].lag > 0; ++j) {
      const int64_t span_us = samples_[j].at_us - samples_[i].at_us;
      if (span_us <= 0) continue;
      const double rate = static_cast<double>(samples_[j].applied - samples_[i].applied) /
                          static_cast<double>(span_us);
      if (span_us >= kRateSpanUs) best = std::max(best, rate);
      if (span_us > longest_us) longest = rate;
      longest_us = std::max(longest_us, span_us);
    }
  }
  return best >= 0 ? best : longest;
}

int64_t LagTrend::stuck_us() const {
  size_t count = 0;
  int64_t since_us = 0;
  for (auto it = samples_.rbegin(); it != samples_.rend(); ++it, ++count) {
    if (it->lag == 0 || it->applied != samples_.back().applied) break;
    since_us = it->at_us;
  }
  if (count < 3) return 0;
  const int64_t us = samples_.back().at_us - since_us;
  return us >= kStuckMinUs ? us : 0;
}

// The median of all slopes: a third of the samples may be anything. A slope counts when it carries
// the lag further than the samples scatter around it, and most pairs of samples agree on its sign.
void LagTrend::name_course(LagForecast* out) const {
  const int64_t span_us = samples_.back().at_us - samples_.front().at_us;
  if (samples_.size() < kSamplesMin || span_us < kSpanMinUs) return;
  std::vector<double> slopes;
  for (size_t i = 0; i < samples_.size(); ++i) {
    for (size_t j = i + 1; j < samples_.size(); ++j) {
      const int64_t us = samples_[j].at_us - samples_[i].at_us;
      if (us <= 0) continue;
      slopes.push_back(static_cast<double>(samples_[j].lag - samples_[i].lag) /
                       static_cast<double>(us));
    }
  }
  const double slope = median(slopes);
  std::vector<double> heights;
  for (const LagSample& sample : samples_) {
    heights.push_back(static_cast<double>(sample.lag) -
                      slope * static_cast<double>(sample.at_us - samples_.front().at_us));
  }
  std::vector<double> copy = heights;
  const double height = median(copy);
  for (double& h : heights) h = std::abs(h - height);
  const double carried = slope * static_cast<double>(span_us);
  out->course = Course::kSteady;
  const auto agree =
      std::count_if(slopes.begin(), slopes.end(), [slope](double one) { return one * slope > 0; });
  if (static_cast<double>(agree) < kAgreeShare * static_cast<double>(slopes.size())) return;
  if (std::abs(carried) <= 3 * median(heights) + 1) return;
  out->course = slope > 0 ? Course::kGrowing : Course::kFalling;
  out->per_second = static_cast<int64_t>(std::llround(slope * 1e6));
}

LagForecast LagTrend::forecast() const {
  LagForecast out;
  if (samples_.empty()) return out;
  out.lag = samples_.back().lag;
  name_course(&out);
  out.stuck_ms = stuck_us() / 1'000;
  if (out.lag == 0) out.apply_ms = 0;
  const double rate = applied_per_us();
  if (out.lag == 0 || rate <= 0) return out;
  const int64_t more = std::max<int64_t>(out.per_second, 0) * kLeadMs / 1'000;
  const double us = static_cast<double>(out.lag + more) / rate;
  out.apply_ms = static_cast<int64_t>(std::min(us, 1e12)) / 1'000;
  return out;
}

std::string why_too_late(const LagForecast& forecast, int64_t bound_ms, int64_t limit,
                         int64_t queue_ms, bool in_bytes) {
  if (forecast.lag <= 0 && queue_ms <= bound_ms) return {};
  std::string text = cat("lag ", amount(std::max<int64_t>(forecast.lag, 0), in_bytes));
  if (forecast.course == Course::kGrowing) {
    text += cat(", growing ", amount(forecast.per_second, in_bytes), "/s");
  } else if (forecast.course == Course::kFalling) {
    text += cat(", falling ", amount(-forecast.per_second, in_bytes), "/s");
  } else if (forecast.course == Course::kSteady) {
    text += ", steady";
  }
  const std::string bound = cat(", bound ", bound_ms, " ms");
  if (forecast.stuck_ms > 0) {
    return cat(text, "; the new side has applied nothing for ", duration(forecast.stuck_ms), bound);
  }
  const int64_t apply_ms = std::max<int64_t>(forecast.apply_ms, 0);
  if (apply_ms * kApplyShareOfBound + queue_ms > bound_ms) {
    return cat(text, "; forecast ", duration(apply_ms + queue_ms), bound);
  }
  if (forecast.lag > limit) {
    return cat(text, ", more than ", amount(limit, in_bytes), "; the bound would be missed", bound);
  }
  return {};
}

}  // namespace sf
