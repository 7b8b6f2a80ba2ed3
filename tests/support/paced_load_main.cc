// paced-load: writes or reads at a held rate and says how long the answers took, as one line of
// JSON.
//   paced-load --ports 7001,7002 --rate 20000 --pipeline 16 --slots 0-1023 [--hot-permille 200]
// Standard input commands it: "mark NAME" begins a window of the result, "hot SLOTS" sends
// --hot-permille of the requests there from now on, the end of the input ends it (or --seconds
// does).
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "common/ops/settings.h"
#include "common/slots/slot_set.h"
#include "tests/support/check/dataset.h"
#include "tests/support/load/paced_load.h"

namespace sf::load {
namespace {

using Kind = SettingSpec::Kind;

constexpr uint64_t kHotKeys = 50;

std::vector<SettingSpec> flag_table() {
  return {{"ports", "", "of the loopback address, comma separated", Kind::kText},
          {"slots", "0-1023", "slots of the keys", Kind::kText},
          {"keys", "20000", "different keys", Kind::kInteger, 1, 10'000'000},
          {"connections", "8", "connections", Kind::kInteger, 1, 10'000},
          {"pipeline", "16", "requests sent together on a connection", Kind::kInteger, 1, 1000},
          {"rate", "0", "requests a second; 0: as fast as they are answered", Kind::kInteger},
          {"seconds", "0", "0: until standard input ends", Kind::kInteger},
          {"value-bytes", "64", "size of a value", Kind::kInteger, 1, 1'000'000},
          {"hot-permille", "0", "of the requests, to the hot slots", Kind::kInteger, 0, 1000},
          {"command", "set", "set or get", Kind::kText},
          {"prefix", "paced", "of the keys", Kind::kText},
          {"seed", "1", "of the choice of keys", Kind::kInteger}};
}

std::vector<std::string> keys_in(const SlotSet& slots, const std::string& prefix, uint64_t count) {
  const std::vector<std::string> tags = check::tags_of(slots);
  std::vector<std::string> out;
  for (uint64_t i = 0; i < count; ++i) out.push_back(check::key_in_slots(prefix + ":", i, tags));
  return out;
}

nlohmann::json json_of(const PacedResult& result) {
  nlohmann::json windows = nlohmann::json::array();
  for (const PacedWindow& w : result.windows) {
    windows.push_back({{"name", w.name},
                       {"seconds", w.seconds},
                       {"answered", w.answered},
                       {"per_second", w.per_second()},
                       {"errors", w.errors},
                       {"p50_us", w.p50_us},
                       {"p99_us", w.p99_us},
                       {"max_us", w.max_us},
                       {"late_max_us", w.late_max_us}});
  }
  return {{"windows", windows}, {"error_texts", result.error_texts}};
}

int run(int argc, char** argv) {
  Settings settings(flag_table());
  const Status parsed = settings.parse(argc, argv, "paced-load", "load that holds a rate");
  if (settings.done()) return 0;
  const auto slots = SlotSet::parse(settings.text("slots"));
  if (!parsed || !slots) {
    std::cerr << "paced-load: " << (parsed ? slots.status() : parsed).text() << "\n";
    return 2;
  }
  PacedOptions options;
  for (const std::string_view port : split(settings.text("ports"), ',')) {
    if (const auto number = parse_int64(port)) options.ports.push_back(static_cast<int>(*number));
  }
  const std::string prefix = settings.text("prefix");
  options.keys = keys_in(*slots, prefix, static_cast<uint64_t>(settings.integer("keys")));
  options.connections = static_cast<int>(settings.integer("connections"));
  options.pipeline = static_cast<int>(settings.integer("pipeline"));
  options.rate = static_cast<double>(settings.integer("rate"));
  options.duration_us = settings.integer("seconds") * 1'000'000;
  options.value_bytes = static_cast<int>(settings.integer("value-bytes"));
  options.command = settings.text("command");
  options.seed = static_cast<uint64_t>(settings.integer("seed"));
  options.hot_share = static_cast<double>(settings.integer("hot-permille")) / 1000;
  options.control_fd = options.duration_us > 0 ? -1 : STDIN_FILENO;
  options.on_line = [&](std::string_view line) -> std::vector<std::string> {
    const auto hot = SlotSet::parse(line.starts_with("hot ") ? line.substr(4) : line);
    return hot && !hot->empty() ? keys_in(*hot, prefix, kHotKeys) : std::vector<std::string>{};
  };
  const auto result = run_paced(options);
  if (!result) {
    std::cerr << "paced-load: " << result.status().text() << "\n";
    return 1;
  }
  std::cout << json_of(*result).dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace sf::load

int main(int argc, char** argv) {
  return sf::load::run(argc, argv);
}
