// What the shim costs, beside a direct connection and Debian's nutcracker, in one run: all three in
// front of the same redis-server, in interleaved rounds.
//   shim-bench [--rounds 7] [--threads 1] [--requests 100000] [--json yes] [--shim PATH]
//   shim-bench --squeeze 40     that many millions of requests through one process: memory stays
//   flat shim-bench --long yes       the same with 500
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
  return {
      {"rounds", "3", "interleaved rounds", Kind::kInteger, 1, 100},
      {"threads", "1", "worker threads of the shim (nutcracker has one)", Kind::kInteger, 1, 64},
      {"requests", "100000", "requests a run at pipeline 1; eight times as many at 32",
       Kind::kInteger, 1000, 100'000'000},
      {"clients", "50", "connections", Kind::kInteger, 1, 10'000},
      {"shim", "", "the shim; beside this program by default", Kind::kText, 0, 0},
      {"only", "", "rows whose command begins with it", Kind::kText, 0, 0},
      {"squeeze", "0", "millions of requests through the shim alone, in place of the rounds",
       Kind::kInteger, 0, 100'000},
      {"long", "no", "squeeze with 500 million requests", Kind::kFlag, 0, 0},
      {"json", "no", "print JSON instead of the table", Kind::kFlag, 0, 0}};
}

struct Stage {
  TempDir dir;
  int redis_port = free_port();
  int replica_port = free_port();
  int nutcracker_port = free_port();
  int stats_port = free_port();
  int shim_port = free_port();
  int admin_port = free_port();
  Child redis;
  Child replica;
  Child nutcracker;
  Child shim;

  Status start_redis(Child& child, int port, std::vector<std::string> more) {
    const std::string folder = dir.sub(cat("redis-", port));
    const Status made = make_dirs(folder);
    if (!made) return made;
    std::vector<std::string> argv{
        "redis-server", "--port", std::to_string(port), "--bind", "127.0.0.1",
        "--save",       "",       "--appendonly",       "no",     "--dir",
        folder};
    argv.insert(argv.end(), more.begin(), more.end());
    auto started = Child::start(argv, folder + "/log");
    if (!started) return started.status();
    child = std::move(*started);
    return child.wait_for_ping(port);
  }

  Status start_nutcracker() {
    const std::string config = dir.sub("nutcracker.yml");
    const Status written = write_file_atomic(
        config, cat("bench:\n  listen: 127.0.0.1:", nutcracker_port,
                    "\n  hash: crc32a\n  distribution: modula\n  redis: true\n"
                    "  auto_eject_hosts: false\n  server_connections: 1\n  servers:\n"
                    "   - 127.0.0.1:",
                    redis_port, ":1\n"));
    if (!written) return written;
    auto started = Child::start({"/usr/sbin/nutcracker", "-c", config, "-a", "127.0.0.1", "-s",
                                 std::to_string(stats_port), "-v", "0"},
                                dir.sub("nutcracker.log"));
    if (!started) return started.status();
    nutcracker = std::move(*started);
    return nutcracker.wait_for_ping(nutcracker_port);
  }

  Status start_shim(const std::string& program, const std::string& threads) {
    const std::string old_address = cat("127.0.0.1:", redis_port);
    const std::string new_address = cat("127.0.0.1:", replica_port);
    const auto side = [](const std::string& address) {
      return cat("{\"master\": \"", address, "\", \"servers\": [\"", address,
                 "\"], \"password\": \"\", \"kind\": \"redis\"}");
    };
    const std::string plan = cat(
        "{\"plan\": \"bench\", \"dashboard\": \"127.0.0.1:1\", \"product\": \"bench\", "
        "\"product_auth\": \"\", \"slots\": \"0-1023\", \"source_group\": 1, \"target_group\": 2, "
        "\"shim_group\": 3, \"stay\": \"\", \"old\": ",
        side(old_address), ", \"new\": ", side(new_address),
        ", \"shim\": {\"address\": \"127.0.0.1:", shim_port,
        "\", \"admin\": \"127.0.0.1:", admin_port,
        "\", \"admin_password\": \"\"}, "
        "\"unit\": \"plan\", \"max_pause_ms\": 500, \"hold_share_percent\": 5, "
        "\"handback\": \"slot-action\", \"soak_seconds\": 5, \"ask\": [], \"verify\": true, "
        "\"cleanup\": false}\n");
    const Status written = write_file_atomic(dir.sub("plan.json"), plan);
    if (!written) return written;
    auto started = Child::start({program, "--plan", dir.sub("plan.json"), "--init", "--dir",
                                 dir.sub("shim"), "--port", std::to_string(shim_port),
                                 "--admin-port", std::to_string(admin_port), "--threads", threads},
                                dir.sub("shim.log"));
    if (!started) return started.status();
    shim = std::move(*started);
    return shim.wait_for_ping(shim_port);
  }

  Status start(const Settings& settings) {
    Status status = start_redis(redis, redis_port, {});
    if (status) {
      status = start_redis(replica, replica_port,
                           {"--replicaof", "127.0.0.1", std::to_string(redis_port)});
    }
    if (status) status = start_nutcracker();
    const std::string program = settings.text("shim").empty()
                                    ? folder_of_this_program() + "/slotferry-shim"
                                    : settings.text("shim");
    if (status) status = start_shim(program, settings.text("threads"));
    return status;
  }
};

int complain(const Status& status) {
  std::fprintf(stderr, "shim-bench: %s\n", status.text().c_str());
  return 1;
}

// The rows of the bars: small and larger values, several keys, few and many clients.
std::vector<Load> loads_of(const Settings& settings) {
  std::vector<Load> out;
  const int clients = static_cast<int>(settings.integer("clients"));
  const auto add = [&](const std::string& command, int pipeline, int bytes, int connections,
                       double share) {
    if (!command.starts_with(settings.text("only"))) return;
    Load load;
    load.command = command;
    load.pipeline = pipeline;
    const int64_t base = settings.integer("requests") * (pipeline == 1 ? 1 : 8);
    load.requests = static_cast<int64_t>(static_cast<double>(base) * share);
    load.clients = connections;
    load.value_bytes = bytes;
    if (command == "mget") {
      load.words = {"mget"};
      for (int key = 0; key < 10; ++key) load.words.push_back("key:__rand_int__");
    }
    out.push_back(load);
  };
  for (const int pipeline : {1, 32}) {
    for (const int bytes : {64, 1024}) {
      for (const char* command : {"set", "get"}) add(command, pipeline, bytes, clients, 1);
    }
    // The keys hold 1 KB now; small ones again for the rows that follow.
    add("set", pipeline, 64, clients, 1);
    add("mget", pipeline, 64, clients, 0.25);
    add("get", pipeline, 64, 800, 1);
  }
  return out;
}

// Chunks of ten million requests: SET and GET in turn; the process must not grow.
int squeeze(const Stage& stage, int64_t millions) {
  constexpr int64_t kChunk = 10'000'000;
  long first_kb = 0;
  for (int64_t done = 0; done < millions * 1'000'000; done += kChunk) {
    Load load;
    load.command = done / kChunk % 2 == 0 ? "set" : "get";
    load.pipeline = 64;
    load.requests = kChunk;
    const auto rows = run_rounds({load}, {{"shim", stage.shim_port, &stage.shim}}, 1);
    if (!rows) return complain(rows.status());
    const long now_kb = static_cast<long>(stage.shim.resident_kb());
    if (first_kb == 0) first_kb = now_kb;
    std::printf("%lld million requests: resident %ld KiB\n",
                static_cast<long long>((done + kChunk) / 1'000'000), now_kb);
    std::fflush(stdout);
    if (now_kb > first_kb + 8 * 1024) {
      return complain(Status::corrupt(cat("grown from ", first_kb, " KiB to ", now_kb, " KiB")));
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  Settings settings(specs());
  const Status parsed = settings.parse(argc, argv, "shim-bench", "What the shim costs.");
  if (!parsed) return complain(parsed);
  if (settings.done()) return 0;
  Stage stage;
  const Status started = stage.start(settings);
  if (!started) return complain(started);
  const std::vector<Target> targets{{"direct", stage.redis_port, &stage.redis},
                                    {"nutcracker", stage.nutcracker_port, &stage.nutcracker},
                                    {"shim", stage.shim_port, &stage.shim}};
  const int64_t millions = settings.flag("long") ? 500 : settings.integer("squeeze");
  if (millions > 0) return squeeze(stage, millions);
  const std::vector<Load> loads = loads_of(settings);
  auto rows = run_rounds(loads, targets, static_cast<int>(settings.integer("rounds")));
  if (!rows) return complain(rows.status());
  const std::string text =
      settings.flag("json") ? json_text(*rows) : table_text(*rows, targets, "direct", "nutcracker");
  std::fputs(text.c_str(), stdout);
  std::fprintf(stderr, "resident: shim %ld KiB, nutcracker %ld KiB\n",
               static_cast<long>(stage.shim.resident_kb()),
               static_cast<long>(stage.nutcracker.resident_kb()));
  return 0;
}

}  // namespace
}  // namespace sf::bench

int main(int argc, char** argv) {
  return sf::bench::run(argc, argv);
}
