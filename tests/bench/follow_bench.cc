// What a replica costs and how far it is behind while its master takes writes (issue: "lag settles,
// stays below 50 ms; nothing lost", "p99 of the master's clients during a first copy").
//   follow-bench [--keys 400000] [--seconds 10] [--node PATH] [--node-config "name : value;..."]
//
// 1. What master and replica sustain together: writes as fast as they are taken, until the replica
// has them.
// 2. Lag: a fresh replica is attached while writes come at min(30,000/s, 40 % of that),
// pipeline 16. A probe writes
//    the time to a key of the master every 2 ms and reads it from the replica: the age is the lag.
// 3. Latency: single SETs of one client, paced at 30 % load; alone, and while a fresh replica takes
// its first copy; in rounds, each with its own base line. Once with the replica at idle priority,
// as it would be on a machine of its own, and once competing for the same cores.
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/file.h"
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

constexpr int kPipeline = 16;
constexpr int64_t kRateMax = 30'000;
constexpr int64_t kProbeRate = 500;

std::vector<SettingSpec> specs() {
  return {{"keys", "400000", "keys of 200 bytes", Kind::kInteger, 1000, 1'000'000'000},
          {"seconds", "10", "length of a measurement", Kind::kInteger, 1, 3600},
          {"rounds", "5", "rounds of the latency measurement", Kind::kInteger, 1, 100},
          {"node", "", "the node; beside this program by default", Kind::kText, 0, 0},
          {"node-config", "", "lines for the node's config file (name : value), parted by ';'",
           Kind::kText, 0, 0}};
}

int64_t now_us() {
  static const SystemClock clock;
  return clock.mono_us();
}

void sleep_until(int64_t us) {
  const int64_t left = us - now_us();
  if (left > 0) {
    const timespec wait{left / 1'000'000, (left % 1'000'000) * 1000};
    ::ppoll(nullptr, 0, &wait, nullptr);
  }
}

std::string key_of(int64_t i) {
  return cat("key:", i);
}

std::string value_of(int64_t i, int64_t round) {
  std::string value = cat("value:", i, ":", round, ":");
  value.resize(200, 'x');
  return value;
}

struct Node {
  int port = 0;
  Child child;
  double cpu_s() const { return static_cast<double>(child.cpu_us()) / 1e6; }
};

class Bench {
 public:
  explicit Bench(const Settings& settings)
      : settings_(settings),
        keys_(settings.integer("keys")),
        seconds_(settings.integer("seconds")) {}

  Status run();

 private:
  Result<std::unique_ptr<Node>> start(const std::string& name);
  Status fill();
  Status attach(const Node& replica);
  Status wait_up(const Node& replica);
  Status wait_equal(const Node& replica);
  Result<int64_t> sustained();
  Status lag(int64_t rate);
  std::vector<int64_t> latencies_beside(int64_t rate, const std::atomic<bool>& over);
  struct Latency {  // of single SETs, in milliseconds
    double alone_p50 = 0;
    double alone_p99 = 0;
    double copying_p50 = 0;
    double copying_p99 = 0;
    double copy_s = 0;
  };
  Result<Latency> latency_once(int64_t rate, bool own_machine, int round);
  Status latency(int64_t rate, bool own_machine);
  void write_paced(int64_t rate, const std::atomic<bool>& over, std::vector<int64_t>* latencies,
                   int pipeline);

  const Settings& settings_;
  const int64_t keys_;
  const int64_t seconds_;
  TempDir dir_;
  std::unique_ptr<Node> master_;
  std::atomic<int64_t> round_{1};
};

Result<std::unique_ptr<Node>> Bench::start(const std::string& name) {
  const std::string program = node_program(settings_.text("node"));
  const std::string config = dir_.sub(name + ".conf");
  if (Status s = write_config(config, settings_.text("node-config")); !s) return s;
  auto node = std::make_unique<Node>();
  node->port = free_port();
  auto child = Child::start({program, "--config", config, "--dir", dir_.sub(name), "--threads", "1",
                             "--port", std::to_string(node->port), "--bind", "127.0.0.1"},
                            dir_.sub(name + ".log"));
  if (!child) return child.status();
  node->child = std::move(*child);
  if (Status s = node->child.wait_for_ping(node->port); !s) return s;
  return node;
}

Status Bench::fill() {
  TestClient client(master_->port);
  constexpr int64_t kBatch = 500;
  for (int64_t done = 0; done < keys_; done += kBatch) {
    std::string out;
    const int64_t end = std::min(keys_, done + kBatch);
    for (int64_t i = done; i < end; ++i) {
      out += resp::request({"SET", key_of(i), value_of(i, 0)});
    }
    client.send_raw(out);
    for (int64_t i = done; i < end; ++i) {
      if (client.read_raw() != "+OK\r\n") return Status::refused("a SET was refused");
    }
  }
  return Status::ok();
}

Status Bench::attach(const Node& replica) {
  const auto reply =
      ask(replica.port, cat("PKCLUSTER SLOTSSLAVEOF 127.0.0.1 ", master_->port, " 0-1023"));
  if (!reply) return reply.status();
  return reply->starts_with("+OK") ? Status::ok() : Status::refused(printable(*reply, 200));
}

Status Bench::wait_up(const Node& replica) {
  const int64_t until = now_us() + 300'000'000;
  TestClient client(replica.port);
  std::string info;
  while (now_us() < until) {
    info = client.call({"INFO", "replication"}).text;
    if (info.find(",state=up,") != std::string::npos) return Status::ok();
    ::poll(nullptr, 0, 20);
  }
  return Status::timeout(cat("the replica did not come up: ", printable(info, 800)));
}

// Every key has the same value on both sides; nobody writes.
Status Bench::wait_equal(const Node& replica) {
  TestClient one(master_->port);
  TestClient two(replica.port);
  one.call({"SET", "bench:end", cat(now_us())});
  const std::string end = one.call({"GET", "bench:end"}).text;
  const int64_t until = now_us() + 60'000'000;
  while (two.call({"GET", "bench:end"}).text != end) {
    if (now_us() > until) return Status::timeout("the replica did not take the last write");
    ::poll(nullptr, 0, 1);
  }
  constexpr int64_t kBatch = 500;
  for (int64_t done = 0; done < keys_; done += kBatch) {
    std::string out;
    const int64_t last = std::min(keys_, done + kBatch);
    for (int64_t i = done; i < last; ++i) out += resp::request({"GET", key_of(i)});
    one.send_raw(out);
    two.send_raw(out);
    for (int64_t i = done; i < last; ++i) {
      if (one.read_raw() != two.read_raw()) {
        return Status::corrupt(cat("key ", key_of(i), " differs: a write was lost"));
      }
    }
  }
  return Status::ok();
}

void Bench::write_paced(int64_t rate, const std::atomic<bool>& over,
                        std::vector<int64_t>* latencies, int pipeline) {
  TestClient client(master_->port);
  const int64_t begin = now_us();
  int64_t sent = 0;
  while (!over) {
    if (rate > 0) sleep_until(begin + sent * 1'000'000 / rate);
    std::string out;
    const int64_t round = ++round_;
    for (int i = 0; i < pipeline; ++i) {
      const int64_t key = (round * 7919 + i * 104'729) % keys_;
      out += resp::request({"SET", key_of(key), value_of(key, round)});
    }
    const int64_t before = now_us();
    client.send_raw(out);
    for (int i = 0; i < pipeline; ++i) client.read_raw();
    if (latencies != nullptr) latencies->push_back(now_us() - before);
    sent += pipeline;
  }
}

Result<int64_t> Bench::sustained() {
  auto replica = start("sustained");
  if (!replica) return replica.status();
  Status status = attach(**replica);
  if (status) status = wait_up(**replica);
  if (!status) return status;
  std::atomic<bool> over{false};
  const double cpu = master_->cpu_s();
  const double replica_cpu = (*replica)->cpu_s();
  const int64_t begin = now_us();
  const int64_t rounds = round_;
  std::thread writer([&] { write_paced(0, over, nullptr, kPipeline); });
  sleep_until(begin + seconds_ * 1'000'000);
  over = true;
  writer.join();
  const int64_t writes = (round_ - rounds) * kPipeline;
  TestClient one(master_->port);
  one.call({"SET", "bench:end", "sustained"});
  TestClient two((*replica)->port);
  while (two.call({"GET", "bench:end"}).text != "sustained") ::poll(nullptr, 0, 1);
  const double spent = static_cast<double>(now_us() - begin) / 1e6;
  const int64_t rate = static_cast<int64_t>(static_cast<double>(writes) / spent);
  std::printf(
      "sustained together: %ld writes/s at pipeline %d (CPU us/write: master %.1f, replica %.1f)\n",
      static_cast<long>(rate), kPipeline,
      (master_->cpu_s() - cpu) * 1e6 / static_cast<double>(writes),
      ((*replica)->cpu_s() - replica_cpu) * 1e6 / static_cast<double>(writes));
  if (status = wait_equal(**replica); !status) return status;
  return rate;
}

// The age of the probe's key on the replica, each millisecond; -1 while it is not there.
class LagProbe {
 public:
  LagProbe(int master, int replica)
      : writer_([this, master] {
          TestClient client(master);
          while (!over_) {
            client.call({"SET", "bench:probe", cat(now_us())});
            ::poll(nullptr, 0, 2);
          }
        }),
        reader_([this, replica] {
          TestClient client(replica);
          while (!over_) {
            const int64_t written =
                parse_int64(client.call({"GET", "bench:probe"}).text).value_or(0);
            const int64_t now = now_us();
            samples_.emplace_back(now, written == 0 ? -1 : now - written);
            ::poll(nullptr, 0, 1);
          }
        }) {}
  std::vector<std::pair<int64_t, int64_t>> stop() {
    over_ = true;
    writer_.join();
    reader_.join();
    return std::move(samples_);
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::pair<int64_t, int64_t>> samples_;
  std::thread writer_;
  std::thread reader_;
};

double part_of(std::vector<int64_t>& sorted, double part) {
  std::sort(sorted.begin(), sorted.end());
  return static_cast<double>(
             sorted[static_cast<size_t>(static_cast<double>(sorted.size() - 1) * part)]) /
         1000;
}

Status Bench::lag(int64_t rate) {
  auto replica = start("lag");
  if (!replica) return replica.status();
  std::atomic<bool> over{false};
  std::thread writer([&] { write_paced(rate, over, nullptr, kPipeline); });
  LagProbe probe(master_->port, (*replica)->port);
  const int64_t begin = now_us();
  Status status = attach(**replica);
  if (status) status = wait_up(**replica);
  const int64_t up = now_us();
  if (status) sleep_until(up + seconds_ * 1'000'000);
  over = true;
  writer.join();
  const auto samples = probe.stop();
  if (!status) return status;
  int64_t settled = up;
  std::vector<int64_t> ages;
  for (const auto& [at, age] : samples) {
    if (at < up) continue;
    if (ages.empty() && (age < 0 || age > 50'000)) {
      settled = at;
      continue;
    }
    ages.push_back(age);
  }
  if (ages.empty()) return Status::timeout("the lag did not come below 50 ms");
  if (status = wait_equal(**replica); !status) return status;
  const auto above =
      std::count_if(ages.begin(), ages.end(), [](int64_t age) { return age > 50'000; });
  std::printf(
      "lag at %ld writes/s: copied in %.2f s under load, below 50 ms after %.2f s more; then p50 "
      "%.1f, p99 %.1f, "
      "longest %.1f ms, %ld of %zu samples above 50 ms; all %ld keys equal\n",
      static_cast<long>(rate), static_cast<double>(up - begin) / 1e6,
      static_cast<double>(settled - up) / 1e6, part_of(ages, 0.5), part_of(ages, 0.99),
      part_of(ages, 1.0), static_cast<long>(above), ages.size(), static_cast<long>(keys_));
  return status;
}

// Single SETs beside a load of `rate` writes/s, until `over`.
std::vector<int64_t> Bench::latencies_beside(int64_t rate, const std::atomic<bool>& over) {
  std::vector<int64_t> latencies;
  std::thread load([&] { write_paced(rate, over, nullptr, kPipeline); });
  write_paced(kProbeRate, over, &latencies, 1);
  load.join();
  return latencies;
}

// On a machine of its own a replica takes no CPU time from its master's clients. Here it gets what
// nobody else wants.
Status give_way(const Node& node) {
  std::error_code error;
  const std::string tasks = cat("/proc/", node.child.pid(), "/task");
  for (const auto& task : std::filesystem::directory_iterator(tasks, error)) {
    const sched_param none{};
    const pid_t id = static_cast<pid_t>(parse_int64(task.path().filename().string()).value_or(0));
    if (::sched_setscheduler(id, SCHED_IDLE, &none) != 0) {
      return Status::refused("no right to lower a replica's priority here");
    }
  }
  return Status::ok();
}

Result<Bench::Latency> Bench::latency_once(int64_t rate, bool own_machine, int round) {
  std::atomic<bool> over{false};
  Latency out;
  std::vector<int64_t> alone;
  std::thread writer([&] { alone = latencies_beside(rate, over); });
  sleep_until(now_us() + seconds_ * 1'000'000);
  over = true;
  writer.join();

  auto replica = start(cat("latency", own_machine ? "-idle-" : "-", round));
  if (!replica) return replica.status();
  if (own_machine) {
    if (Status s = give_way(**replica); !s) return s;
  }
  over = false;
  std::vector<int64_t> copying;
  writer = std::thread([&] { copying = latencies_beside(rate, over); });
  const int64_t begin = now_us();
  Status status = attach(**replica);
  if (status) status = wait_up(**replica);
  out.copy_s = static_cast<double>(now_us() - begin) / 1e6;
  over = true;
  writer.join();
  if (status && round == 0) status = wait_equal(**replica);
  if (!status) return status;
  out.alone_p50 = part_of(alone, 0.5);
  out.alone_p99 = part_of(alone, 0.99);
  out.copying_p50 = part_of(copying, 0.5);
  out.copying_p99 = part_of(copying, 0.99);
  return out;
}

Status Bench::latency(int64_t rate, bool own_machine) {
  std::vector<Latency> rounds;
  for (int i = 0; i < static_cast<int>(settings_.integer("rounds")); ++i) {
    auto round = latency_once(rate, own_machine, i);
    if (!round) return round.status();
    rounds.push_back(*round);
  }
  const auto ratio = [](const Latency& l) { return l.copying_p99 / l.alone_p99; };
  std::sort(rounds.begin(), rounds.end(),
            [&](const Latency& a, const Latency& b) { return ratio(a) < ratio(b); });
  const Latency& median = rounds[rounds.size() / 2];
  std::printf(
      "single SETs beside %ld writes/s, replica %s: alone p50 %.2f, p99 %.2f ms; during a first "
      "copy of %.2f s p50 %.2f, p99 %.2f ms; ratio of p99: median of %zu rounds %.2f (%.2f to "
      "%.2f)\n",
      static_cast<long>(rate), own_machine ? "at idle priority" : "on the same cores",
      median.alone_p50, median.alone_p99, median.copy_s, median.copying_p50, median.copying_p99,
      rounds.size(), ratio(median), ratio(rounds.front()), ratio(rounds.back()));
  std::fflush(stdout);
  return Status::ok();
}

Status Bench::run() {
  auto master = start("master");
  if (!master) return master.status();
  master_ = std::move(*master);
  if (Status s = fill(); !s) return s;
  auto rate = sustained();
  if (!rate) return rate.status();
  std::fflush(stdout);
  if (Status s = lag(std::min(kRateMax, *rate * 4 / 10)); !s) return s;
  std::fflush(stdout);
  if (Status s = latency(*rate * 3 / 10, true); !s) return s;
  return latency(*rate * 3 / 10, false);
}

int main_of(int argc, char** argv) {
  Settings settings(specs());
  Status status = settings.parse(argc, argv, "follow-bench", "How far behind a replica is.");
  if (status && settings.done()) return 0;
  if (status) status = Bench(settings).run();
  if (status) return 0;
  std::fprintf(stderr, "follow-bench: %s\n", status.text().c_str());
  return 1;
}

}  // namespace
}  // namespace sf::bench

int main(int argc, char** argv) {
  return sf::bench::main_of(argc, argv);
}
