// Micro-benchmarks of what every request pays: finding its end, its command, its keys and its slot.
#include <benchmark/benchmark.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/strings.h"
#include "common/resp/command_catalog.h"
#include "common/resp/request_parser.h"
#include "common/slots/slot_hash.h"

namespace sf {
namespace {

std::string request(const std::vector<std::string>& argv) {
  std::string out = cat("*", argv.size(), "\r\n");
  for (const std::string& arg : argv) out += cat("$", arg.size(), "\r\n", arg, "\r\n");
  return out;
}

// `state.range(0)` requests in one buffer, as a pipeline delivers them.
void parse_requests(benchmark::State& state, const std::string& one) {
  std::string buffer;
  for (int64_t i = 0; i < state.range(0); ++i) buffer += one;
  RequestParser parser;
  Request found;
  for (auto _ : state) {
    std::string_view rest = buffer;
    while (!rest.empty() && parser.parse(rest, &found) == RequestParser::Outcome::kRequest) {
      benchmark::DoNotOptimize(found.argv.data());
      rest.remove_prefix(parser.consumed());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_parse_get(benchmark::State& state) {
  parse_requests(state, request({"GET", "key:000000012345"}));
}
BENCHMARK(BM_parse_get)->Arg(1)->Arg(32);

void BM_parse_set_64(benchmark::State& state) {
  parse_requests(state, request({"SET", "key:000000012345", std::string(64, 'x')}));
}
BENCHMARK(BM_parse_set_64)->Arg(1)->Arg(32);

void BM_parse_mset_100(benchmark::State& state) {
  std::vector<std::string> argv{"MSET"};
  for (int i = 0; i < 100; ++i) {
    argv.push_back(cat("key:", i));
    argv.emplace_back("value");
  }
  parse_requests(state, request(argv));
}
BENCHMARK(BM_parse_mset_100)->Arg(1);

void BM_find_command(benchmark::State& state) {
  const std::string_view names[] = {"GET", "set", "HSET", "zadd", "INCR", "LPUSH", "EXPIRE", "DEL"};
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(find_command(names[i++ % 8]));
}
BENCHMARK(BM_find_command);

void BM_key_positions(benchmark::State& state) {
  const std::vector<std::string_view> argv{"SET", "key:000000012345", "value"};
  const CommandSpec* spec = find_command("SET");
  std::vector<int> positions;
  for (auto _ : state) {
    positions.clear();
    benchmark::DoNotOptimize(key_positions(*spec, argv, &positions));
  }
}
BENCHMARK(BM_key_positions);

void BM_slot_of(benchmark::State& state) {
  const std::string key(static_cast<size_t>(state.range(0)), 'k');
  for (auto _ : state) benchmark::DoNotOptimize(slot_of(key));
}
BENCHMARK(BM_slot_of)->Arg(16)->Arg(64)->Arg(1024);

}  // namespace
}  // namespace sf

BENCHMARK_MAIN();
