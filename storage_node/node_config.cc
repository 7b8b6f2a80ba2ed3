#include "storage_node/node_config.h"

#include <algorithm>
#include <array>

#include "common/base/strings.h"
#include "common/ops/config_file.h"

namespace sf {

namespace {

using Kind = SettingSpec::Kind;

std::vector<SettingSpec> setting_specs() {
  return {
      {"port", "9221", "port to serve on; 0 takes a free one", Kind::kInteger, 0, 65535},
      {"bind", "127.0.0.1", "address to serve on; 0.0.0.0 for all"},
      {"dir", "./slotferry-node", "data folder"},
      {"threads", "2", "worker threads", Kind::kInteger, 1, 64},
      {"requirepass", "", "password clients must give; empty: none"},
      {"masterauth", "", "password this node gives to its masters"},
      {"databases", "16", "databases clients may select", Kind::kInteger, 1, kDbCount},
      {"maxclients", "20000", "connections accepted at once", Kind::kInteger, 1, 1'000'000},
      {"sync", "no", "when writes are on disk: no, everysec, always"},
      {"slaveof", "", "host:port of the master to follow"},
      {"loglevel", "info", "debug, info, warning, error"},
      {"logfile", "", "log file; empty: standard error"},
      {"write-buffer-size", "64mb", "memory of one column family's newest writes", Kind::kBytes,
       1 << 20, 1LL << 32},
      {"block-cache", "256mb", "memory for blocks read", Kind::kBytes, 1 << 20, 1LL << 40},
      {"backlog-size", "32mb", "newest writes kept in memory for replicas", Kind::kBytes, 1 << 16,
       1LL << 34},
      {"wal-keep-size", "4gb",
       "log kept on disk for attached replicas that lag; over it they are cut", Kind::kBytes,
       1 << 20, 1LL << 44},
      {"wal-keep-seconds", "86400", "... and for how long", Kind::kInteger, 0, 1LL << 31},
      {"repl-ping-ms", "1000", "milliseconds after which a replication link that is idle says so",
       Kind::kInteger, 10, 60'000},
      {"repl-timeout", "10", "seconds of silence after which a replication link is cut",
       Kind::kInteger, 2, 3600},
      {"wal-spare-size", "1gb",
       "log kept though no attached replica needs it, for one that returns", Kind::kBytes, 0,
       1LL << 44},
      {"slot-copy-rate", "128mb", "bytes a second of slot copies leaving the node; 0: no limit",
       Kind::kBytes, 0, 1LL << 40},
      {"slot-copy-cpu", "10",
       "percent of one core for reading slots to copy, all replicas together; 0: no limit",
       Kind::kInteger, 0, 6400},
      {"repl-copy-parallel", "2", "slots copied at a time on a replication link", Kind::kInteger, 1,
       64},
      {"repl-output-limit", "4mb", "unsent bytes past which a replica's log is not read on",
       Kind::kBytes, 1 << 16, 1LL << 30},
      {"min-replicas-to-write", "0",
       "full replicas that must be attached for writes to be taken; 0: none", Kind::kInteger, 0,
       1000},
      {"min-replicas-max-lag", "10", "... whose last word is at most this many seconds old",
       Kind::kInteger, 0, 1'000'000},
      {"reserve-size", "32mb", "writes are refused while the disk has less space left",
       Kind::kBytes, 0, 1LL << 40},
      {"max-background-jobs", "2", "threads of compaction and flush", Kind::kInteger, 1, 64},
      {"proto-max-bulk-len", "512mb", "longest argument of a request", Kind::kBytes, 1 << 20,
       512LL << 20},
  };
}

constexpr std::array<std::string_view, 13> kChangeable = {
    "requirepass",         "masterauth",         "maxclients",        "slaveof",
    "databases",           "repl-ping-ms",       "repl-timeout",      "slot-copy-rate",
    "slot-copy-cpu",       "repl-copy-parallel", "repl-output-limit", "min-replicas-to-write",
    "min-replicas-max-lag"};

// Redis's older names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kAliases = {{
    {"min-slaves-to-write", "min-replicas-to-write"},
    {"min-slaves-max-lag", "min-replicas-max-lag"},
}};

// What Redis clients and Codis ask for that is not a setting here: fixed answers.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kFixed = {{
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"},
    {"appendonly", "no"},
    {"save", ""},
    {"timeout", "0"},
    {"tcp-keepalive", "60"},
    {"slave-read-only", "yes"},
    {"slotmigrate", "no"},
}};

}  // namespace

NodeConfig::NodeConfig() : settings_(setting_specs()) {}

