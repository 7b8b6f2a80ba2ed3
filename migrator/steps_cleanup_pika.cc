// Cleanup of a Pika in sharding mode: the moved slots' old copies go with PKCLUSTER DELSLOTS, on
// the old group's other servers first (a slot somebody follows cannot be deleted). Until then each
// old slot follows the new one, so nobody can write it; and what follows another cannot be its
// owner. So a slot is deleted only straight after it was seen to follow (docs/adr/0023).
#include <algorithm>

#include "migrator/pika_slots.h"
#include "migrator/steps_cleanup.h"

namespace sf {
namespace {

constexpr int kSlotsPerDelete = 8;

std::string leaving_fact(const Peer& server) {
  return cat("leaving ", server.address().text());
}

// Slots of this server whose link this run has ended itself, to delete them.
Result<SlotSet> ended_before(MoveContext& context, const Peer& server) {
  const auto fact = context.journal.fact(leaving_fact(server));
  if (!fact || fact->empty()) return SlotSet();
  return SlotSet::parse(*fact);
}

Status check_owner(MoveContext& context) {
  const auto rows = need_pika_slots(*context.new_master, context.plan.slots);
  if (!rows) return rows.status();
  for (const auto& [slot, row] : *rows) {
    if (row.is_master) continue;
    return Status::refused(cat("nothing was deleted: slot ", slot, " of ",
                               context.new_master->label(), " follows ", row.master.text(),
                               ", so it is not its owner"));
  }
  return Status::ok();
}

// The slots still held by a server of the old group, each seen to follow or ended by us.
Result<SlotSet> deletable(MoveContext& context, Peer& server, const SlotSet& slots) {
  const MovePlan& plan = context.plan;
  const auto rows = read_pika_slots(server, slots);
  if (!rows) return rows.status();
  const auto ended = ended_before(context, server);
  if (!ended) return ended.status();
  const bool master = server.address() == plan.old_side.master;
  SlotSet held;
  for (const auto& [slot, row] : *rows) {
    held.add(slot);
    if (row.is_master && ended->contains(slot)) continue;
    const bool follows_new = follows(row, plan.new_side.master);
    const bool follows_old = !master && follows(row, plan.old_side.master);
    // A link that is down may hide a restart in between, after which the slot was open.
    if (link_up(row) && (follows_new || follows_old)) continue;
    const std::string now = row.is_master ? std::string("follows nobody")
                                          : cat("follows ", row.master.text(), ", ", row.state);
    return Status::refused(
        cat("nothing was deleted: slot ", slot, " of ", server.label(), " ", now,
            ", so clients may have written there; make it follow (PKCLUSTER SLOTSSLAVEOF ",
            (master ? plan.new_side : plan.old_side).master.host, " ",
            (master ? plan.new_side : plan.old_side).master.port, " ", slot,
            ", without force), run slotferry verify, then cleanup again"));
  }
  return held;
}

Status delete_batch(MoveContext& context, std::string_view step, Peer& server,
                    const SlotSet& batch) {
  const std::string slots = batch.text();
  const Status noted = context.journal.set_fact(leaving_fact(server), slots);
  if (!noted) return noted;
  return context.effect(
      step, cat("SLOTSSLAVEOF NO ONE and DELSLOTS ", slots, " on ", server.label()),
      [&]() -> Status {
        // In one go, so that the slots are open for no longer than the server needs between them.
        const auto replies = server.pipeline(
            {{"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", slots}, {"PKCLUSTER", "DELSLOTS", slots}});
        if (!replies) return replies.status();
        for (const Reply& reply : *replies) {
          if (!reply.is_error()) continue;
          // A replica that has just left is listed for a moment more.
          return Status::unavailable(cat(server.label(), ": ", reply.text));
        }
        return Status::ok();
      });
}

Status delete_on(MoveContext& context, std::string_view step, Peer& server, int* deleted) {
  const auto held = deletable(context, server, context.plan.slots);
  if (!held) return held.status();
  const std::vector<int> slots = held->to_vector();
  for (size_t at = 0; at < slots.size(); at += kSlotsPerDelete) {
    SlotSet batch;
    const size_t end = std::min(slots.size(), at + kSlotsPerDelete);
    for (size_t i = at; i < end; ++i) batch.add(slots[i]);
    Status status = check_owner(context);
    if (!status) return status;
    const auto now = deletable(context, server, batch);
    if (!now) return now.status();
    status = delete_batch(context, step, server, batch);
    if (!status) return status;
    *deleted += batch.size();
    context.out.progress({"deleted", static_cast<int64_t>(end), static_cast<int64_t>(slots.size()),
                          "slots", server.address().text()});
    if (context.stop.raised()) return Status::refused("stopped by the operator");
  }
  const auto left = read_pika_slots(server, context.plan.slots);
  if (!left) return left.status();
  if (left->empty()) return context.journal.set_fact(leaving_fact(server), "");
  return Status::unavailable(cat(left->size(), " slots are left on ", server.label()));
}

// The old group's servers, its master last. None of them may be one of the new group's.
Result<std::vector<std::unique_ptr<Peer>>> old_servers(MoveContext& context) {
  const MovePlan& plan = context.plan;
  std::vector<HostPort> addresses;
  for (const HostPort& server : plan.old_side.servers) {
    if (server != plan.old_side.master) addresses.push_back(server);
  }
  addresses.push_back(plan.old_side.master);
  std::vector<std::unique_ptr<Peer>> servers;
  for (const HostPort& address : addresses) {
    const auto& theirs = plan.new_side.servers;
    if (std::find(theirs.begin(), theirs.end(), address) != theirs.end()) {
      return Status::refused(cat("nothing was deleted: ", address.text(),
                                 " is in both groups of the plan; take it out of old.servers"));
    }
    servers.push_back(open_peer(plan, true, address));
  }
  return servers;
}

}  // namespace

Result<std::string> guard_pika_slots(MoveContext& context) {
  const Status owner = check_owner(context);
  if (!owner) return owner;
  const auto servers = old_servers(context);
  if (!servers) return servers.status();
  for (const auto& server : *servers) {
    const auto held = deletable(context, *server, context.plan.slots);
    if (!held) return held.status();
  }
  return cat("the new master owns ", context.plan.slots.size(), " slots, ", servers->size(),
             " servers of the old group hold copies that follow");
}

Result<std::string> delete_pika_slots(MoveContext& context, std::string_view step) {
  const auto guarded = guard_pika_slots(context);
  if (!guarded) return guarded;
  const auto servers = old_servers(context);
  if (!servers) return servers.status();
  int deleted = 0;
  for (const auto& server : *servers) {
    const Status done = delete_on(context, step, *server, &deleted);
    if (!done) return done;
  }
  return cat(deleted, " slots of the old copy deleted on ", servers->size(), " servers");
}

}  // namespace sf
