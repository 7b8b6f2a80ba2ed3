#include "storage_node/server/info_report.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/base/file.h"
#include "common/base/strings.h"
#include "storage_node/node.h"

namespace sf {

namespace {

class Lines {
 public:
  explicit Lines(std::string& out) : out_(out) {}
  void head(std::string_view name) { out_ += cat(out_.empty() ? "" : "\r\n", "# ", name, "\r\n"); }
  template <class T>
  void add(std::string_view field, const T& value) {
    out_ += cat(field, ":", value, "\r\n");
  }

 private:
  std::string& out_;
};

std::string human(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "K", "M", "G", "T"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f%s", value, kUnits[unit]);
  return text.data();
}

uint64_t resident_bytes() {
  const Result<std::string> statm = read_file("/proc/self/statm");
  if (!statm) return 0;
  const auto fields = split(trim(*statm), ' ');
  if (fields.size() < 2) return 0;
  const auto pages = parse_uint64(fields[1]).value_or(0);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

void server(Node& node, std::string& out) {
  Lines lines(out);
  utsname system{};
  uname(&system);
  const int64_t uptime = (node.clock().wall_ms() - node.started_wall_ms()) / 1000;
  lines.head("Server");
  lines.add("redis_version", "7.0.15");
  lines.add("pika_version", "3.5.5");
  lines.add("slotferry_version", version_text("slotferry-node").substr(15));
  lines.add("redis_mode", "standalone");
  lines.add("os", cat(system.sysname, " ", system.release, " ", system.machine));
  lines.add("arch_bits", 64);
  lines.add("process_id", getpid());
  lines.add("run_id", node.run_id());
  lines.add("tcp_port", node.port());
  lines.add("thread_num", node.hub_count());
  lines.add("uptime_in_seconds", uptime);
  lines.add("uptime_in_days", uptime / 86400);
  lines.add("config_file", node.config().config_path());
  lines.add("server_id", 1);
}

void clients(Node& node, std::string& out) {
  Lines lines(out);
  lines.head("Clients");
  lines.add("connected_clients", node.client_count());
  lines.add("maxclients", node.config().integer("maxclients"));
}

void memory(Node& node, std::string& out) {
  Lines lines(out);
  const uint64_t resident = resident_bytes();
  lines.head("Memory");
  lines.add("used_memory", resident);
  lines.add("used_memory_human", human(resident));
  lines.add("used_memory_rss", resident);
  lines.add("maxmemory", 0);
  lines.add("maxmemory_human", "0B");
  lines.add("maxmemory_policy", "noeviction");
  lines.add("mem_allocator", "jemalloc");
  lines.add("memtable_usage", node.engine().stats().memtable_bytes);
}

void data(Node& node, std::string& out) {
  Lines lines(out);
  const Engine::Stats stats = node.engine().stats();
  lines.head("Data");
  lines.add("db_size", stats.disk_bytes);
  lines.add("db_size_human", human(stats.disk_bytes));
  lines.add("log_size", stats.wal_bytes);
  lines.add("log_size_human", human(stats.wal_bytes));
  lines.add("last_seq", node.engine().last_seq());
  lines.add("oldest_seq", node.engine().oldest_seq());
  lines.add("disk_full", stats.disk_full ? 1 : 0);
  lines.add("sync", node.config().text("sync"));
}

void counters(Node& node, std::string& out) {
  Lines lines(out);
  lines.head("Stats");
  lines.add("total_connections_received", node.counters().connections.load());
  lines.add("total_commands_processed", node.commands_processed());
  lines.add("rejected_connections", node.counters().rejected.load());
  lines.add("expired_keys", node.engine().stats().expired_keys);
  lines.add("evicted_keys", 0);
}

void cpu(Node& /*node*/, std::string& out) {
  Lines lines(out);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  lines.head("CPU");
  lines.add("used_cpu_sys", std::to_string(seconds(usage.ru_stime)));
  lines.add("used_cpu_user", std::to_string(seconds(usage.ru_utime)));
}

void replication(Node& node, std::string& out) {
  if (node.replication() != nullptr) {
    if (!out.empty()) out += "\r\n";
    return node.replication()->append_info(out);
  }
  Lines lines(out);
  lines.head("Replication");
  lines.add("role", "master");
  lines.add("connected_slaves", 0);
}

void keyspace(Node& node, std::string& out) {
  Lines lines(out);
  lines.head("Keyspace");
  for (int db = 0; db < kDbCount; ++db) {
    const int64_t keys = node.engine().key_count(db);
    if (keys == 0) continue;
    lines.add(cat("db", db),
              cat("keys=", keys, ",expires=", node.engine().expiring_keys(db), ",avg_ttl=0"));
  }
}

struct Section {
  std::string_view name;
  void (*append)(Node&, std::string&);
};

constexpr std::array<Section, 8> kSections = {{{"server", server},
                                               {"data", data},
                                               {"clients", clients},
                                               {"memory", memory},
                                               {"stats", counters},
                                               {"cpu", cpu},
                                               {"replication", replication},
                                               {"keyspace", keyspace}}};

bool names_all(const std::vector<std::string_view>& sections) {
  return sections.empty() || std::any_of(sections.begin(), sections.end(), [](std::string_view s) {
           return equals_ignore_case(s, "all") || equals_ignore_case(s, "default") ||
                  equals_ignore_case(s, "everything");
         });
}

}  // namespace

std::string info_report(Node& node, const std::vector<std::string_view>& sections) {
  const bool all = names_all(sections);
  std::string out;
  for (const Section& section : kSections) {
    const bool named = std::any_of(sections.begin(), sections.end(), [&](std::string_view s) {
      return equals_ignore_case(s, section.name);
    });
    if (all || named) section.append(node, out);
  }
  return out;
}

}  // namespace sf
