#include "proxy_shim/data/info_text.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>

#include "common/base/strings.h"
#include "common/ops/process.h"

namespace sf {

namespace {

using Section = void (*)(const ServerView&, std::string&);

void line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(":").append(value).append("\r\n");
}
void line(std::string& out, std::string_view name, int64_t value) {
  line(out, name, std::to_string(value));
}

void server_section(const ServerView& server, std::string& out) {
  out += "# Server\r\n";
  const std::string version = version_text("slotferry-shim");
  line(out, "redis_version", "7.0.15");
  line(out, "pika_version", "3.5.5");
  line(out, "slotferry_version", version.substr(version.rfind(' ') + 1));
  line(out, "redis_mode", "standalone");
  utsname os{};
  if (uname(&os) == 0) line(out, "os", cat(os.sysname, " ", os.release, " ", os.machine));
  line(out, "arch_bits", 64);
  line(out, "process_id", getpid());
  line(out, "run_id", server.options.run_id);
  line(out, "tcp_port", server.port);
  line(out, "thread_num", server.options.threads);
  line(out, "sync_thread_num", int64_t{0});  // nothing replicates from here
  line(out, "server_id", int64_t{1});
  line(out, "uptime_in_seconds", server.uptime_s);
  line(out, "uptime_in_days", server.uptime_s / 86400);
}

int64_t sum_of_keys(const ServerView& server) {
  int64_t sum = 0;
  for (const auto& [db, keys] : server.facts.keys_by_db) sum += keys;
  return sum;
}

// Pika's section; the sizes of files are the servers' own business.
void data_section(const ServerView& server, std::string& out) {
  out += "# Data\r\n";
  line(out, "used_memory", server.facts.used_memory);
  line(out, "used_memory_human", cat(server.facts.used_memory / 1024 / 1024, "M"));
  line(out, "slotferry_keys", sum_of_keys(server));
}

void clients_section(const ServerView& server, std::string& out) {
  out += "# Clients\r\n";
  line(out, "connected_clients", server.stats.clients);
  line(out, "maxclients", static_cast<int64_t>(server.options.clients_max));
}

void memory_section(const ServerView& server, std::string& out) {
  out += "# Memory\r\n";
  line(out, "used_memory", server.facts.used_memory);
  line(out, "used_memory_human", cat(server.facts.used_memory / 1024 / 1024, "M"));
  line(out, "maxmemory", server.facts.maxmemory);
}

void stats_section(const ServerView& server, std::string& out) {
  out += "# Stats\r\n";
  line(out, "total_commands_processed", server.stats.requests);
  line(out, "total_net_input_bytes", server.stats.bytes_in);
  line(out, "total_net_output_bytes", server.stats.bytes_out);
  line(out, "total_error_replies", server.stats.errors);
  line(out, "rejected_connections", server.stats.refused_clients);
  line(out, "slotferry_refused_requests", server.stats.rejected);
  line(out, "slotferry_held_requests", server.stats.held_now);
  // What Pika says of work the shim never does.
  for (const char* name : {"is_bgsaving", "is_scaning_keyspace", "is_compact"}) {
    line(out, name, "No");
  }
  for (const char* name : {"is_slots_reloading", "is_slots_cleaningup", "is_slots_migrating"}) {
    line(out, name, "No, , 0");
  }
  line(out, "slow_logs_count", int64_t{0});
}

void cpu_section(const ServerView&, std::string& out) {
  out += "# CPU\r\n";
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& spent) {
    const auto hundredths = std::to_string(100 + spent.tv_usec / 10'000);
    return cat(spent.tv_sec, ".", hundredths.substr(1));
  };
  line(out, "used_cpu_sys", seconds(usage.ru_stime));
  line(out, "used_cpu_user", seconds(usage.ru_utime));
  line(out, "used_cpu_sys_children", "0.00");
  line(out, "used_cpu_user_children", "0.00");
}

// No master_host and no master_port, not even 0 (trap T18).
void replication_section(const ServerView& server, std::string& out) {
  out += "# Replication\r\n";
  line(out, "role", "master");
  line(out, "ReplicationID", server.options.run_id);
  line(out, "connected_slaves", 0);
  line(out, "is_eligible_for_master_election", "false");
}

void keyspace_section(const ServerView& server, std::string& out) {
  out += "# Keyspace\r\n";
  for (const auto& [db, keys] : server.facts.keys_by_db) {
    if (keys <= 0) continue;
    line(out, cat("db", db), cat("keys=", keys, ",expires=0,avg_ttl=0"));
  }
}

struct NamedSection {
  std::string_view name;
  Section write;
};
constexpr std::array kSections = {
    NamedSection{"server", server_section},     NamedSection{"clients", clients_section},
    NamedSection{"memory", memory_section},     NamedSection{"stats", stats_section},
    NamedSection{"cpu", cpu_section},           NamedSection{"replication", replication_section},
    NamedSection{"keyspace", keyspace_section},
};

bool means_all(std::string_view section) {
  return section.empty() || section == "all" || section == "default" || section == "everything";
}

}  // namespace

std::string info_text(const ServerView& server, std::string_view section) {
  const std::string wanted = to_lower(section);
  const bool all = means_all(wanted);
  std::string out;
  // Its fields stand in the full text under Memory already; a name must not come twice, readers
  // keep the last one.
  if (wanted == "data") data_section(server, out);
  for (const NamedSection& named : kSections) {
    if (!all && named.name != wanted) continue;
    if (!out.empty()) out += "\r\n";
    named.write(server, out);
  }
  // The fork's dashboard asks for this section alone and dies on a db0 line without two numbers
  // (T20); the full text has keys under that name, which codis-fe shows and adds up.
  if (wanted == "replication") {
    line(out, "db0", "binlog_offset=0 0,safety_purge=none");
    line(out, "slave_repl_offset", int64_t{0});
  }
  return out;
}

}  // namespace sf
