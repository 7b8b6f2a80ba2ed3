// Interleaved rounds of redis-benchmark against several targets, with the CPU time each target's
// process used, and the table of medians and ratios.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tests/support/bench/child.h"

namespace sf::bench {

struct Target {
  std::string name;
  int port = 0;
  const Child* process = nullptr;  // whose CPU is counted; null: somebody else's, 0 is shown
};

struct Load {
  std::string command;             // a -t name of redis-benchmark, or what the table calls `words`
  std::vector<std::string> words;  // a command of its own, with __rand_int__ in its keys
  int pipeline = 1;
  int64_t requests = 0;
  int clients = 50;
  int value_bytes = 64;
  int64_t keys = 100'000;
};

struct Sample {
  double per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  double cpu_us = 0;  // of the target's process, a request
};

// Medians over the rounds, by load and target.
struct Row {
  Load load;
  std::map<std::string, Sample> by_target;
};

Result<std::vector<Row>> run_rounds(const std::vector<Load>& loads,
                                    const std::vector<Target>& targets, int rounds);

// Ratios are to the target `base`; `reference` may add a second column of CPU ratios.
std::string table_text(const std::vector<Row>& rows, const std::vector<Target>& targets,
                       const std::string& base, const std::string& reference);
nlohmann::json json_of(const std::vector<Row>& rows);
std::string json_text(const std::vector<Row>& rows);

// What each target loses of its requests/s from `few` to `many` clients, with `command` and 64
// bytes, at each pipeline that was measured with both; in % of its own, and of what is left when
// the loss of `base` is taken out. "" if there is none.
std::string loss_table(const std::vector<Row>& rows, const std::vector<Target>& targets,
                       const std::string& base, const std::string& command, int few, int many,
                       double bar);

}  // namespace sf::bench
