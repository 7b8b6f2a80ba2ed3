// Metric cells: written by one thread with plain relaxed stores, read by any.
#pragma once

#include <atomic>
#include <cstdint>

namespace sf {

// A counter or gauge owned by one writing thread.
class Cell {
 public:
  void add(int64_t n = 1) {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  void set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// A counter that several threads write.
class SharedCell {
 public:
  void add(int64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  void set(int64_t v) { value_.store(v, std::memory_order_relaxed); }
  int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

}  // namespace sf
