#include "tests/sim/cutover/register_check.h"

#include <algorithm>
#include <vector>

#include "common/base/strings.h"

namespace sf::cutsim {

void RegisterCheck::write_done(int64_t value, uint64_t called, uint64_t answered) {
  write_unknown(value, called);
  Cluster& c = clusters_[value];
  c.known = true;
  c.first_answer = std::min(c.first_answer, answered);
}

void RegisterCheck::write_unknown(int64_t value, uint64_t called) {
  Cluster& c = clusters_[value];
  c.written = true;
  c.write_called = called;
  c.last_call = std::max(c.last_call, called);
}

void RegisterCheck::write_refused(int64_t value) {
  clusters_[value].written = false;
}

void RegisterCheck::read_done(int64_t value, uint64_t called, uint64_t answered) {
  Cluster& c = clusters_[value];
  c.known = true;
  c.first_answer = std::min(c.first_answer, answered);
  c.first_read_answer = std::min(c.first_read_answer, answered);
  c.last_call = std::max(c.last_call, called);
}

std::optional<std::string> RegisterCheck::broken() const {
  struct Zone {
    int64_t value;
    uint64_t low, high;
  };
  std::vector<Zone> forward, backward;
  for (const auto& [value, c] : clusters_) {
    if (!c.known) continue;
    if (value == 0) {
      if (c.last_call > 0) forward.push_back({0, 0, c.last_call});
      continue;
    }
    if (!c.written) return cat("value ", value, " was read and never written");
    if (c.first_read_answer < c.write_called) return cat("value ", value, " read before its write");
    if (c.first_answer < c.last_call) {
      forward.push_back({value, c.first_answer, c.last_call});
    } else {
      backward.push_back({value, c.last_call, c.first_answer});
    }
  }
  std::sort(forward.begin(), forward.end(),
            [](const Zone& a, const Zone& b) { return a.low < b.low; });
  for (size_t i = 1; i < forward.size(); ++i) {
    if (forward[i].low < forward[i - 1].high) {
      return cat("values ", forward[i - 1].value, " and ", forward[i].value,
                 " were each seen before and after the other");
    }
  }
  for (const Zone& b : backward) {
    for (const Zone& f : forward) {
      if (b.low > f.low && b.high < f.high) {
        return cat("value ", b.value, " was written and gone while ", f.value, " stood");
      }
    }
  }
  return std::nullopt;
}

}  // namespace sf::cutsim