Status NodeConfig::parse(int argc, char** argv) {
  Status parsed = settings_.parse(argc, argv, "slotferry-node",
                                  "a Pika-compatible storage node whose slots can move");
  if (!parsed || done()) return parsed;
  const std::string& sync = settings_.text("sync");
  if (sync != "no" && sync != "everysec" && sync != "always") {
    return Status::invalid(cat("sync must be no, everysec or always, not '", printable(sync), "'"));
  }
  const Result<LogLevel> level = parse_log_level(settings_.text("loglevel"));
  return level ? Status::ok() : level.status();
}

std::string NodeConfig::text(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return settings_.text(name);
}

int64_t NodeConfig::integer(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return settings_.integer(name);
}

EngineOptions NodeConfig::engine_options() const {
  EngineOptions options;
  options.dir = text("dir") + "/db";
  const std::string sync = text("sync");
  if (sync == "everysec") options.sync = SyncPolicy::kEverySecond;
  if (sync == "always") options.sync = SyncPolicy::kAlways;
  options.sync_in_commit = false;  // the sessions wait, once a loop turn
  options.write_buffer_bytes = static_cast<size_t>(integer("write-buffer-size"));
  options.block_cache_bytes = static_cast<size_t>(integer("block-cache"));
  options.backlog_bytes = static_cast<size_t>(integer("backlog-size"));
  options.wal_keep_bytes = static_cast<size_t>(integer("wal-keep-size"));
  options.wal_keep_seconds = integer("wal-keep-seconds");
  options.wal_spare_bytes = static_cast<size_t>(integer("wal-spare-size"));
  options.reserve_bytes = integer("reserve-size");
  options.background_threads = static_cast<int>(integer("max-background-jobs"));
  return options;
}

std::vector<std::pair<std::string, std::string>> NodeConfig::matching(
    std::string_view pattern) const {
  const std::string glob = to_lower(pattern);
  std::vector<std::pair<std::string, std::string>> out;
  const std::lock_guard lock(mutex_);
  for (const SettingSpec& spec : settings_.specs()) {
    if (!glob_match(glob, spec.name)) continue;
    // Redis's clients expect sizes as plain numbers.
    out.emplace_back(spec.name, spec.kind == Kind::kBytes
                                    ? std::to_string(settings_.integer(spec.name))
                                    : settings_.text(spec.name));
  }
  for (const auto& [alias, real] : kAliases) {
    if (glob_match(glob, alias)) out.emplace_back(alias, settings_.text(real));
  }
  for (const auto& [name, value] : kFixed) {
    if (glob_match(glob, name)) out.emplace_back(name, value);
  }
  return out;
}

Status NodeConfig::set(std::string_view name, std::string_view value) {
  std::string key = to_lower(name);
  for (const auto& [alias, real] : kAliases) {
    if (key == alias) key = real;
  }
  if (Status s = set_locked(key, value); !s) return s;
  on_change_();
  return Status::ok();
}

Status NodeConfig::set_locked(const std::string& key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  const auto& specs = settings_.specs();
  const bool known = std::any_of(specs.begin(), specs.end(),
                                 [&](const SettingSpec& spec) { return spec.name == key; });
  if (!known) {
    return Status::invalid(
        cat("ERR Unknown option or number of arguments for CONFIG SET - '", printable(key), "'"));
  }
  const std::string failed =
      cat("ERR CONFIG SET failed (possibly related to argument '", key, "') - ");
  if (std::find(kChangeable.begin(), kChangeable.end(), key) == kChangeable.end()) {
    return Status::invalid(failed + "can't set immutable config");
  }
  const Status done = settings_.set(key, value);
  return done ? done : Status::invalid(failed + done.text());
}

void NodeConfig::remember(std::string_view name, std::string_view value) {
  const std::lock_guard lock(mutex_);
  static_cast<void>(settings_.set(name, value));
}

// Settings that a flag or CONFIG SET changed, and those the file has, are written; the rest stay
// defaults.
Status NodeConfig::rewrite() const {
  const std::lock_guard lock(mutex_);
  if (settings_.config_path().empty()) {
    return Status::refused("ERR The server is running without a config file");
  }
  Result<ConfigFile> file = ConfigFile::load(settings_.config_path());
  if (!file) return file.status();
  for (const SettingSpec& spec : settings_.specs()) {
    const std::string& value = settings_.text(spec.name);
    if (file->get(spec.name) || value != spec.default_value) file->set(spec.name, value);
  }
  return file->save(settings_.config_path());
}

}  // namespace sf
