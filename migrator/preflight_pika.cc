// What is known to go wrong with Pika's own replication (docs/RUNBOOK.md, Pika servers), looked for
// on the servers that are there.
#include <algorithm>

#include "migrator/move_context.h"
#include "migrator/preflight_checks.h"
#include "migrator/server_facts.h"

namespace sf {
namespace {

struct PikaPair {
  std::unique_ptr<Peer> peers[2];
  ServerFacts facts[2];
  const ServerFacts& old_side() const { return facts[0]; }
  const ServerFacts& new_side() const { return facts[1]; }
};

std::string setting(Peer& peer, const std::string& name) {
  const auto value = read_config(peer, name);
  return value ? value->value_or("") : "";
}

std::string field(const ServerFacts& facts, const std::string& name) {
  const auto found = facts.info.find(name);
  return found == facts.info.end() ? std::string() : found->second;
}

// A Pika that migrates slots by itself deletes what it has pushed; told to migrate one to the shim,
// it would be given its own keys back and delete them.
void check_slotmigrate(PikaPair& pair, Findings& findings) {
  std::string on;
  for (const auto& peer : pair.peers) {
    const std::string value = setting(*peer, "slotmigrate");
    if (value == "yes") on += cat(on.empty() ? "" : ", ", peer->label());
  }
  if (on.empty()) return findings.ok("slotmigrate", "off on both masters");
  findings.stop("slotmigrate", cat("slotmigrate is yes on ", on),
                "CONFIG SET slotmigrate no (and CONFIG REWRITE) before slots pass the shim: a slot "
                "migrated to it would be pushed back to its sender and deleted there");
}

// Positions of the two are compared, and records are counted to the byte.
void check_binlog(PikaPair& pair, bool sharding, Findings& findings) {
  const std::string second = sharding ? "default-slot-num" : "databases";
  for (const std::string& name : {std::string("binlog-file-size"), second}) {
    const std::string ours = setting(*pair.peers[0], name);
    const std::string theirs = setting(*pair.peers[1], name);
    if (ours == theirs && !ours.empty()) continue;
    return findings.stop("binlog",
                         cat(name, " is '", ours, "' on ", pair.peers[0]->label(), " and '", theirs,
                             "' on ", pair.peers[1]->label()),
                         "make them equal in both pika.conf, restart, and copy anew");
  }
  for (const auto& peer : pair.peers) {
    if (setting(*peer, "write-binlog") == "no") {
      return findings.stop("binlog", cat("write-binlog is no on ", peer->label()),
                           "CONFIG SET write-binlog yes: without it nothing is replicated");
    }
  }
  findings.ok("binlog", cat("file size ", setting(*pair.peers[0], "binlog-file-size"), ", ",
                            setting(*pair.peers[0], second), sharding ? " slots" : " databases",
                            ", on both"));
}

void check_version(const PikaPair& pair, const MovePlan& plan, Findings& findings) {
  const std::string versions = pair.old_side().version == pair.new_side().version
                                   ? cat("both are ", pair.old_side().version)
                                   : cat(pair.old_side().version, " -> ", pair.new_side().version);
  std::string accepted;
  for (const std::string& name : plan.accept) accepted += cat(accepted.empty() ? "" : ", ", name);
  // What can be tried is tried by the shim before its first attempt; this says so beforehand.
  findings.warn(
      "replication-faults",
      cat(versions,
          "; seen in 3.5: INCR and APPEND on a key with a TTL lose the TTL on the slave, "
          "APPEND that makes a key leaves it empty there, streams are left out of a full "
          "copy. Accepted by the plan: ",
          accepted.empty() ? "nothing" : accepted),
      "the shim compares both sides, and heals in the pause what differs; streams that are not "
      "written "
      "while it looks cannot be found: name them in the plan's accept if no client has any");
}

void check_workers(const PikaPair& pair, Findings& findings) {
  const int64_t threads = info_number(pair.new_side().info, "sync_thread_num", 0);
  if (threads > 0) return findings.ok("apply-workers", cat(threads, " on the new master"));
  findings.stop("apply-workers", "the new master does not say its sync_thread_num in INFO",
                "without it nobody can prove what it has applied; use Pika 3.2 or later");
}

// A Pika with slaves refuses SLAVEOF, so an attempt could not be taken back.
void check_replicas(const PikaPair& pair, Findings& findings) {
  const int64_t count = info_number(pair.new_side().info, "connected_slaves", 0);
  if (count == 0) {
    return findings.ok("new-replicas", "none yet; the run attaches them after the switch");
  }
  findings.stop("new-replicas",
                cat(pair.peers[1]->label(), " has ", count,
                    " slaves: it would refuse SLAVEOF if an "
                    "attempt has to be taken back"),
                "SLAVEOF NO ONE on them, and empty them; the run attaches them after the switch");
}

// Killed with -9, a Pika loses what it had queued for applying, and looks in sync afterwards.
void check_copy(const PikaPair& pair, const MovePlan& plan, Findings& findings) {
  if (!follows(pair.new_side(), plan.old_side.master)) {
    return findings.ok("copy", "none yet; the run makes it");
  }
  const auto up = [](const ServerFacts& facts) {
    return cat(field(facts, "uptime_in_seconds"), " s");
  };
  findings.warn(
      "copy",
      cat("the new master follows already; both masters are up for ", up(pair.old_side()), " and ",
          up(pair.new_side())),
      "if one of them was killed since that copy, it has lost writes for good and does not say so: "
      "copy anew (SLAVEOF NO ONE, SLAVEOF host port force); restarts from now on are noticed");
}

}  // namespace

void check_pika(const MovePlan& plan, Findings& findings) {
  PikaPair pair;
  for (const bool old_side : {true, false}) {
    const int at = old_side ? 0 : 1;
    pair.peers[at] = open_peer(plan, old_side, (old_side ? plan.old_side : plan.new_side).master);
    auto facts = read_facts(*pair.peers[at]);
    if (!facts) return findings.stop("pika", facts.status());
    pair.facts[at] = std::move(*facts);
  }
  const bool sharding = plan.old_side.kind == ServerKind::kPikaSharding;
  check_slotmigrate(pair, findings);
  check_binlog(pair, sharding, findings);
  check_version(pair, plan, findings);
  check_workers(pair, findings);
  if (sharding) return;  // who follows whom there is of the slots
  check_replicas(pair, findings);
  check_copy(pair, plan, findings);
}

}  // namespace sf
