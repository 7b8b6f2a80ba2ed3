// What the fake Pika says about itself and is told about replication, worded as recorded.
#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/support/fake_pika/answers.h"
#include "tests/support/fake_pika/fake_pika.h"

namespace sf::fake_pika {
namespace {

// The words of INFO for the states of PKCLUSTER INFO.
std::string connect_status(const std::string& state) {
  if (state == "kConnected") return "connected";
  if (state == "kTryConnect") return "try_to_incr_sync";
  if (state == "kTryDBSync") return "try_to_full_sync";
  if (state == "kWaitReply") return "connecting";
  if (state == "kWaitDBSync") return "syncing_full";
  return state == "kError" ? "error" : "no_connect";
}

}  // namespace

std::string FakePika::info(const Words& argv) const {
  const std::string section = argv.size() > 1 ? to_lower(argv[1]) : "";
  std::string out;
  if (section.empty() || section == "server") out += info_server();
  if (section.empty() || section == "data") {
    out += cat("# Data\r\ndb_size:458923\r\nlog_size:67093\r\ncompression:snappy\r\n",
               "used_memory:30632\r\ndb_fatal:0\r\ndb_fatal_msg:nullptr\r\n\r\n");
  }
  if (section.empty() || section == "stats") {
    out += "# Stats\r\ntotal_connections_received:7\r\nis_bgsaving:No\r\nis_compact:No\r\n\r\n";
  }
  if (section.empty() || section == "replication") out += info_replication();
  if (section.empty() || section == "keyspace") {
    out += "# Keyspace\r\n# Use \"info keyspace 1\" to do async statistics\r\n\r\n";
  }
  return bulk(out);
}

std::string FakePika::info_server() const {
  std::string out = cat("# Server\r\npika_version:", options_.version, "\r\n");
  out += cat("os:Linux\r\narch_bits:64\r\nprocess_id:",
             options_.process_id != 0 ? options_.process_id : port_ + 100'000 * starts_, "\r\n");
  out += cat("tcp_port:", port_, "\r\nthread_num:1\r\n");
  out += cat("sync_thread_num:", options_.sync_threads, "\r\n");
  out += cat("uptime_in_seconds:", (loop_->wall_ms() - started_ms_) / 1000, "\r\n");
  out += "uptime_in_days:1\r\nconfig_file:/tmp/pika.conf\r\nserver_id:1\r\n";
  if (!options_.sharding) out += cat("run_id:", run_id_, "\r\n");
  return out + "\r\n";
}

std::string FakePika::info_replication() const {
  if (options_.sharding) {
    return "# Replication(MASTER)\r\nrole:master\r\nconnected_slaves:0\r\n\r\n";
  }
  const Unit& first = *units_.begin()->second;
  const bool slave = first.is_replica();
  std::string out = cat("# Replication(", slave ? "SLAVE" : "MASTER", ")\r\nrole:");
  const auto& feeds = first.feeds();
  out += slave && !feeds.empty() ? "master&&slave" : slave ? "slave" : "master";
  out += cat("\r\nReplicationID:", replication_id_, "\r\n");
  bool copying = false, up = true;
  if (slave) {
    std::string lines, states;
    for (const auto& [id, unit] : units_) {
      lines += cat(unit->name(), ":", connect_status(unit->state()), "\r\n");
      states += cat("(", unit->name(), ":", unit->state(), ")");
      copying = copying || unit->state() == "kWaitDBSync";
      up = up && unit->state() == "kConnected";
    }
    out +=
        cat("master_host:", first.master_host(), "\r\nmaster_port:", first.master_port(), "\r\n");
    out += cat("master_link_status:", up ? "up" : "down", "\r\nrepl_connect_status:\r\n", lines);
    out += "slave_priority:100\r\nslave_read_only:1\r\n";
    if (!up) out += cat("db_repl_state:", states, "\r\n");
  }
  if (!slave || !feeds.empty()) {
    out += cat("connected_slaves:", feeds.size(), "\r\n");
    for (size_t i = 0; i < feeds.size(); ++i) {
      const auto address = parse_host_port(feeds[i]->address);
      std::string lags;
      for (const auto& [id, unit] : units_) {
        std::string lag = "not syncing";
        for (const auto& feed : unit->feeds()) {
          if (feed->address != feeds[i]->address) continue;
          if (feed->state == "SlaveDbSync") lag = "full syncing";
          if (feed->state != "SlaveBinlogSync") continue;
          const Offset& from = faults_.lag_by_sent ? feed->sent : feed->acked;
          lag = std::to_string(unit->log().distance(from));
        }
        lags += cat("(", unit->name(), ":", lag, ")");
      }
      out += cat("slave", i, ":ip=", address->host, ",port=", address->port,
                 ",conn_fd=74,lag=", lags, "\r\n");
    }
  }
  out += cat("is_eligible_for_master_election:", copying ? "false" : "true", "\r\n");
  for (const auto& [id, unit] : units_) {
    out += cat(unit->name(), ":binlog_offset=", unit->log().at().text(), ",safety_purge=none\r\n");
  }
  return out + "\r\n";
}

std::map<std::string, std::string> FakePika::settings() const {
  return {{"instance-mode", options_.sharding ? "sharding" : "classic"},
          {"databases", std::to_string(options_.databases)},
          {"default-slot-num", std::to_string(options_.slot_num)},
          {"binlog-file-size", std::to_string(options_.binlog_file_size)},
          {"sync-thread-num", std::to_string(options_.sync_threads)},
          {"slaveof", slaveof_},
          {"maxmemory", "16777216"},
          {"write-binlog", "yes"},
          {"slotmigrate", slotmigrate_},
          {"run-id", run_id_}};
}

std::string FakePika::config(const Words& argv) {
  const std::string verb = to_lower(argv.at(1));
  if (verb == "get") {
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& [name, value] : settings()) {
      if (glob_match(argv.at(2), name)) found.emplace_back(name, value);
    }
    std::string out;
    resp::array(out, found.size() * 2);
    for (const auto& [name, value] : found) {
      resp::bulk(out, name);
      resp::bulk(out, value);
    }
    return out;
  }
  if (verb == "set" && argv.at(2) == "slotmigrate") slotmigrate_ = argv.at(3);
  if (verb == "rewrite") written_slaveof_ = slaveof_;
  return ok();
}

// The thread that copied is waited for, once (measured on 3.5.5).
bool FakePika::leaves_slowly(const Words& argv) {
  if (faults_.leave_ms == 0 || to_lower(argv.at(1)) != "no") return false;
  bool copied = false;
  for (auto& [id, unit] : units_) copied |= unit->take_copied();
  return copied;
}

std::string FakePika::leave_later(int connection_id, const Words& argv) {
  loop_->call_after(faults_.leave_ms * 1000, [this, connection_id, argv] {
    const std::string reply = slave_of(argv);
    send_to(connection_id, reply);
  });
  return "";
}

std::string FakePika::slave_of(const Words& argv) {
  if (options_.sharding) return error("This command is not supported in current configuration");
  for (const auto& [id, unit] : units_) {
    if (faults_.wedge && unit->between_steps()) {
      wedged_ = true;
      return "";
    }
  }
  if (to_lower(argv.at(1)) == "no") {
    for (auto& [id, unit] : units_) unit->leave();
    slaveof_.clear();
    return ok();
  }
  for (const auto& [id, unit] : units_) {
    if (!unit->feeds().empty()) return error("already master of others, invalid usage");
  }
  const auto port = parse_int64(argv.at(2));
  if (!port) return error("value is not an integer or out of range");
  slaveof_ = cat(argv[1], ":", *port);
  for (auto& [id, unit] : units_) {
    unit->follow(argv[1], static_cast<int>(*port), argv.size() > 3);
  }
  return ok();
}

std::string FakePika::cluster(const Words& argv) {
  if (!options_.sharding) return error("unknown command \"pkcluster\"");
  const std::string verb = to_lower(argv.at(1));
  if (verb == "info") {
    if (to_lower(argv.at(2)) == "slot") {
      return bulk(cluster_slots_info(argv.size() > 3 ? argv[3] : cat("0-", options_.slot_num - 1)));
    }
    return bulk(cat("table_id: 0\r\n  partition_num: ", options_.slot_num,
                    "\r\n  total_commands_processed:14\r\n  qps: 0\r\n\r\n"));
  }
  const bool follow = verb == "slotsslaveof";
  const std::vector<int> slots = range_of(argv.at(follow ? 4 : 2), options_.slot_num);
  if (slots.empty()) return error("Corruption: partition index out of range");
  for (int slot : slots) {
    const bool there = units_.contains(slot);
    if (verb == "addslots" && there) return error(cat("Corruption: partition : ", slot, " exist"));
    if (verb != "addslots" && !there) return error(cat("Slot ", slot, " not found!"));
    if (verb == "delslots" && units_[slot]->is_replica()) {
      return error(cat("Corruption: sync slave partition (db0:", slot, ") in kConnected state"));
    }
    if (verb == "delslots" && !units_[slot]->feeds().empty()) {
      return error(cat("Corruption: sync master partition (db0:", slot, ") in syncing"));
    }
  }
  const bool leave = follow && to_lower(argv.at(2)) == "no";
  for (int slot : slots) {
    if (verb == "addslots") add_slot(slot);
    if (verb == "delslots") units_.erase(slot);
    if (leave) units_[slot]->leave();
    if (!follow || leave) continue;
    const bool force = argv.size() > 5 && to_lower(argv[5]) == "force";
    units_[slot]->follow(argv[2], static_cast<int>(parse_int64(argv[3]).value_or(0)), force);
  }
  return ok();
}

std::string FakePika::cluster_slots_info(const std::string& range) const {
  std::string out;
  for (int slot : range_of(range, options_.slot_num)) {
    const auto found = units_.find(slot);
    if (found == units_.end()) continue;
    const Unit& unit = *found->second;
    out += cat("(db0:", slot, ") binlog_offset=", unit.log().at().text(), ",safety_purge=none\r\n");
    const std::string as_slave =
        !unit.is_replica() ? ""
                           : cat("  Role: Slave\r\n  master: ", unit.master_host(), ":",
                                 unit.master_port(), "\r\n  slave status: ", unit.state(), "\r\n");
    if (unit.is_replica() && unit.feeds().empty()) {
      out += as_slave + "\r\n";
      continue;
    }
    out += cat("  Role: Master\r\n  connected_slaves: ", unit.feeds().size(), "\r\n");
    for (size_t i = 0; i < unit.feeds().size(); ++i) {
      const Feed& feed = *unit.feeds()[i];
      out +=
          cat("  slave[", i, "]: ", feed.address, "\r\n  replication_status: ", feed.state, "\r\n");
      if (feed.state != "SlaveBinlogSync") continue;
      out +=
          cat("  lag: ", unit.log().distance(faults_.lag_by_sent ? feed.sent : feed.acked), "\r\n");
    }
    if (unit.is_replica()) out += "  -----------\r\n" + as_slave;
    out += "\r\n";
  }
  return out.empty() ? out : out + "\r\n";
}

std::string FakePika::slots_info() const {
  std::string out;
  if (!options_.sharding) {
    resp::array(out, 0);
    return out;
  }
  resp::array(out, units_.size());
  for (const auto& [slot, unit] : units_) {
    resp::array(out, 2);
    resp::integer(out, slot);
    resp::integer(out, static_cast<int64_t>(unit->data().size()));
  }
  return out;
}

// Sharding mode lists a slot's keys, and only so: KEYS and SCAN are refused there. (The index of
// classic mode's slotmigrate is not here.)
std::string FakePika::slots_scan(const Words& argv) {
  const auto found = units_.find(static_cast<int>(parse_int64(argv.at(1)).value_or(-1)));
  if (!options_.sharding || found == units_.end()) return error("no such key");
  Words scan{"scan"};
  scan.insert(scan.end(), argv.begin() + 2, argv.end());
  const auto done = found->second->data().execute(scan, loop_->wall_ms() / 1000, {});
  return done ? done->reply : error("no such key");
}

}  // namespace sf::fake_pika
