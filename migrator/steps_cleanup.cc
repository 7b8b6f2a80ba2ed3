#include <algorithm>

#include "migrator/steps_cleanup.h"

#include "common/slots/slot_hash.h"
#include "common/slots/slot_tag.h"
#include "migrator/proxy_readback.h"
#include "migrator/server_facts.h"
#include "migrator/steps.h"

namespace sf {
namespace {

constexpr int kSlotsPerDelete = 8;
constexpr int kKeysPerPage = 1000;
constexpr const char* kMinReplicas = "min-replicas-to-write";
constexpr const char* kMinReplicasBefore5 = "min-slaves-to-write";
constexpr const char* kNoGroupHas = "1000000";  // as the shim sets it (redis_driver)

std::string own_step(Step step) {
  return std::string(step_text(step));
}

// The guards of I11 that do not depend on the kind of server, all asked now.
Status guard_outside(MoveContext& context) {
  const MovePlan& plan = context.plan;
  const Journal& journal = context.journal;
  const std::string no = "nothing was deleted: ";
  if (!journal.is_done(step_text(Step::kReadBackTarget))) {
    return Status::refused(no + "the slots are not handed back yet; finish slotferry run first");
  }
  if (journal.fact("verify").value_or("never run") != "passed") {
    return Status::refused(cat(no, "the two sides were not found equal (verify: ",
                               journal.fact("verify").value_or("never run"),
                               "); run slotferry verify"));
  }
  const int64_t back = journal.time_of(JournalEntry::Kind::kDone, step_text(Step::kReadBackTarget));
  const int64_t left = back + plan.soak_seconds * 1000 - context.clock.wall_ms();
  if (left > 0)
    return Status::refused(cat(no, "the soak time has ", (left + 999) / 1000, " s to go"));
  const auto topology = context.dashboard.topology();
  if (!topology) return topology.status();
  auto expected = expect_slots(plan.slots, plan.new_side.master.text());
  SlotSet stay = plan.attached_slots();
  stay.remove(plan.slots);
  expected.merge(expect_slots(stay, plan.old_side.master.text()));
  const auto found = read_back_proxies(context.dashboard, *topology, expected);
  if (!found) return found.status();
  if (!found->ok()) return Status::refused(no + found->text);
  if (journal.is_done(step_text(Step::kRemoveShim))) return Status::ok();
  const auto rows = context.shim.slots(plan.slots);
  if (!rows) return rows.status();
  for (const auto& [slot, row] : *rows) {
    if (row.state == "final" && row.owner == plan.new_side.master.text()) continue;
    return Status::refused(
        cat(no, "the shim has slot ", slot, " as ", row.state, " of ", row.owner));
  }
  return Status::ok();
}

std::string positions_text(const std::map<int, SlotPosition>& positions) {
  std::string text;
  for (const auto& [slot, row] : positions) text += cat(slot, "=", row.history, "/", row.seq, " ");
  return text;
}

// The new side owns the slots, and nobody can write them on the old one.
Result<std::map<int, SlotPosition>> guard_node(MoveContext& context) {
  const auto theirs = read_positions(*context.new_master, context.plan.slots);
  if (!theirs) return theirs.status();
  auto ours = read_positions(*context.old_master, context.plan.slots);
  if (!ours) return ours.status();
  for (const auto& [slot, row] : *theirs) {
    if (row.is_slave) {
      return Status::refused(cat("nothing was deleted: slot ", slot, " follows another server on ",
                                 context.new_master->label(), ", so a delete could reach it"));
    }
    const SlotPosition& old_row = ours->at(slot);
    if (old_row.fence != "permanent") {
      return Status::refused(cat("nothing was deleted: slot ", slot, " on ",
                                 context.old_master->label(), " is not fenced for good (fence ",
                                 old_row.fence, "), so clients may have written there"));
    }
  }
  return ours;
}

Result<std::string> end_node_link(MoveContext& context) {
  auto ours = guard_node(context);
  if (!ours) return ours.status();
  SlotSet following;
  for (const auto& [slot, row] : *ours) {
    if (row.is_slave) following.add(slot);
  }
  if (!following.empty()) {
    const Status ended =
        context.effect(own_step(Step::kEndReverse),
                       cat("SLOTSSLAVEOF NO ONE ", following.text(), " on the old side"), [&] {
                         return context.old_master
                             ->expect({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", following.text()})
                             .status();
                       });
    if (!ended) return ended;
    ours = guard_node(context);
    if (!ours) return ours.status();
  }
  for (const auto& [slot, row] : *ours) {
    if (row.is_slave)
      return Status::unavailable(cat("slot ", slot, " still follows on the old side"));
  }
  const Status kept = context.journal.set_fact("old-positions", positions_text(*ours));
  if (!kept) return kept;
  return cat(context.plan.slots.size(), " slots of the old side follow nobody and stay fenced");
}

Status guard_redis(MoveContext& context) {
  for (Peer* peer : {context.old_master.get(), context.new_master.get()}) {
    const auto facts = read_facts(*peer);
    if (!facts) return facts.status();
    if (facts->is_slave) {
      return Status::refused(cat("nothing was deleted: ", peer->label(), " is a replica of ",
                                 facts->master ? facts->master->text() : "another server",
                                 ", so a delete could reach the other side"));
    }
  }
  return Status::ok();
}

Result<std::string> delete_node_slots(MoveContext& context) {
  const auto ours = guard_node(context);
  if (!ours) return ours.status();
  const auto counts = read_key_counts(*context.old_master);
  if (!counts) return counts.status();
  const int64_t before = keys_in(*counts, context.plan.slots);
  // A delete begun before a crash has moved the positions; then the journal's intent vouches for
  // them.
  const bool begun =
      context.journal.time_of(JournalEntry::Kind::kIntent, "effect cleanup.delete") != 0;
  if (!begun && context.journal.fact("old-positions") != positions_text(*ours)) {
    return Status::refused(
        "nothing was deleted: the old side was written since the switch (its positions moved); "
        "compare them with slotferry status and the journal");
  }
  const std::vector<int> slots = context.plan.slots.to_vector();
  for (size_t at = 0; at < slots.size(); at += kSlotsPerDelete) {
    SlotSet batch;
    Argv command = {"SLOTSDEL"};
    for (size_t i = at; i < std::min(slots.size(), at + kSlotsPerDelete); ++i) {
      batch.add(slots[i]);
      command.push_back(std::to_string(slots[i]));
    }
    const Status deleted = context.effect(
        own_step(Step::kDeleteCopies), cat("SLOTSDEL ", batch.text(), " on the old side"),
        [&] { return context.old_master->expect(command).status(); });
    if (!deleted) return deleted;
    const auto done = static_cast<int64_t>(std::min(slots.size(), at + kSlotsPerDelete));
    context.out.progress({"deleted", done, static_cast<int64_t>(slots.size()), "slots", {}});
    if (context.stop.raised()) return Status::refused("stopped by the operator");
  }
  const auto after = read_key_counts(*context.old_master);
  if (!after) return after.status();
  const int64_t left = keys_in(*after, context.plan.slots);
  if (left != 0) return Status::unavailable(cat(left, " keys are left in the old copy"));
  return cat(before, " keys of the old copy deleted");
}

// Deletes the keys of `slots` in the selected database of one Redis server, page by page.
Status delete_keys(MoveContext& context, Peer& peer, const SlotSet& slots, int64_t* deleted) {
  std::string word = "UNLINK";
  std::string cursor = "0";
  do {
    const auto page = peer.expect({"SCAN", cursor, "COUNT", std::to_string(kKeysPerPage)});
    if (!page) return page.status();
    if (page->items.size() != 2) return Status::corrupt(cat(peer.label(), " answers SCAN oddly"));
    cursor = page->items[0].word();
    Argv unlink = {word};
    for (const Reply& key : page->items[1].items) {
      if (slots.contains(slot_of(key.text))) unlink.push_back(key.text);
    }
    if (unlink.size() > 1) {
      auto reply = peer.call(unlink);
      if (reply && reply->is_error() && reply->text.find("unknown") != std::string::npos) {
        unlink[0] = word = "DEL";  // UNLINK came with Redis 4
        reply = peer.call(unlink);
      }
      if (!reply) return reply.status();
      if (reply->is_error()) return Status::refused(cat(peer.label(), ": ", reply->text));
      *deleted += reply->integer;
      context.out.note(cat(*deleted, " keys deleted on ", peer.label()));
    }
    if (context.stop.raised()) return Status::refused("stopped by the operator");
  } while (cursor != "0");
  return Status::ok();
}

Status delete_everywhere(MoveContext& context, bool old_side, const SlotSet& slots,
                         int64_t* deleted) {
  Peer& master = old_side ? *context.old_master : *context.new_master;
  const auto databases = databases_of(master, context.plan.old_side.kind);
  if (!databases) return databases.status();
  for (const int database : *databases) {
    const std::string number = std::to_string(database);
    const auto peer = open_peer(context.plan, old_side, master.address(), {{"SELECT", number}});
    const Status done = context.effect(
        own_step(Step::kDeleteCopies),
        cat("delete keys of slots ", slots.text(), " in db", number, " of ", peer->label()),
        [&] { return delete_keys(context, *peer, slots, deleted); });
    if (!done) return done;
  }
  return Status::ok();
}

// Where no slot stays, the shim closed the old Redis for writes at the switch, and a delete is one.
// The setting by which it is closed; "" if it is not.
Result<std::string> closed_by(MoveContext& context) {
  const bool redis = context.plan.old_side.kind == ServerKind::kRedis;
  if (!redis || !context.plan.stay.empty()) return std::string();
  for (const char* name : {kMinReplicas, kMinReplicasBefore5}) {
    const auto value = read_config(*context.old_master, name);
    if (!value) return value.status();
    if (value->has_value()) return std::string(**value == kNoGroupHas ? name : "");
  }
  return std::string();
}

Status set_old_side(MoveContext& context, const std::string& name, const char* value) {
  if (name.empty()) return Status::ok();
  Peer& server = *context.old_master;
  return context.effect(own_step(Step::kDeleteCopies),
                        cat("CONFIG SET ", name, " ", value, " on ", server.label()), [&] {
                          return server.expect({"CONFIG", "SET", name, value}).status();
                        });
}

// The key by which the shim proved that everything had been applied (accounted_redis_driver); on
// the old side nothing was written after it, so there it still is.
Status delete_fence_key(MoveContext& context) {
  if (context.plan.old_side.kind != ServerKind::kRedis) return Status::ok();
  const std::string key = cat("{__slotferry}__slotferry:fence:", context.plan.id);
  return context.old_master->expect({"DEL", key}).status();
}

Result<std::string> delete_redis_keys(MoveContext& context) {
  int64_t on_old = 0;
  const auto closed = closed_by(context);
  if (!closed) return closed.status();
  Status status = set_old_side(context, *closed, "0");
  if (status) status = delete_everywhere(context, true, context.plan.slots, &on_old);
  if (status) status = delete_fence_key(context);
  const Status again = set_old_side(context, *closed, kNoGroupHas);
  if (status) status = again;
  if (!status) return status;
  int64_t on_new = 0;
  if (!context.plan.stay.empty())
    status = delete_everywhere(context, false, context.plan.stay, &on_new);
  if (!status) return status;
  return cat(on_old, " keys of moved slots deleted on the old side, ", on_new,
             " of the others on the new one");
}

// The keys by which servers that keep no record of ownership say whose the slots are (named in
// proxy_shim/control: redis_driver, pika_driver).
std::vector<std::string> marker_keys(const MovePlan& plan) {
  if (plan.new_side.kind == ServerKind::kRedis) return {cat("{__slotferry}:owner:", plan.id)};
  SlotSet marked;
  if (plan.new_side.kind == ServerKind::kPika) marked = SlotSet::of(plan.slots.first());
  if (plan.new_side.kind == ServerKind::kPikaSharding) marked = plan.slots;
  std::vector<std::string> keys;
  marked.for_each([&](int slot) {
    keys.push_back(cat("{", tag_of_slot(slot, kSlotCount), "}__slotferry:owner:", plan.id));
  });
  return keys;
}

// A shim that starts looks for them, so they go last: no proxy is mapped to the shim any more, and
// it has let go of every slot for good.
Status remove_markers(MoveContext& context) {
  const std::vector<std::string> keys = marker_keys(context.plan);
  if (keys.empty()) return Status::ok();
  if (!context.journal.is_done(step_text(Step::kReadBackTarget))) return Status::ok();
  // One that was stopped already says nothing; the slots are handed back all the same.
  const auto rows = context.shim.slots(context.plan.slots);
  for (const auto& [slot, row] : rows ? *rows : std::map<int, ShimSlot>()) {
    if (row.state != "final") return Status::ok();
  }
  Peer& owner = *context.new_master;
  const std::string what = keys.size() == 1 ? keys[0] : cat(keys.size(), " keys like ", keys[0]);
  const auto facts = read_facts(owner);
  if (!facts) return facts.status();
  if (facts->is_slave) {
    context.out.note(cat(owner.label(), " is a replica by now: ", what,
                         " stay in its group; delete them on the master when the shim is stopped"));
    return Status::ok();
  }
  return context.effect(own_step(Step::kRemoveShim), cat("DEL ", what, " on ", owner.label()), [&] {
    std::vector<Argv> requests;
    for (const std::string& key : keys) requests.push_back({"DEL", key});
    const auto replies = owner.pipeline(requests);
    if (!replies) return replies.status();
    for (const Reply& reply : *replies) {
      if (reply.is_error()) return Status::refused(cat(owner.label(), ": ", reply.text));
    }
    return Status::ok();
  });
}

}  // namespace

Result<std::string> end_reverse(MoveContext& context) {
  Status status = guard_outside(context);
  if (!status) return status;
  if (context.is_node()) return end_node_link(context);
  if (context.is_pika_sharding()) return guard_pika_slots(context);
  status = guard_redis(context);
  if (!status) return status;
  return std::string("old and new side are masters of their own");
}

Result<std::string> delete_copies(MoveContext& context) {
  Status status = guard_outside(context);
  if (!status) return status;
  if (context.is_node()) return delete_node_slots(context);
  if (context.is_pika_sharding()) return delete_pika_slots(context, own_step(Step::kDeleteCopies));
  status = guard_redis(context);
  if (!status) return status;
  return delete_redis_keys(context);
}

Result<std::string> remove_shim(MoveContext& context) {
  const int group = context.plan.shim_group;
  const std::string address = context.plan.shim.address.text();
  const std::string step = own_step(Step::kRemoveShim);
  auto topology = context.dashboard.topology();
  if (!topology) return topology.status();
  const SlotSet used = topology->slots_of(group);
  if (!used.empty()) {
    return Status::refused(cat("slots ", used.text(), " are still mapped to the shim's group ",
                               group, "; they must be assigned to a group of servers first"));
  }
  const CodisGroup* row = topology->group(group);
  if (row == nullptr) {
    const Status forgotten = remove_markers(context);
    if (!forgotten) return forgotten;
    return cat("group ", group, " is gone");
  }
  for (const std::string& server : row->servers) {
    if (server != address)
      return Status::refused(cat("group ", group, " holds ", server, " too; not removed"));
  }
  if (!row->servers.empty()) {
    const Status removed =
        context.effect(step, cat("remove ", address, " from group ", group),
                       [&] { return context.dashboard.remove_server(group, address); });
    if (!removed) return removed;
  }
  const Status removed = context.effect(step, cat("remove group ", group),
                                        [&] { return context.dashboard.remove_group(group); });
  if (!removed) return removed;
  const Status forgotten = remove_markers(context);
  if (!forgotten) return forgotten;
  return cat("group ", group, " removed; slotferry-shim may be stopped");
}

}  // namespace sf
