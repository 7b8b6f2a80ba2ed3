#include "tests/support/bench/rounds.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"

namespace sf::bench {
namespace {

std::vector<std::string> arguments_of(const Load& load, const Target& target) {
  std::vector<std::string> out{"redis-benchmark",
                               "-h",
                               "127.0.0.1",
                               "-p",
                               std::to_string(target.port),
                               "-c",
                               std::to_string(load.clients),
                               "-n",
                               std::to_string(load.requests),
                               "-P",
                               std::to_string(load.pipeline),
                               "-d",
                               std::to_string(load.value_bytes),
                               "-r",
                               std::to_string(load.keys),
                               "--csv"};
  if (load.words.empty()) out.insert(out.end(), {"-t", load.command});
  out.insert(out.end(), load.words.begin(), load.words.end());
  return out;
}

double number(std::string_view quoted) {
  std::string text(quoted);
  std::erase(text, '"');
  return std::strtod(text.c_str(), nullptr);
}

// "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95...","p99...","max..."
Result<Sample> parse_csv(const std::string& text) {
  const auto lines = split(trim(text), '\n');
  const auto fields = split(lines.back(), ',');
  if (lines.size() < 2 || fields.size() < 8) {
    return Status::invalid(cat("redis-benchmark said: ", printable(text, 300)));
  }
  return Sample{number(fields[1]), number(fields[4]), number(fields[6]), 0};
}

Result<Sample> measure(const Load& load, const Target& target) {
  const auto cpu_us = [&target] {
    return target.process == nullptr ? 0 : target.process->cpu_us();
  };
  const int64_t before = cpu_us();
  auto text = output_of(arguments_of(load, target));
  if (!text) return text.status();
  const int64_t after = cpu_us();
  auto sample = parse_csv(*text);
  if (!sample) return sample.status().with_context(target.name);
  sample->cpu_us = static_cast<double>(after - before) / static_cast<double>(load.requests);
  return sample;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Sample median_of(const std::vector<Sample>& samples) {
  const auto of = [&samples](double Sample::*field) {
    std::vector<double> values;
    for (const Sample& s : samples) values.push_back(s.*field);
    return median(values);
  };
  return {of(&Sample::per_second), of(&Sample::p50_ms), of(&Sample::p99_ms), of(&Sample::cpu_us)};
}

std::string ratio_text(double value, double base) {
  if (base <= 0) return "-";
  char buf[32];
  std::snprintf(buf, sizeof(buf), "%.2f", value / base);
  return buf;
}

}  // namespace

Result<std::vector<Row>> run_rounds(const std::vector<Load>& loads,
                                    const std::vector<Target>& targets, int rounds) {
  std::vector<std::map<std::string, std::vector<Sample>>> samples(loads.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t l = 0; l < loads.size(); ++l) {
      for (size_t t = 0; t < targets.size(); ++t) {
        // Another one goes first in each round, so that none always follows the same neighbour.
        const Target& target = targets[(t + static_cast<size_t>(round)) % targets.size()];
        auto sample = measure(loads[l], target);
        if (!sample) return sample.status();
        std::fprintf(stderr, "round %d %s %d B, %d clients, pipeline %d %-12s %10.0f/s %7.2f us\n",
                     round + 1, loads[l].command.c_str(), loads[l].value_bytes, loads[l].clients,
                     loads[l].pipeline, target.name.c_str(), sample->per_second, sample->cpu_us);
        samples[l][target.name].push_back(*sample);
      }
    }
  }
  std::vector<Row> rows;
  for (size_t l = 0; l < loads.size(); ++l) {
    Row row;
    row.load = loads[l];
    for (const auto& [name, all] : samples[l]) row.by_target[name] = median_of(all);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string table_text(const std::vector<Row>& rows, const std::vector<Target>& targets,
                       const std::string& base, const std::string& reference) {
  std::string out =
      cat("| command | bytes | clients | pipeline | target | requests/s | to ", base,
          " | p50 ms | p99 ms | CPU us/request | to ", reference,
          " |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Row& row : rows) {
    const Sample& b = row.by_target.at(base);
    const Sample& r = row.by_target.at(reference);
    for (const Target& target : targets) {
      const Sample& s = row.by_target.at(target.name);
      char buf[256];
      std::snprintf(buf, sizeof(buf),
                    "| %s | %d | %d | %d | %s | %.0f | %s | %.2f | %.2f | %.2f | %s |\n",
                    to_upper(row.load.command).c_str(), row.load.value_bytes, row.load.clients,
                    row.load.pipeline, target.name.c_str(), s.per_second,
                    ratio_text(s.per_second, b.per_second).c_str(), s.p50_ms, s.p99_ms, s.cpu_us,
                    ratio_text(s.cpu_us, r.cpu_us).c_str());
      out += buf;
    }
  }
  return out;
}

nlohmann::json json_of(const std::vector<Row>& rows) {
  nlohmann::json out = nlohmann::json::array();
  for (const Row& row : rows) {
    for (const auto& [name, s] : row.by_target) {
      out.push_back({{"command", row.load.command},
                     {"value_bytes", row.load.value_bytes},
                     {"clients", row.load.clients},
                     {"pipeline", row.load.pipeline},
                     {"target", name},
                     {"requests_per_second", s.per_second},
                     {"p50_ms", s.p50_ms},
                     {"p99_ms", s.p99_ms},
                     {"cpu_us_per_request", s.cpu_us}});
    }
  }
  return out;
}

std::string json_text(const std::vector<Row>& rows) {
  return json_of(rows).dump(2) + "\n";
}

std::string loss_table(const std::vector<Row>& rows, const std::vector<Target>& targets,
                       const std::string& base, const std::string& command, int few, int many,
                       double bar) {
  std::string out;
  const auto find = [&](int clients, int pipeline) -> const Row* {
    for (const Row& row : rows) {
      const Load& load = row.load;
      if (load.command == command && load.value_bytes == 64 && load.clients == clients &&
          load.pipeline == pipeline) {
        return &row;
      }
    }
    return nullptr;
  };
  const auto word = [bar](double loss) { return loss < bar ? "met" : "**not met**"; };
  for (const int pipeline : {1, 32}) {
    const Row* a = find(few, pipeline);
    const Row* b = find(many, pipeline);
    if (a == nullptr || b == nullptr) continue;
    const double of_base = b->by_target.at(base).per_second / a->by_target.at(base).per_second;
    for (const Target& target : targets) {
      const double before = a->by_target.at(target.name).per_second;
      const double after = b->by_target.at(target.name).per_second;
      const double loss = 100 * (1 - after / before);
      const double beyond = 100 * (1 - after / before / of_base);
      const bool is_base = target.name == base;
      char buf[256];
      std::snprintf(buf, sizeof(buf), "| %s | %d | %s | %.0f | %.0f | %.1f | %s | %.1f | %s |\n",
                    to_upper(command).c_str(), pipeline, target.name.c_str(), before, after, loss,
                    is_base ? "" : word(loss), beyond, is_base ? "" : word(beyond));
      out += buf;
    }
  }
  if (out.empty()) return out;
  char head[300];
  std::snprintf(head, sizeof(head),
                "| command | pipeline | target | requests/s, %d clients | %d clients | loss %% "
                "(bar %.0f) | | "
                "loss beyond %s's %% (bar %.0f) | |\n| --- | --- | --- | --- | --- | --- | --- | "
                "--- | --- |\n",
                few, many, bar, base.c_str(), bar);
  return head + out;
}

}  // namespace sf::bench
