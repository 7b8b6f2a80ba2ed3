// What one sequential client may see of the keys only it writes: the judge of the demonstration.
// Pure.
//
// A write is acknowledged (must stay), refused-with-error or unanswered (may or may not have
// happened, once, even later: DESIGN I2 b, I4). Reads are checked against that, as in a register's
// linearizability for one client; counters and lists as sums and sequences.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sf::check {

struct Verdict {
  int64_t lost = 0;     // an acknowledged write is not there
  int64_t doubled = 0;  // a write took effect twice
  int64_t stale = 0;    // a read gave an older state than the client's own acknowledged write
  std::vector<std::string> samples;  // the first few, for people
  void add(const Verdict& other);
  void note(std::string text);
};

// A key that is SET to unique values.
class RegisterOracle {
 public:
  std::string next_value(std::string_view tag);  // unique for this oracle
  void acknowledged(const std::string& value);
  void unknown(const std::string& value);
  // A GET's answer ("" and present=false for nil). final: nothing is in flight any more.
  void read(bool present, std::string_view value, bool final, std::string_view key,
            Verdict* verdict);

 private:
  uint64_t counter_ = 0;
  bool written_ = false;
  std::string last_;
  std::set<std::string> pending_;  // unanswered, not seen yet
  std::set<std::string> earlier_;  // acknowledged before last_ (bounded)
};

// A key that is INCRemented by one.
class CounterOracle {
 public:
  void acknowledged(int64_t value, std::string_view key, Verdict* verdict);
  void unknown() { ++unknown_; }
  void read(bool present, int64_t value, bool final, std::string_view key, Verdict* verdict);

 private:
  void judge(int64_t value, bool final, std::string_view key, Verdict* verdict);
  int64_t acked_ = 0;    // increments known to have happened, unknown ones seen included
  int64_t unknown_ = 0;  // unanswered, not seen yet
};

// A list that gets increasing numbers RPUSHed.
class ListOracle {
 public:
  int64_t next_element() { return ++counter_; }
  void acknowledged(int64_t element, int64_t length, std::string_view key, Verdict* verdict);
  void unknown(int64_t element);
  // The whole list, at the end.
  void read_all(const std::vector<std::string>& elements, std::string_view key, Verdict* verdict);
  int64_t acknowledged_count() const { return static_cast<int64_t>(acked_.size()); }

 private:
  int64_t counter_ = 0;
  std::vector<int64_t> acked_;  // in order
  std::set<int64_t> unknown_;
};

}  // namespace sf::check
