#include <sys/stat.h>

#include <algorithm>

#include "common/base/file.h"
#include "migrator/move_context.h"
#include "migrator/pika_slots.h"
#include "migrator/preflight_checks.h"
#include "migrator/server_facts.h"

namespace sf {
namespace {

constexpr int64_t kClockWarnMs = 500;
constexpr int64_t kBacklogAdvised = 16 << 20;

const char* side_name(bool old_side) {
  return old_side ? "old-servers" : "new-servers";
}

std::string slot_replica_fault(const MovePlan& plan, bool old_side, Peer& peer,
                               const HostPort& master) {
  const auto rows = read_pika_slots(peer, plan.slots);
  if (!rows) return rows.status().text();
  if (!old_side && rows->empty()) return cat(peer.address().text(), " holds none of the slots yet");
  int fine = 0;
  for (const auto& [slot, row] : *rows) fine += follows(row, master) && link_up(row) ? 1 : 0;
  if (fine == plan.slots.size()) return {};
  return cat(peer.address().text(), " follows with ", fine, " of ", plan.slots.size(), " slots");
}

// A server that is not the master: it should follow it. "" if it does.
std::string replica_fault(const MovePlan& plan, bool old_side, const HostPort& server) {
  const HostPort& master = (old_side ? plan.old_side : plan.new_side).master;
  const auto peer = open_peer(plan, old_side, server);
  const auto facts = read_facts(*peer);
  if (!facts) return facts.status().text();
  if (facts->kind == ServerKind::kPikaSharding) {
    return slot_replica_fault(plan, old_side, *peer, master);
  }
  if (follows(*facts, master) && facts->link_up) return {};
  if (!facts->is_slave) return cat(server.text(), " follows nobody");
  return cat(server.text(), " follows ", facts->master ? facts->master->text() : "-", ", link ",
             facts->link_up ? "up" : "down");
}

std::optional<std::string> config_of(Peer& peer, const std::string& name) {
  auto value = read_config(peer, name);
  return value ? std::move(*value) : std::nullopt;
}

bool is_local(const HostPort& server) {
  return server.host == "127.0.0.1" || server.host == "localhost" || server.host == "::1";
}

}  // namespace

bool check_servers(const MovePlan& plan, bool old_side, Findings& findings) {
  const PlanSide& side = old_side ? plan.old_side : plan.new_side;
  const auto master = open_peer(plan, old_side, side.master);
  const auto facts = read_facts(*master);
  if (!facts) {
    findings.stop(side_name(old_side), facts.status());
    return false;
  }
  if (facts->kind != side.kind) {
    findings.stop(side_name(old_side),
                  cat(master->label(), " is of kind ", kind_text(facts->kind), ", planned was ",
                      kind_text(side.kind)),
                  "make a new plan");
    return false;
  }
  const bool follows_old = !old_side && follows(*facts, plan.old_side.master);
  if (facts->is_slave && !follows_old) {
    findings.stop(side_name(old_side),
                  cat(master->label(), " is a slave of ",
                      facts->master ? facts->master->text() : "another server"),
                  "server 0 of a group must be a master; promote it, or end that link");
    return false;
  }
  std::string faults;
  for (const HostPort& server : side.servers) {
    if (server == side.master) continue;
    const std::string fault = replica_fault(plan, old_side, server);
    if (!fault.empty()) faults += cat(faults.empty() ? "" : "; ", fault);
  }
  const std::string seen = cat(side.servers.size(), " of kind ", kind_text(side.kind), " ",
                               facts->version, ", master ", side.master.text());
  if (faults.empty()) {
    findings.ok(side_name(old_side), seen);
  } else {
    findings.warn(side_name(old_side), cat(seen, "; ", faults),
                  old_side ? "mend the replica set first: it is what a failover would fall back on"
                           : "an empty one is made a replica of the new master by the run");
  }
  return true;
}

void check_links(const MovePlan& plan, Findings& findings) {
  // Both ways: the new side copies from the old one, and the old one follows back after the switch.
  const std::pair<bool, const PlanSide*> ways[] = {{false, &plan.old_side}, {true, &plan.new_side}};
  for (const auto& [old_side, towards] : ways) {
    if (old_side && plan.unit != CutUnit::kSlot) continue;  // nothing follows back
    const auto peer = open_peer(plan, old_side, (old_side ? plan.old_side : plan.new_side).master);
    const std::string current = config_of(*peer, "masterauth").value_or("");
    if (towards->password.empty() || current == towards->password) {
      findings.ok(old_side ? "link-back" : "link",
                  cat(peer->label(), " has the password for ", towards->master.text()));
    } else {
      findings.warn(
          old_side ? "link-back" : "link",
          cat("masterauth of ", peer->label(), " is not the password of ", towards->master.text()),
          "the run sets it with CONFIG SET masterauth");
    }
  }
}

void check_new_side_empty(const MovePlan& plan, const CodisTopology& topology, Findings& findings) {
  if (plan.new_side.kind == ServerKind::kPikaSharding) return;  // check_pika_slots()
  const auto peer = open_peer(plan, false, plan.new_side.master);
  const auto facts = read_facts(*peer);
  if (!facts) return findings.stop("new-empty", facts.status());
  if (plan.new_side.kind != ServerKind::kNode) {
    if (!topology.slots_of(plan.target_group).empty()) {
      return findings.stop("new-empty",
                           cat("group ", plan.target_group,
                               " owns slots, and these servers replicate only as a whole"),
                           "move to a group that owns none");
    }
    const auto keys = holds_keys(*peer, facts->kind);
    if (!keys) return findings.stop("new-empty", keys.status());
    if (!facts->is_slave && !keys->empty()) {
      return findings.stop("new-empty", cat(peer->label(), " holds ", *keys),
                           "empty it, they would be lost");
    }
    return findings.ok("new-empty", facts->is_slave ? "the new master follows the old one already"
                                                    : "no slot, no key");
  }
  const auto positions = read_positions(*peer, plan.slots);
  if (!positions) return findings.stop("new-empty", positions.status());
  const auto counts = read_key_counts(*peer);
  if (!counts) return findings.stop("new-empty", counts.status());
  for (const auto& [slot, count] : *counts) {
    if (count == 0 || !plan.slots.contains(slot) || positions->at(slot).is_slave) continue;
    return findings.stop("new-empty",
                         cat("slot ", slot, " holds ", count, " keys on ", peer->label()),
                         "delete them (SLOTSDEL) if nobody needs them, they would be lost");
  }
  findings.ok("new-empty",
              cat("the ", plan.slots.size(), " slots are empty or followed on ", peer->label()));
}

void check_room(const MovePlan& plan, Findings& findings) {
  const auto old_master = open_peer(plan, true, plan.old_side.master);
  const auto new_master = open_peer(plan, false, plan.new_side.master);
  const auto facts = read_facts(*old_master);
  if (!facts) return findings.stop("disk", facts.status());
  const bool node = plan.old_side.kind != ServerKind::kRedis;  // Pika's words, both of them
  int64_t need = info_number(facts->info, node ? "db_size" : "used_memory", 0);
  if (need == 0) need = info_number(facts->info, "used_disk", 0);
  const std::string size = need > 0 ? human_bytes(need) : "an unknown size";
  const std::string dir = config_of(*new_master, node ? "db-path" : "dir").value_or("");
  const std::string other_dir = config_of(*new_master, "dir").value_or("");
  const std::string& path = dir.empty() ? other_dir : dir;
  struct stat there {};
  if (!is_local(plan.new_side.master) || path.empty() || stat(path.c_str(), &there) != 0) {
    return findings.warn("disk",
                         cat("the disk of ", new_master->label(),
                             " cannot be seen from here; the old side has ", size),
                         "see to it that twice that is free");
  }
  const auto room = free_bytes(path);
  if (!room)
    return findings.warn("disk", room.status().text(), "see to it that there is room for " + size);
  if (*room < 2 * need) {
    return findings.stop("disk",
                         cat(human_bytes(*room), " free at ", path, " of ", new_master->label(),
                             ", the old side has ", size),
                         "free twice that");
  }
  findings.ok("disk", cat(human_bytes(*room), " free at the new master, the old side has ", size));
}

void check_clocks(const MovePlan& plan, const Clock& clock, Findings& findings) {
  int64_t worst = 0;
  for (const bool old_side : {true, false}) {
    const auto peer = open_peer(plan, old_side, (old_side ? plan.old_side : plan.new_side).master);
    const auto before = clock.wall_ms();
    const auto reply = peer->call({"TIME"});
    if (!reply || reply->items.size() != 2) {
      return findings.warn("clocks", cat(peer->label(), " does not tell its time"),
                           "keep NTP running on all machines");
    }
    const int64_t seconds = parse_int64(reply->items[0].word()).value_or(0);
    const int64_t micros = parse_int64(reply->items[1].word()).value_or(0);
    const int64_t middle = (before + clock.wall_ms()) / 2;
    const int64_t off = seconds * 1000 + micros / 1000 - middle;
    if (std::abs(off) > std::abs(worst)) worst = off;
  }
  if (std::abs(worst) > kClockWarnMs) {
    return findings.warn(
        "clocks", cat("a server's clock is ", worst, " ms off this machine's"),
        "keys with a TTL may expire earlier or later on the other side; mend NTP first");
  }
  findings.ok("clocks", cat("within ", std::abs(worst), " ms of this machine's"));
}

namespace {

// Can the old master's end be fenced? Asked as the shim asks it: by a pause of no time.
void check_redis_end(Peer& old_master, Findings& findings) {
  const auto paused = old_master.call({"CLIENT", "PAUSE", "0", "WRITE"});
  if (!paused) return findings.stop("end", paused.status());
  if (!paused->is_error()) return findings.ok("end", "fenced by CLIENT PAUSE WRITE");
  findings.warn("end",
                cat(old_master.label(),
                    " has no CLIENT PAUSE WRITE: its end is accounted for, not fenced, so any "
                    "foreign connection to it refuses the switch, and a take-back after the new "
                    "side has left replication costs a whole new copy"),
                "disconnect everything but the shim; the shim names who is left");
}

}  // namespace

void check_redis_settings(const MovePlan& plan, Findings& findings) {
  const auto old_master = open_peer(plan, true, plan.old_side.master);
  const auto new_master = open_peer(plan, false, plan.new_side.master);
  const int64_t limit = parse_int64(config_of(*new_master, "maxmemory").value_or("0")).value_or(0);
  const std::string policy = config_of(*new_master, "maxmemory-policy").value_or("noeviction");
  const auto facts = read_facts(*old_master);
  const int64_t used = facts ? info_number(facts->info, "used_memory", 0) : 0;
  if (limit > 0 && policy != "noeviction") {
    findings.stop("memory",
                  cat("maxmemory-policy of ", new_master->label(), " is ", policy,
                      ": it may evict keys in silence"),
                  "CONFIG SET maxmemory-policy noeviction for the time of the move");
  } else if (limit > 0 && limit < used) {
    findings.stop("memory",
                  cat("maxmemory of ", new_master->label(), " is ", human_bytes(limit),
                      ", the old side uses ", human_bytes(used)),
                  "raise maxmemory");
  } else {
    findings.ok("memory", cat("policy ", policy, ", maxmemory ",
                              limit == 0 ? "without limit" : human_bytes(limit)));
  }
  const auto clients = new_master->call({"CLIENT", "LIST"});
  if (clients && clients->word().find(" name=sentinel-") != std::string::npos) {
    findings.stop("sentinels",
                  cat("sentinels watch ", new_master->label(),
                      ": they would promote another server of its group once it follows"),
                  "SENTINEL REMOVE its group on each of them until the slots are switched");
  } else {
    findings.ok("sentinels", cat("none watches ", new_master->label()));
  }
  const int64_t backlog =
      parse_int64(config_of(*old_master, "repl-backlog-size").value_or("0")).value_or(0);
  if (backlog < kBacklogAdvised) {
    findings.warn(
        "repl-backlog",
        cat("repl-backlog-size of ", old_master->label(), " is ", human_bytes(backlog)),
        "a short break of the link may cost a whole new copy; CONFIG SET repl-backlog-size 64mb");
  } else {
    findings.ok("repl-backlog", human_bytes(backlog));
  }
  const std::string before_5 = config_of(*new_master, "slave-read-only").value_or("yes");
  const std::string read_only = config_of(*new_master, "replica-read-only").value_or(before_5);
  if (read_only != "yes") {
    findings.stop(
        "read-only", cat("replica-read-only of ", new_master->label(), " is ", read_only),
        "CONFIG SET replica-read-only yes (before Redis 5: slave-read-only), else anybody "
        "may write the copy");
  }
  check_redis_end(*old_master, findings);
  findings.warn(
      "fence",
      "Redis cannot be fenced for good: a force-removed proxy that lives on, or an operator's "
      "direct write, would reach the old master after the switch",
      "make sure that nothing but the registered proxies writes to it");
}

}  // namespace sf
