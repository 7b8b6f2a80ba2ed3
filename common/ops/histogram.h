// Log-linear histogram of non-negative integers (say microseconds): 3 % relative error, fixed memory,
// mergeable. Not thread-safe; keep one a thread and merge.
#pragma once

#include <array>
#include <cstdint>

namespace sf {

class Histogram {
 public:
  void record(int64_t value);  // negative counts as 0
  void merge(const Histogram& other);
  void clear();

  int64_t count() const { return count_; }
  int64_t max() const { return max_; }     // exact
  int64_t min() const { return count_ == 0 ? 0 : min_; }  // exact
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  // Upper bound of the bucket that holds the p-th percentile (0 < p <= 100), never above max().
  int64_t percentile(double p) const;

 private:
  static constexpr int kSubBits = 5;  // 32 linear buckets a power of two
  static constexpr int kBuckets = (64 - kSubBits) << kSubBits;
  std::array<int64_t, kBuckets> buckets_{};
  int64_t count_ = 0;
  int64_t sum_ = 0;
  int64_t min_ = INT64_MAX;
  int64_t max_ = 0;
};

}  // namespace sf
