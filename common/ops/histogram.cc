#include "common/ops/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sf {
namespace {

// Values below 2^bits have a bucket each; above, every power of two is cut into 2^bits equal parts.
size_t bucket_of(uint64_t value, int bits) {
  if (value < (uint64_t{1} << bits)) return value;
  const int shift = 63 - std::countl_zero(value) - bits;
  const uint64_t part = (value >> shift) - (uint64_t{1} << bits);
  return (static_cast<size_t>(shift + 1) << bits) + part;
}

int64_t upper_bound_of(size_t bucket, int bits) {
  if (bucket < (size_t{1} << bits)) return static_cast<int64_t>(bucket);
  const int shift = static_cast<int>(bucket >> bits) - 1;
  const uint64_t part = (bucket & ((size_t{1} << bits) - 1)) + (uint64_t{1} << bits);
  return static_cast<int64_t>(((part + 1) << shift) - 1);
}

// The mean of absurd values may be wrong, never the program.
int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

}  // namespace

void Histogram::record(int64_t value) {
  value = std::max<int64_t>(value, 0);
  ++buckets_[bucket_of(static_cast<uint64_t>(value), kSubBits)];
  ++count_;
  sum_ = saturating_sum(sum_, value);
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ = saturating_sum(sum_, other.sum_);
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

void Histogram::clear() {
  *this = Histogram();
}

int64_t Histogram::percentile(double p) const {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<int64_t>(std::ceil(p / 100 * static_cast<double>(count_)));
  const int64_t rank = std::clamp<int64_t>(wanted, 1, count_);
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(upper_bound_of(i, kSubBits), max_);
  }
  return max_;
}

}  // namespace sf
