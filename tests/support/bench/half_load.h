// Latency at half load: a held rate (tests/support/load) of half of what the slowest
// target sustains at pipeline 1, against several targets in alternating rounds, and what each adds
// to the first one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tests/support/bench/rounds.h"

namespace sf::bench {

struct HalfLoad {
  int connections = 50;
  int value_bytes = 64;
  int64_t keys = 100'000;
  int rounds = 3;
  double seconds = 3;  // a target a round
};

// Microseconds. What is added is the median over the rounds of the differences within a round.
struct HalfRow {
  std::string command;
  std::string target;
  double rate = 0;
  double answered = 0;  // a second
  double p50 = 0;
  double p99 = 0;
  double added_p50 = 0;
  double added_p99 = 0;
  double late_max = 0;  // of the load generator itself
};

// targets[0] is the base line. Any error reply is an error.
Result<std::vector<HalfRow>> run_half_load(const HalfLoad& load,
                                           const std::vector<Target>& targets);
std::string half_table(const std::vector<HalfRow>& rows, double bar_p50, double bar_p99);
nlohmann::json half_json(const std::vector<HalfRow>& rows);

}  // namespace sf::bench
