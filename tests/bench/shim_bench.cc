// What the shim costs, beside a direct connection and Debian's nutcracker, in one run: all three in
// front of the same redis-server, in interleaved rounds.
//   shim-bench [--rounds 7] [--threads 1] [--requests 100000] [--json yes] [--shim PATH]
//   shim-bench --parts half          only latency at half load (or rounds: only the rounds)
//   shim-bench --squeeze 40          that many millions of requests through one process: memory
//   stays flat shim-bench --long yes            the same with 500
// One more program can stand beside them, given by its port or by how it is started:
//   shim-bench --peer NAME=PORT
//   shim-bench --peer "NAME=PROGRAM -c {config}" --peer-config TEMPLATE
// {listen}, {listen-port}, {backend} and {backend-port} are put in, in the command and in the
// template; {config} is the file the template became.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/file.h"
#include "common/base/strings.h"
#include "common/ops/settings.h"
#include "tests/support/bench/child.h"
#include "tests/support/bench/half_load.h"
#include "tests/support/bench/rounds.h"
#include "tests/support/redis_process.h"
#include "tests/support/temp_dir.h"

namespace sf::bench {
namespace {

using Kind = SettingSpec::Kind;

constexpr double kBarP50Us = 60;
constexpr double kBarP99Us = 300;
constexpr double kBarLoss = 10;
constexpr int kManyClients = 800;

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
      {"parts", "rounds,half", "what to measure: rounds, half", Kind::kText, 0, 0},
      {"half-seconds", "3", "of latency at half load, a target a round", Kind::kInteger, 1, 3600},
      {"peer", "", "NAME=PORT or NAME=COMMAND of one more program to compare with", Kind::kText, 0,
       0},
      {"peer-config", "", "template of that program's config file", Kind::kText, 0, 0},
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
  Child peer_process;
  std::string peer;  // its name; "" without one
  int peer_port = free_port();

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

  std::string filled_in(std::string text, const std::string& config) const {
    const std::pair<const char*, std::string> words[] = {
        {"{listen}", cat("127.0.0.1:", peer_port)},
        {"{listen-port}", std::to_string(peer_port)},
        {"{backend}", cat("127.0.0.1:", redis_port)},
        {"{backend-port}", std::to_string(redis_port)},
        {"{config}", config}};
    for (const auto& [word, value] : words) {
      for (size_t at = text.find(word); at != std::string::npos; at = text.find(word)) {
        text.replace(at, std::string_view(word).size(), value);
      }
    }
    return text;
  }

  Status start_peer(const std::string& what, const std::string& config_template) {
    if (what.empty()) return Status::ok();
    const size_t equals = what.find('=');
    if (equals == std::string::npos) return Status::invalid("--peer is NAME=PORT or NAME=COMMAND");
    peer = what.substr(0, equals);
    const std::string command = what.substr(equals + 1);
    if (const auto port = parse_int64(command)) {
      peer_port = static_cast<int>(*port);
      return Status::ok();
    }
    const std::string config = dir.sub("peer.conf");
    if (!config_template.empty()) {
      auto text = read_file(config_template);
      if (!text) return text.status();
      if (Status s = write_file_atomic(config, filled_in(*text, config)); !s) return s;
    }
    const std::string words = filled_in(command, config);
    std::vector<std::string> argv;
    for (const std::string_view word : split(words, ' ')) {
      if (!word.empty()) argv.emplace_back(word);
    }
    if (argv.empty()) return Status::invalid("--peer names no program");
    auto started = Child::start(argv, dir.sub("peer.log"));
    if (!started) return started.status();
    peer_process = std::move(*started);
    return peer_process.wait_for_ping(peer_port).with_context(peer);
  }

  std::vector<Target> targets() const {
    std::vector<Target> out{{"direct", redis_port, &redis},
                            {"nutcracker", nutcracker_port, &nutcracker},
                            {"shim", shim_port, &shim}};
    const Child* counted = peer_process.pid() > 0 ? &peer_process : nullptr;
    if (!peer.empty()) out.push_back({peer, peer_port, counted});
    return out;
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
    if (status) status = start_peer(settings.text("peer"), settings.text("peer-config"));
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
    add("get", pipeline, 64, kManyClients, 1);
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

Status measure(const Settings& settings, const std::vector<Target>& targets) {
  const bool json = settings.flag("json");
  nlohmann::json all;
  if (settings.text("parts").find("rounds") != std::string::npos) {
    auto rows =
        run_rounds(loads_of(settings), targets, static_cast<int>(settings.integer("rounds")));
    if (!rows) return rows.status();
    all["rows"] = json_of(*rows);
    const std::string loss =
        loss_table(*rows, targets, "direct", "get", static_cast<int>(settings.integer("clients")),
                   kManyClients, kBarLoss);
    if (!json)
      std::printf("%s\n%s\n", table_text(*rows, targets, "direct", "nutcracker").c_str(),
                  loss.c_str());
  }
  if (settings.text("parts").find("half") != std::string::npos) {
    HalfLoad load;
    load.connections = static_cast<int>(settings.integer("clients"));
    load.rounds = static_cast<int>(settings.integer("rounds"));
    load.seconds = static_cast<double>(settings.integer("half-seconds"));
    auto rows = run_half_load(load, targets);
    if (!rows) return rows.status();
    all["half_load"] = half_json(*rows);
    if (!json) std::fputs(half_table(*rows, kBarP50Us, kBarP99Us).c_str(), stdout);
  }
  if (json) std::printf("%s\n", all.dump(2).c_str());
  return Status::ok();
}

int run(int argc, char** argv) {
  Settings settings(specs());
  const Status parsed = settings.parse(argc, argv, "shim-bench", "What the shim costs.");
  if (!parsed) return complain(parsed);
  if (settings.done()) return 0;
  Stage stage;
  const Status started = stage.start(settings);
  if (!started) return complain(started);
  const int64_t millions = settings.flag("long") ? 500 : settings.integer("squeeze");
  if (millions > 0) return squeeze(stage, millions);
  const Status measured = measure(settings, stage.targets());
  if (!measured) return complain(measured);
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
