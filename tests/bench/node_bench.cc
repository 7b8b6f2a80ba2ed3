// What the storage node costs beside redis-server with its append-only file, in one run.
//   node-bench [--rounds 3] [--requests 100000] [--json yes] [--node PATH]
#include <cstdio>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/strings.h"
#include "common/ops/settings.h"
#include "tests/support/bench/child.h"
#include "tests/support/bench/rounds.h"
#include "tests/support/redis_process.h"
#include "tests/support/temp_dir.h"

namespace sf::bench {
namespace {

using Kind = SettingSpec::Kind;

std::vector<SettingSpec> specs() {
  return {{"rounds", "3", "interleaved rounds", Kind::kInteger, 1, 100},
          {"requests", "50000", "requests a run at pipeline 1; eight times as many at 32",
           Kind::kInteger, 1000, 100'000'000},
          {"clients", "50", "connections", Kind::kInteger, 1, 10'000},
          {"threads", "1", "worker threads of the node", Kind::kInteger, 1, 64},
          {"commands", "set,get,incr,lpush,hset,zadd", "-t names of redis-benchmark", Kind::kText,
           0, 0},
          {"node", "", "the node; beside this program by default", Kind::kText, 0, 0},
          {"json", "no", "print JSON instead of the table", Kind::kFlag, 0, 0}};
}

int complain(const Status& status) {
  std::fprintf(stderr, "node-bench: %s\n", status.text().c_str());
  return 1;
}

Status start(Child& child, int port, const std::vector<std::string>& argv, const std::string& log) {
  auto started = Child::start(argv, log);
  if (!started) return started.status();
  child = std::move(*started);
  return child.wait_for_ping(port);
}

std::vector<Load> loads_of(const Settings& settings) {
  std::vector<Load> loads;
  for (const int pipeline : {1, 32}) {
    for (const std::string_view command : split(settings.text("commands"), ',')) {
      Load load;
      load.command = std::string(command);
      load.pipeline = pipeline;
      load.requests = settings.integer("requests") * (pipeline == 1 ? 1 : 8);
      load.clients = static_cast<int>(settings.integer("clients"));
      loads.push_back(load);
    }
  }
  return loads;
}

int run(int argc, char** argv) {
  Settings settings(specs());
  const Status parsed = settings.parse(argc, argv, "node-bench", "What the storage node costs.");
  if (!parsed) return complain(parsed);
  if (settings.done()) return 0;
  const TempDir dir;
  const int redis_port = free_port();
  const int node_port = free_port();
  Child redis;
  Child node;
  Status status = make_dirs(dir.sub("redis"));
  if (status) {
    status = start(redis, redis_port,
                   {"redis-server", "--port", std::to_string(redis_port), "--bind", "127.0.0.1",
                    "--save", "", "--appendonly", "yes", "--dir", dir.sub("redis")},
                   dir.sub("redis.log"));
  }
  const std::string program = node_program(settings.text("node"));
  if (status) {
    status = start(node, node_port,
                   {program, "--port", std::to_string(node_port), "--bind", "127.0.0.1", "--dir",
                    dir.sub("node"), "--threads", settings.text("threads")},
                   dir.sub("node.log"));
  }
  if (!status) return complain(status);
  const std::vector<Target> targets{{"redis aof", redis_port, &redis}, {"node", node_port, &node}};
  auto rows = run_rounds(loads_of(settings), targets, static_cast<int>(settings.integer("rounds")));
  if (!rows) return complain(rows.status());
  const std::string text = settings.flag("json")
                               ? json_text(*rows)
                               : table_text(*rows, targets, "redis aof", "redis aof");
  std::fputs(text.c_str(), stdout);
  std::fprintf(stderr, "resident: node %ld KiB, redis %ld KiB\n",
               static_cast<long>(node.resident_kb()), static_cast<long>(redis.resident_kb()));
  return 0;
}

}  // namespace
}  // namespace sf::bench

int main(int argc, char** argv) {
  return sf::bench::run(argc, argv);
}
