// ferry-check: the checking client of the demonstration and of the process-level tests.
//   ferry-check load|audit --proxies a,b --slots S --keys N --seed S     standing data: write it,
//   or compare it ferry-check run        --proxies a,b --slots S --clients N --seed S --out FILE
//   until SIGTERM; then reads
//                          every key once more and writes its findings as JSON
// Exit code 0 unless it could not do its work; the findings are in the JSON.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/net/uv_loop.h"
#include "common/ops/process.h"
#include "common/ops/settings.h"
#include "tests/support/check/check_client.h"
#include "tests/support/check/dataset.h"
#include "tests/support/check/loader.h"

namespace sf::check {
namespace {

using nlohmann::json;
using Kind = SettingSpec::Kind;

constexpr int64_t kFinalPatienceUs = 60'000'000;

std::vector<SettingSpec> flag_table() {
  return {{"proxies", "", "proxy addresses, comma separated", Kind::kText},
          {"slots", "801-1023", "slots to write", Kind::kText},
          {"keys", "200000", "keys of the standing data", Kind::kInteger, 0, 1'000'000'000},
          {"seed", "1", "seed of names and choices", Kind::kInteger},
          {"clients", "24", "logical clients of `run`", Kind::kInteger, 1, 10'000},
          {"keys-per-client", "30", "keys each client writes", Kind::kInteger, 3, 100'000},
          {"think-us", "0", "pause of a client between requests, microseconds", Kind::kInteger},
          {"out", "", "file for the findings of `run`", Kind::kText}};
}

json findings(const Counts& counts) {
  json errors = json::array();
  for (const auto& [bucket, count] : counts.errors_by_100ms)
    errors.push_back({bucket * 100, count});
  return {{"acked_writes", counts.acked_writes},
          {"reads", counts.reads},
          {"lost", counts.verdict.lost},
          {"doubled", counts.verdict.doubled},
          {"stale", counts.verdict.stale},
          {"errors", counts.errors},
          {"unknown", counts.unknown},
          {"max_stall_ms", static_cast<double>(counts.max_stall_us) / 1000},
          {"samples", counts.verdict.samples},
          {"errors_by_100ms", errors},
          {"error_texts", counts.error_texts}};
}

int run_clients(const CheckOptions& options, int clients, uint64_t seed, const std::string& out) {
  const std::unique_ptr<Loop> loop = make_uv_loop();
  std::vector<std::unique_ptr<CheckClient>> all;
  for (int i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<CheckClient>(loop.get(), &options, i, seed));
  }
  int left = clients;
  const StopSignals signals([&] {
    loop->post([&] {
      for (const auto& client : all) {
        client->finish(kFinalPatienceUs, [&] {
          if (--left == 0) loop->stop();
        });
      }
    });
  });
  loop->post([&] {
    for (const auto& client : all) client->start();
  });
  std::cout << "ferry-check running" << std::endl;
  loop->run();
  Counts total;
  for (const auto& client : all) total.add(client->counts());
  all.clear();
  const std::string text = findings(total).dump(1) + "\n";
  if (out.empty()) {
    std::cout << text;
  } else if (const Status written = write_file_atomic(out, text); !written) {
    std::cerr << "ferry-check: " << written.text() << "\n";
    return 1;
  }
  return 0;
}

int run_main(int argc, char** argv) {
  Settings settings(flag_table());
  const std::string command = argc > 1 ? argv[1] : "";
  const Status parsed = settings.parse(argc - (argc > 1 ? 1 : 0), argv + (argc > 1 ? 1 : 0),
                                       "ferry-check", "checking client of the demonstration");
  if (settings.done()) return 0;
  const auto slots = SlotSet::parse(settings.text("slots"));
  std::vector<HostPort> proxies;
  for (const std::string_view text : split(settings.text("proxies"), ',')) {
    if (const auto address = parse_host_port(text)) proxies.push_back(*address);
  }
  if (!parsed || !slots || proxies.empty() ||
      (command != "load" && command != "audit" && command != "run")) {
    std::cerr << "ferry-check: "
              << (!parsed  ? parsed.text()
                  : !slots ? slots.status().text()
                           : "")
              << " usage: ferry-check load|audit|run --proxies host:port,... \n";
    return 2;
  }
  const auto seed = static_cast<uint64_t>(settings.integer("seed"));
  if (command == "run") {
    CheckOptions options{proxies, tags_of(*slots),
                         static_cast<int>(settings.integer("keys-per-client")),
                         settings.integer("think-us")};
    return run_clients(options, static_cast<int>(settings.integer("clients")), seed,
                       settings.text("out"));
  }
  const Dataset dataset(*slots, seed);
  const LoadResult result = run_dataset(dataset, static_cast<uint64_t>(settings.integer("keys")),
                                        proxies, 8, 50, command == "audit");
  std::cout << json{{"keys", result.keys}, {"bad", result.bad}, {"samples", result.samples}}.dump()
            << std::endl;
  return result.bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace sf::check

int main(int argc, char** argv) {
  return sf::check::run_main(argc, argv);
}
