#include <algorithm>

#include "migrator/pika_slots.h"
#include "migrator/server_facts.h"
#include "migrator/steps.h"

namespace sf {
namespace {

constexpr const char* kAnnouncedPort = "replica-announce-port";
constexpr const char* kAnnouncedPortBefore5 = "slave-announce-port";
constexpr const char* kNobodysPort = "1";

constexpr uint64_t kSettledLag = 2000;            // log entries of a node
constexpr int64_t kSettledLagBytes = 256 * 1024;  // of Redis's replication stream
constexpr int kPollMs = 300;
constexpr int kSteadyPolls = 2;  // so often in a row everything must be settled

// Bytes; a file further on, or back, counts as far behind.
int64_t binlog_lag(const BinlogOffset& from, const BinlogOffset& to) {
  if (from.file != to.file) return INT64_MAX;
  return from.offset > to.offset ? static_cast<int64_t>(from.offset - to.offset) : 0;
}

// Bytes of binlog, the worst of all databases.
int64_t pika_lag(const ServerFacts& from, const ServerFacts& to) {
  int64_t worst = -1;
  for (const auto& [name, ours] : from.binlog) {
    const auto theirs = to.binlog.find(name);
    if (theirs == to.binlog.end()) return INT64_MAX;
    worst = std::max(worst, binlog_lag(ours, theirs->second));
  }
  return worst < 0 ? INT64_MAX : worst;  // nothing said is not "nothing behind"
}

// Slots that are still served by the old side: on the others the new master owns the data and must
// never be told to follow.
Result<SlotSet> unswitched(MoveContext& context) {
  const auto rows = context.shim.slots(context.plan.slots);
  if (!rows) return rows.status();
  SlotSet slots;
  for (const auto& [slot, row] : *rows) {
    if (row.state == "old") slots.add(slot);
  }
  return slots;
}

// The password the new server uses towards its master.
Status set_master_password(MoveContext& context, std::string_view step, Peer& server,
                           const std::string& password) {
  if (password.empty()) return Status::ok();
  const auto current = read_config(server, "masterauth");
  if (!current) return current.status();
  if (current->has_value() && **current == password) return Status::ok();
  return context.effect(step, cat("CONFIG SET masterauth on ", server.label()), [&] {
    return server.expect({"CONFIG", "SET", "masterauth", password}).status();
  });
}

Result<std::string> follow_slots(MoveContext& context, const SlotSet& wanted) {
  const auto positions = read_positions(*context.new_master, wanted);
  if (!positions) return positions.status();
  SlotSet missing;
  for (const auto& [slot, position] : *positions) {
    if (!position.is_slave) missing.add(slot);
  }
  if (missing.empty()) return std::string("it does already");
  const std::string step(step_text(Step::kFollow));
  Status status =
      set_master_password(context, step, *context.new_master, context.plan.old_side.password);
  if (!status) return status;
  const HostPort& master = context.plan.old_side.master;
  const Argv command = {"PKCLUSTER", "SLOTSSLAVEOF", master.host, std::to_string(master.port),
                        missing.text()};
  status = context.effect(step, cat("SLOTSSLAVEOF ", master.text(), " ", missing.text()),
                          [&] { return context.new_master->expect(command).status(); });
  if (!status) return status;
  return cat("slots ", missing.text(), " follow ", master.text());
}

// Makes `server` a replica of `master` as a whole. It must be one already, or be empty and follow
// nobody.
Result<std::string> follow_whole(MoveContext& context, std::string_view step, Peer& server,
                                 const HostPort& master, const std::string& password) {
  const auto facts = read_facts(server);
  if (!facts) return facts.status();
  if (follows(*facts, master)) return cat(server.label(), " does already");
  if (facts->is_slave) {
    return Status::refused(cat(server.label(), " follows ",
                               facts->master ? facts->master->text() : "another server",
                               "; it must follow ", master.text(), " or nobody"));
  }
  const auto keys = holds_keys(server, facts->kind);
  if (!keys) return keys.status();
  if (!keys->empty()) {
    return Status::refused(cat(server.label(), " holds ", *keys,
                               " and follows nobody; empty it or make it a replica of ",
                               master.text(), " by hand"));
  }
  Status status = set_master_password(context, step, server, password);
  if (!status) return status;
  // Every version and kind knows this word.
  const Argv command = {"SLAVEOF", master.host, std::to_string(master.port)};
  status = context.effect(step, cat(command[0], " ", master.text(), " on ", server.label()),
                          [&] { return server.expect(command).status(); });
  // Pika forgets at a restart what is not written down.
  if (status && facts->kind == ServerKind::kPika) {
    status = context.effect(step, cat("CONFIG REWRITE on ", server.label()), [&] {
      return server.expect({"CONFIG", "REWRITE"}).status();
    });
  }
  if (!status) return status;
  return cat(server.label(), " follows ", master.text());
}

// A sentinel of the old group takes every replica of its master for one of its own: it might
// promote the new master, and would make it a replica again after the switch (ADR 0024). What it
// learns is the address a replica announces.
Status hide_from_sentinels(MoveContext& context) {
  Peer& server = *context.new_master;
  const char* name = kAnnouncedPort;
  auto before = read_config(server, name);
  if (before && !before->has_value()) {
    name = kAnnouncedPortBefore5;
    before = read_config(server, name);
  }
  if (!before) return before.status();
  if (!before->has_value() || **before == kNobodysPort) return Status::ok();
  const Status kept = context.journal.set_fact(kAnnouncedPort, **before);
  if (!kept) return kept;
  const Status hidden =
      context.effect(step_text(Step::kFollow),
                     cat("CONFIG SET ", name, " ", kNobodysPort, " on ", server.label()), [&] {
                       return server.expect({"CONFIG", "SET", name, kNobodysPort}).status();
                     });
  // One that follows already says it anew when it connects again, and goes on where it was.
  return hidden ? server.expect({"CLIENT", "KILL", "TYPE", "master"}).status() : hidden;
}

Result<SlotSet> settled_node_slots(MoveContext& context, const SlotSet& slots) {
  // The old side first: what the new one then has applied is at least that old.
  const auto old_positions = read_positions(*context.old_master, slots);
  if (!old_positions) return old_positions.status();
  const auto new_positions = read_positions(*context.new_master, slots);
  if (!new_positions) return new_positions.status();
  SlotSet settled;
  for (const auto& [slot, from] : *old_positions) {
    const SlotPosition& to = new_positions->at(slot);
    if (!to.is_slave) {
      return Status::refused(cat("slot ", slot, " does not follow on ", context.new_master->label(),
                                 " any more; somebody ended it there, abort and begin anew"));
    }
    const bool close =
        to.link == "up" && to.history == from.history && from.seq <= to.seq + kSettledLag;
    if (close) settled.add(slot);
  }
  return settled;
}

// What is queued for applying is not seen; the shim tries that before each attempt.
Result<SlotSet> settled_pika_slots(MoveContext& context, const SlotSet& slots) {
  const auto from = need_pika_slots(*context.old_master, slots);
  if (!from) return from.status();
  const auto to = need_pika_slots(*context.new_master, slots);
  if (!to) return to.status();
  SlotSet settled;
  for (const auto& [slot, theirs] : *to) {
    if (!follows(theirs, context.plan.old_side.master)) {
      return Status::refused(cat("slot ", slot, " of ", context.new_master->label(),
                                 " does not follow ", context.plan.old_side.master.text(),
                                 " any more; abort and begin anew"));
    }
    if (theirs.state == "kError") {
      return Status::refused(cat("slot ", slot, " of ", context.new_master->label(),
                                 " cannot follow (kError): PKCLUSTER SLOTSSLAVEOF NO ONE ", slot,
                                 " and PKCLUSTER DELSLOTS ", slot,
                                 " there, abort and begin anew; it is copied again"));
    }
    const PikaSlot& ours = from->at(slot);
    if (link_up(theirs) && binlog_lag(ours.at, theirs.at) <= kSettledLagBytes) settled.add(slot);
  }
  return settled;
}

Result<SlotSet> settled_redis_slots(MoveContext& context, const SlotSet& slots) {
  const auto from = read_facts(*context.old_master);
  if (!from) return from.status();
  const auto to = read_facts(*context.new_master);
  if (!to) return to.status();
  if (!follows(*to, context.plan.old_side.master)) {
    return Status::refused(cat(context.new_master->label(), " does not follow ",
                               context.plan.old_side.master.text(),
                               " any more; abort and begin anew"));
  }
  if (to->kind == ServerKind::kPika) {
    // What is queued there for applying is not seen; the shim tries that before each attempt.
    return to->link_up && pika_lag(*from, *to) <= kSettledLagBytes ? slots : SlotSet();
  }
  const int64_t lag = info_number(from->info, "master_repl_offset", 0) -
                      info_number(to->info, "slave_repl_offset", 0);
  return to->link_up && lag <= kSettledLagBytes ? slots : SlotSet();
}

// What the new node says about its copy from the old master: bytes so far and how fast.
std::string node_copy_text(MoveContext& context, int64_t* bytes) {
  const auto facts = read_facts(*context.new_master);
  if (!facts) return {};
  const std::string master = cat("master=", context.plan.old_side.master.text());
  for (const auto& [name, value] : facts->info) {
    if (!name.starts_with("slotferry_link")) continue;
    const auto words = split(value, ',');
    if (words.empty() || words[0] != master) continue;
    InfoMap numbers;
    for (const std::string_view word : words) {
      const size_t equals = word.find('=');
      if (equals != std::string_view::npos)
        numbers.emplace(word.substr(0, equals), word.substr(equals + 1));
    }
    *bytes = info_number(numbers, "copied_bytes", 0);
    return cat(human_bytes(*bytes), ", ", human_bytes(info_number(numbers, "copy_rate", 0)), "/s");
  }
  return {};
}

// Keys copied so far, for people; what counts is settled_slots().
std::string copied_text(MoveContext& context, const SlotSet& slots, int64_t* done, int64_t* total,
                        int64_t* bytes) {
  if (context.is_node()) {
    const auto from = read_key_counts(*context.old_master);
    const auto to = read_key_counts(*context.new_master);
    if (!from || !to) return {};
    *total = keys_in(*from, slots);
    *done = std::min(keys_in(*to, slots), *total);
    return node_copy_text(context, bytes);
  }
  // Pika's DBSIZE and SLOTSINFO are what somebody last counted.
  if (context.is_pika() || context.is_pika_sharding()) return {};
  const auto from = context.old_master->call({"DBSIZE"});
  const auto to = read_facts(*context.new_master);
  if (!from || !to) return {};
  *total = from->integer;
  const int64_t read = info_number(to->info, "master_sync_read_bytes", -1);
  const int64_t all = info_number(to->info, "master_sync_total_bytes", 0);
  if (to->link_up) *done = *total;
  if (read > 0 && all > 0) *done = std::min(*total, *total * read / all);
  *bytes = std::max(*bytes, read);
  return read > 0 ? human_bytes(read) : std::string();
}

}  // namespace

namespace {

Result<std::string> follow_pika(MoveContext& context, Step step, Peer& server, const PlanSide& side,
                                const SlotSet& slots) {
  const std::string name(step_text(step));
  return follow_pika_slots(context, name, server, side.master, slots, [&] {
    return set_master_password(context, name, server, side.password);
  });
}

}  // namespace

Result<std::string> follow(MoveContext& context) {
  const auto slots = unswitched(context);
  if (!slots) return slots.status();
  if (slots->empty()) return std::string("every slot is switched already");
  if (context.is_node()) return follow_slots(context, *slots);
  if (context.is_pika_sharding()) {
    return follow_pika(context, Step::kFollow, *context.new_master, context.plan.old_side, *slots);
  }
  if (context.plan.new_side.kind == ServerKind::kRedis) {
    const Status hidden = hide_from_sentinels(context);
    if (!hidden) return hidden;
  }
  return follow_whole(context, step_text(Step::kFollow), *context.new_master,
                      context.plan.old_side.master, context.plan.old_side.password);
}

Result<std::string> follow_replicas(MoveContext& context) {
  if (context.is_pika() || context.is_pika_sharding()) {
    return std::string("after the switch: a Pika with slaves could not be taken back");
  }
  return attach_replicas(context, Step::kFollowReplicas);
}

Status show_to_sentinels(MoveContext& context, std::string_view step) {
  const auto before = context.journal.fact(kAnnouncedPort);
  if (!before || before->empty()) return Status::ok();
  Peer& server = *context.new_master;
  const auto known = read_config(server, kAnnouncedPort);
  if (!known) return known.status();
  const char* name = known->has_value() ? kAnnouncedPort : kAnnouncedPortBefore5;
  const Status shown =
      context.effect(step, cat("CONFIG SET ", name, " ", *before, " on ", server.label()), [&] {
        const Status set = server.expect({"CONFIG", "SET", name, *before}).status();
        const auto facts = read_facts(server);
        if (!set || !facts) return set ? facts.status() : set;
        // Its file was written when it left replication, with the other port in it.
        const auto file = facts->info.find("config_file");
        const bool has_file = file != facts->info.end() && !file->second.empty();
        return has_file ? server.expect({"CONFIG", "REWRITE"}).status() : set;
      });
  return shown ? context.journal.set_fact(kAnnouncedPort, "") : shown;
}

Result<std::string> attach_replicas(MoveContext& context, Step step) {
  const PlanSide& side = context.plan.new_side;
  int replicas = 0;
  for (const HostPort& server : side.servers) {
    if (server == side.master) continue;
    const auto peer = open_peer(context.plan, false, server);
    const auto result =
        context.is_pika_sharding()
            ? follow_pika(context, step, *peer, side, context.plan.slots)
            : follow_whole(context, step_text(step), *peer, side.master, side.password);
    if (!result) return result.status();
    ++replicas;
  }
  return cat(replicas, " replicas of ", side.master.text());
}

Result<SlotSet> settled_slots(MoveContext& context, const SlotSet& slots) {
  if (context.is_pika_sharding()) return settled_pika_slots(context, slots);
  return context.is_node() ? settled_node_slots(context, slots)
                           : settled_redis_slots(context, slots);
}

Result<std::string> wait_copied(MoveContext& context) {
  const auto slots = unswitched(context);
  if (!slots) return slots.status();
  if (slots->empty()) return std::string("every slot is switched already");
  int64_t bytes = 0;
  for (int steady = 0; steady < kSteadyPolls;) {
    const auto settled = settled_slots(context, *slots);
    if (!settled) return settled.status();
    steady = *settled == *slots ? steady + 1 : 0;
    Progress progress{.what = "copied", .unit = "keys", .detail = {}};
    progress.detail = copied_text(context, *slots, &progress.done, &progress.total, &bytes);
    if (*settled != *slots && progress.done >= progress.total)
      progress.done = std::max<int64_t>(0, progress.total - 1);
    if (!progress.detail.empty()) progress.detail += ", ";
    progress.detail += cat(settled->size(), "/", slots->size(), " slots in sync");
    context.out.progress(progress);
    if (steady < kSteadyPolls) {
      const Status waited = context.wait_ms(kPollMs);
      if (!waited) return waited;
    }
  }
  const Status kept = context.journal.set_fact("copied-bytes", std::to_string(bytes));
  if (!kept) return kept;
  return cat(slots->size(), " slots in sync",
             bytes > 0 ? cat(", ", human_bytes(bytes), " copied") : "");
}

}  // namespace sf
