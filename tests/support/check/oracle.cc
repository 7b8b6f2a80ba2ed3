#include "tests/support/check/oracle.h"

#include <map>

#include "common/base/strings.h"

namespace sf::check {
namespace {

constexpr size_t kSamplesMax = 10;
constexpr size_t kEarlierMax = 1000;

}  // namespace

void Verdict::add(const Verdict& other) {
  lost += other.lost;
  doubled += other.doubled;
  stale += other.stale;
  for (const std::string& sample : other.samples) note(sample);
}

void Verdict::note(std::string text) {
  if (samples.size() < kSamplesMax) samples.push_back(std::move(text));
}

std::string RegisterOracle::next_value(std::string_view tag) {
  return cat(tag, ":", ++counter_);
}

void RegisterOracle::acknowledged(const std::string& value) {
  if (written_) {
    if (earlier_.size() >= kEarlierMax) earlier_.erase(earlier_.begin());
    earlier_.insert(last_);
  }
  written_ = true;
  last_ = value;
}

void RegisterOracle::unknown(const std::string& value) {
  pending_.insert(value);
}

void RegisterOracle::read(bool present, std::string_view value, bool final, std::string_view key,
                          Verdict* verdict) {
  if (present == written_ && value == last_) return;
  const std::string text(value);
  if (present &&
      pending_.erase(text) > 0) {  // the unanswered write happened: now it is the known one
    acknowledged(text);
    return;
  }
  ++(final ? verdict->lost : verdict->stale);
  const char* what = !present                    ? "nil"
                     : earlier_.count(text) != 0 ? "an older value of this client"
                                                 : "a value never written";
  verdict->note(cat(final ? "lost: " : "stale: ", key, " read ", present ? text : "nil", " (", what,
                    "), last acknowledged ", written_ ? last_ : "none"));
}

void CounterOracle::judge(int64_t value, bool final, std::string_view key, Verdict* verdict) {
  if (value >= acked_ && value <= acked_ + unknown_) {
    unknown_ -= value - acked_;
    acked_ = value;
    return;
  }
  if (value > acked_) {
    ++verdict->doubled;
    verdict->note(
        cat("doubled: ", key, " is ", value, ", at most ", acked_ + unknown_, " possible"));
  } else {
    ++(final ? verdict->lost : verdict->stale);
    verdict->note(cat(final ? "lost: " : "stale: ", key, " is ", value, ", at least ", acked_,
                      " acknowledged"));
  }
  acked_ = value;  // report one fault once
}

void CounterOracle::acknowledged(int64_t value, std::string_view key, Verdict* verdict) {
  ++acked_;
  judge(value, true, key, verdict);
}

void CounterOracle::read(bool present, int64_t value, bool final, std::string_view key,
                         Verdict* verdict) {
  judge(present ? value : 0, final, key, verdict);
}

void ListOracle::acknowledged(int64_t element, int64_t length, std::string_view key,
                              Verdict* verdict) {
  acked_.push_back(element);
  const auto least = static_cast<int64_t>(acked_.size());
  const int64_t most = least + static_cast<int64_t>(unknown_.size());
  if (length < least) {
    ++verdict->lost;
    verdict->note(cat("lost: ", key, " has length ", length, " after push, at least ", least,
                      " acknowledged"));
  } else if (length > most) {
    ++verdict->doubled;
    verdict->note(
        cat("doubled: ", key, " has length ", length, " after push, at most ", most, " possible"));
  }
}

void ListOracle::unknown(int64_t element) {
  unknown_.insert(element);
}

void ListOracle::read_all(const std::vector<std::string>& elements, std::string_view key,
                          Verdict* verdict) {
  std::map<int64_t, int64_t> seen;
  size_t next = 0;  // acknowledged elements must come in the order of their acknowledgement
  for (const std::string& text : elements) {
    const auto element = parse_int64(text);
    if (!element || ++seen[*element] > 1) {
      ++verdict->doubled;
      verdict->note(cat("doubled: ", key, " holds ", text, " twice or never pushed"));
      continue;
    }
    if (next < acked_.size() && acked_[next] == *element) {
      ++next;
    } else if (unknown_.count(*element) == 0) {
      // Out of order: either lost before it or moved; counted as lost where it is missing in order.
      while (next < acked_.size() && acked_[next] < *element) {
        ++verdict->lost;
        verdict->note(cat("lost: ", key, " misses ", acked_[next], " before ", *element));
        ++next;
      }
      if (next < acked_.size() && acked_[next] == *element) ++next;
    }
  }
  for (; next < acked_.size(); ++next) {
    ++verdict->lost;
    verdict->note(cat("lost: ", key, " misses ", acked_[next], " at its end"));
  }
}

}  // namespace sf::check
