// How fast a first copy is: a full master, an empty replica, nobody writing; beside redis-server's
// own full synchronisation of the same keys in the same run.
//   copy-bench [--keys 1000000] [--big-keys 300000] [--rounds 1] [--node PATH] [--node-config "name
//   value;..."]
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/ops/settings.h"
#include "common/resp/encoder.h"
#include "tests/support/bench/child.h"
#include "tests/support/redis_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_client.h"

namespace sf::bench {
namespace {

using Kind = SettingSpec::Kind;

constexpr int kPipeline = 500;
constexpr int64_t kPatienceUs = 600'000'000;

std::vector<SettingSpec> specs() {
  return {{"keys", "1000000", "keys of 100 bytes", Kind::kInteger, 1000, 1'000'000'000},
          {"big-keys", "300000", "keys of 1,024 bytes that do not compress", Kind::kInteger, 1000,
           1'000'000'000},
          {"rounds", "1", "interleaved rounds", Kind::kInteger, 1, 100},
          {"node", "", "the node; beside this program by default", Kind::kText, 0, 0},
          {"node-config", "", "lines for the node's config file (name : value), parted by ';'",
           Kind::kText, 0, 0}};
}

int complain(const Status& status) {
  std::fprintf(stderr, "copy-bench: %s\n", status.text().c_str());
  return 1;
}

struct DataSet {
  std::string name;
  int64_t keys = 0;
  size_t value_bytes = 0;
};

struct Figures {
  double seconds = 0;
  double master_cpu_s = 0;
  double replica_cpu_s = 0;
  int64_t bytes = 0;  // of keys and values
  int64_t master_peak_mb = 0;
  int64_t replica_peak_mb = 0;
  int64_t master_disk_mb = 0;  // grown by the copy
};

class Server {
 public:
  Server(std::string dir, std::vector<std::string> argv)
      : port_(free_port()), dir_(std::move(dir)), log_(dir_ + ".log"), argv_(std::move(argv)) {}

  Status start() {
    argv_.insert(argv_.end(), {"--port", std::to_string(port_), "--bind", "127.0.0.1"});
    auto child = Child::start(argv_, log_);
    if (!child) return child.status();
    child_ = std::move(*child);
    return child_.wait_for_ping(port_);
  }
  int port() const { return port_; }
  double cpu_s() const { return static_cast<double>(child_.cpu_us()) / 1e6; }
  int64_t peak_mb() const {
    const auto status = read_file(cat("/proc/", static_cast<int64_t>(child_.pid()), "/status"));
    const size_t at = status ? status->find("VmHWM:") : std::string::npos;
    if (at == std::string::npos) return 0;
    return std::strtoll(status->c_str() + at + 6, nullptr, 10) / 1024;
  }
  int64_t disk_kb() const {
    int64_t bytes = 0;
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_, error)) {
      const auto size = entry.file_size(error);
      if (!error) bytes += static_cast<int64_t>(size);
    }
    return bytes / 1024;
  }

 private:
  int port_;
  std::string dir_;
  std::string log_;
  std::vector<std::string> argv_;
  Child child_;
};

std::string random_bytes(Random& random, size_t size) {
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random.below(256));
  return out;
}

Status fill(int port, const DataSet& data, int64_t* bytes) {
  TestClient client(port);
  Random random(7);
  for (int64_t done = 0; done < data.keys;) {
    const int64_t now = std::min<int64_t>(kPipeline, data.keys - done);
    std::string out;
    for (int64_t i = 0; i < now; ++i) {
      const std::string key = cat("key:", done + i);
      out += resp::request({"SET", key, random_bytes(random, data.value_bytes)});
      *bytes += static_cast<int64_t>(key.size() + data.value_bytes);
    }
    client.send_raw(out);
    for (int64_t i = 0; i < now; ++i) {
      if (const std::string reply = client.read_raw(); reply != "+OK\r\n") {
        return Status::refused(cat("SET was answered ", printable(reply, 200)));
      }
    }
    done += now;
  }
  return Status::ok();
}

// Waits until the server's own work after the filling (flushes, compactions) is over.
void wait_idle(const Server& server) {
  for (double before = -1, now = server.cpu_s(); now - before > 0.02; now = server.cpu_s()) {
    before = now;
    ::poll(nullptr, 0, 500);
  }
}

// Asks the replica until `there` says yes to its INFO replication, then compares the number of
// keys.
Status wait_copied(const Server& replica, int64_t keys, const std::string& there) {
  const SystemClock clock;
  const int64_t until = clock.mono_us() + kPatienceUs;
  TestClient client(replica.port());
  std::string info;
  while (clock.mono_us() < until) {
    info = client.call({"INFO", "replication"}).text;
    if (info.find(there) != std::string::npos) {
      const int64_t found = client.call({"DBSIZE"}).integer;
      if (found == keys) return Status::ok();
    }
    ::poll(nullptr, 0, 5);
  }
  return Status::timeout(cat("the copy did not end: ", printable(info, 1500)));
}

Result<Figures> measure(Server& master, Server& replica, const DataSet& data,
                        const std::string& attach, const std::string& there) {
  Figures out;
  Status status = master.start();
  if (status) status = replica.start();
  if (status) status = fill(master.port(), data, &out.bytes);
  if (!status) return status;
  wait_idle(master);
  const int64_t disk_before = master.disk_kb();
  const SystemClock clock;
  out.master_cpu_s = -master.cpu_s();
  out.replica_cpu_s = -replica.cpu_s();
  const int64_t begin = clock.mono_us();
  const auto reply = ask(replica.port(), attach);
  if (!reply) return reply.status();
  if (!reply->starts_with("+OK")) return Status::refused(printable(*reply, 200));
  status = wait_copied(replica, data.keys, there);
  if (!status) return status;
  out.seconds = static_cast<double>(clock.mono_us() - begin) / 1e6;
  out.master_cpu_s += master.cpu_s();
  out.replica_cpu_s += replica.cpu_s();
  out.master_peak_mb = master.peak_mb();
  out.replica_peak_mb = replica.peak_mb();
  out.master_disk_mb = (master.disk_kb() - disk_before) / 1024;
  return out;
}

Result<Figures> measure_node(const Settings& settings, const TempDir& dir, const std::string& name,
                             const DataSet& data) {
  const std::string program = node_program(settings.text("node"));
  const std::string config = dir.sub(name + ".conf");
  if (Status s = write_config(config, settings.text("node-config")); !s) return s;
  const auto node = [&](const std::string& role) {
    const std::string base = dir.sub(name + "-" + role);
    return Server(base, {program, "--config", config, "--dir", base, "--threads", "1"});
  };
  Server master = node("master");
  Server replica = node("replica");
  return measure(master, replica, data,
                 cat("PKCLUSTER SLOTSSLAVEOF 127.0.0.1 ", master.port(), " 0-1023"), ",state=up,");
}

Result<Figures> measure_redis(const TempDir& dir, const std::string& name, const DataSet& data) {
  const auto redis = [&](const std::string& role) {
    const std::string base = dir.sub(name + "-" + role);
    static_cast<void>(make_dirs(base));
    return Server(base,
                  {"redis-server", "--save", "", "--dir", base, "--repl-diskless-sync-delay", "0"});
  };
  Server master = redis("master");
  Server replica = redis("replica");
  return measure(master, replica, data, cat("SLAVEOF 127.0.0.1 ", master.port()),
                 "master_link_status:up");
}

void print_row(const DataSet& data, const std::string& target, const Figures& figures,
               const Figures& redis) {
  const double keys = static_cast<double>(data.keys);
  std::printf(
      "| %s | %s | %.2f | %.0f | %.0f | %.2f | %.2f | %.2f | %.2f | %ld | %ld | %ld |\n",
      data.name.c_str(), target.c_str(), figures.seconds, keys / figures.seconds,
      static_cast<double>(figures.bytes) / 1e6 / figures.seconds, redis.seconds / figures.seconds,
      figures.master_cpu_s * 1e6 / keys, figures.replica_cpu_s * 1e6 / keys,
      (figures.master_cpu_s + figures.replica_cpu_s) / (redis.master_cpu_s + redis.replica_cpu_s),
      static_cast<long>(figures.master_peak_mb), static_cast<long>(figures.replica_peak_mb),
      static_cast<long>(figures.master_disk_mb));
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  Settings settings(specs());
  const Status parsed = settings.parse(argc, argv, "copy-bench", "How fast a first copy is.");
  if (!parsed) return complain(parsed);
  if (settings.done()) return 0;
  const std::vector<DataSet> sets{{"100 B", settings.integer("keys"), 100},
                                  {"1 KB, random", settings.integer("big-keys"), 1024}};
  std::printf(
      "| values | target | seconds | keys/s | MB/s | speed to redis | master CPU us/key | replica "
      "CPU "
      "us/key | CPU to redis | master peak MB | replica peak MB | master disk grown MB |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (int64_t round = 0; round < settings.integer("rounds"); ++round) {
    for (const DataSet& data : sets) {
      const TempDir dir;
      auto redis = measure_redis(dir, "redis", data);
      if (!redis) return complain(redis.status());
      auto node = measure_node(settings, dir, "node", data);
      if (!node) return complain(node.status());
      print_row(data, "redis", *redis, *redis);
      print_row(data, "node", *node, *redis);
    }
  }
  return 0;
}

}  // namespace
}  // namespace sf::bench

int main(int argc, char** argv) {
  return sf::bench::run(argc, argv);
}
