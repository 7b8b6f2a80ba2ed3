#include "tests/support/bench/half_load.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "tests/support/load/paced_load.h"

namespace sf::bench {
namespace {

constexpr double kSustainSeconds = 2;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<std::string> keys_of(int64_t count) {
  std::vector<std::string> out;
  char name[32];
  for (int64_t i = 0; i < count; ++i) {
    std::snprintf(name, sizeof(name), "key:%012lld", static_cast<long long>(i));
    out.push_back(name);
  }
  return out;
}

Result<load::PacedWindow> once(load::PacedOptions options, const Target& target, double rate,
                               double seconds) {
  options.ports = {target.port};
  options.rate = rate;
  options.duration_us = static_cast<int64_t>(seconds * 1e6);
  auto result = load::run_paced(options);
  if (!result) return result.status().with_context(target.name);
  if (!result->error_texts.empty()) {
    return Status::refused(cat(target.name, " answered: ", result->error_texts[0]));
  }
  return result->windows[0];
}

// Of one target and command, over the rounds.
struct Rounds {
  std::vector<double> answered, p50, p99, added_p50, added_p99;
  double late_max = 0;
};

void add(Rounds& to, const load::PacedWindow& window, const load::PacedWindow& base) {
  to.answered.push_back(window.per_second());
  to.p50.push_back(static_cast<double>(window.p50_us));
  to.p99.push_back(static_cast<double>(window.p99_us));
  to.added_p50.push_back(static_cast<double>(window.p50_us - base.p50_us));
  to.added_p99.push_back(static_cast<double>(window.p99_us - base.p99_us));
  to.late_max = std::max(to.late_max, static_cast<double>(window.late_max_us));
}

Result<std::vector<HalfRow>> rows_of(const std::string& command, const HalfLoad& load,
                                     const std::vector<Target>& targets) {
  load::PacedOptions options;
  options.connections = load.connections;
  options.command = command;
  options.value_bytes = load.value_bytes;
  options.keys = keys_of(load.keys);
  // What all of them can take: beyond it a queue is measured, not what lies on the way.
  double sustained = 0;
  for (const Target& target : targets) {
    auto full = once(options, target, 0, kSustainSeconds);
    if (!full) return full.status();
    std::fprintf(stderr, "half load, %s: %s sustains %.0f/s\n", command.c_str(),
                 target.name.c_str(), full->per_second());
    sustained = sustained == 0 ? full->per_second() : std::min(sustained, full->per_second());
  }
  const double rate = sustained / 2;
  std::map<std::string, Rounds> found;
  for (int round = 0; round < load.rounds; ++round) {
    std::map<std::string, load::PacedWindow> windows;
    for (size_t t = 0; t < targets.size(); ++t) {
      const Target& target = targets[(t + static_cast<size_t>(round)) % targets.size()];
      auto window = once(options, target, rate, load.seconds);
      if (!window) return window.status();
      std::fprintf(stderr, "half load, round %d %s %-12s p50 %lld us, p99 %lld us\n", round + 1,
                   command.c_str(), target.name.c_str(), static_cast<long long>(window->p50_us),
                   static_cast<long long>(window->p99_us));
      windows[target.name] = *window;
    }
    for (const Target& target : targets) {
      add(found[target.name], windows[target.name], windows[targets[0].name]);
    }
  }
  std::vector<HalfRow> rows;
  for (const Target& target : targets) {
    const Rounds& r = found[target.name];
    rows.push_back({command, target.name, rate, median(r.answered), median(r.p50), median(r.p99),
                    median(r.added_p50), median(r.added_p99), r.late_max});
  }
  return rows;
}

}  // namespace

Result<std::vector<HalfRow>> run_half_load(const HalfLoad& load,
                                           const std::vector<Target>& targets) {
  std::vector<HalfRow> out;
  for (const char* command : {"set", "get"}) {
    auto rows = rows_of(command, load, targets);
    if (!rows) return rows.status();
    out.insert(out.end(), rows->begin(), rows->end());
  }
  return out;
}

std::string half_table(const std::vector<HalfRow>& rows, double bar_p50, double bar_p99) {
  char buf[300];
  std::snprintf(
      buf, sizeof(buf),
      "| command | target | requests/s asked | answered | p50 us | p99 us | added p50 us (bar "
      "%.0f) | | added p99 us (bar %.0f) | |\n| --- | --- | --- | --- | --- | --- | --- | --- | "
      "--- | --- |\n",
      bar_p50, bar_p99);
  std::string out = buf;
  const auto word = [](double value, double bar) { return value <= bar ? "met" : "**not met**"; };
  for (const HalfRow& r : rows) {
    const bool base = r.target == rows[0].target;
    std::snprintf(buf, sizeof(buf),
                  "| %s | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %s | %.0f | %s |\n",
                  to_upper(r.command).c_str(), r.target.c_str(), r.rate, r.answered, r.p50, r.p99,
                  r.added_p50, base ? "" : word(r.added_p50, bar_p50), r.added_p99,
                  base ? "" : word(r.added_p99, bar_p99));
    out += buf;
  }
  return out;
}

nlohmann::json half_json(const std::vector<HalfRow>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const HalfRow& r : rows) {
    out.push_back({{"command", r.command},
                   {"target", r.target},
                   {"rate", r.rate},
                   {"answered_per_second", r.answered},
                   {"p50_us", r.p50},
                   {"p99_us", r.p99},
                   {"added_p50_us", r.added_p50},
                   {"added_p99_us", r.added_p99},
                   {"load_late_max_us", r.late_max}});
  }
  return out;
}

}  // namespace sf::bench
