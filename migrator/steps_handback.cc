#include <algorithm>

#include "migrator/pika_slots.h"
#include "migrator/proxy_readback.h"
#include "migrator/server_facts.h"
#include "migrator/steps.h"

namespace sf {
namespace {

constexpr int kActionPollMs = 250;
constexpr int kActionPolls = 4 * 60 * 10;  // ten minutes without one more slot

// The new group as the dashboard has it must be the plan's: its server 0 is where hand-back sends
// clients.
Status check_target_group(MoveContext& context) {
  const auto topology = context.dashboard.topology();
  if (!topology) return topology.status();
  const int target = context.plan.target_group;
  const CodisGroup* group = topology->group(target);
  if (group == nullptr || group->servers.empty()) {
    return Status::refused(cat("group ", target, " has no server in the dashboard; add ",
                               context.plan.new_side.master.text(), " to it"));
  }
  if (group->promoting)
    return Status::unavailable(cat("group ", target, " is being promoted; waiting"));
  if (group->servers.front() != context.plan.new_side.master.text()) {
    return Status::refused(cat("server 0 of group ", target, " is ", group->servers.front(),
                               ", but the slots live on ", context.plan.new_side.master.text(),
                               "; promote that one in the dashboard"));
  }
  return Status::ok();
}

Status check_pika_replica(MoveContext& context, Peer& peer) {
  const auto rows = need_pika_slots(peer, context.plan.slots);
  if (!rows) return rows.status();
  for (const auto& [slot, row] : *rows) {
    if (follows(row, context.plan.new_side.master) && link_up(row)) continue;
    return Status::unavailable(cat("slot ", slot, " of ", peer.label(), " is not in sync with ",
                                   context.plan.new_side.master.text(), " (",
                                   row.is_master ? "master" : row.state,
                                   "); mend it or take the server out of the group"));
  }
  return Status::ok();
}

// A replica of the new group may be read by proxies right after hand-back, so it must have the
// slots.
Status check_replica(MoveContext& context, const HostPort& server) {
  const auto peer = open_peer(context.plan, false, server);
  if (context.is_pika_sharding()) return check_pika_replica(context, *peer);
  const auto facts = read_facts(*peer);
  if (!facts) return facts.status();
  if (!follows(*facts, context.plan.new_side.master) || !facts->link_up) {
    return Status::unavailable(
        cat(peer->label(), " is not in sync with ", context.plan.new_side.master.text(), " (role ",
            facts->is_slave ? "slave" : "master", ", link ", facts->link_up ? "up" : "down",
            "); mend it or take it out of the group"));
  }
  return Status::ok();
}

// Replicas that were attached just now copy first.
Status wait_for_replicas(MoveContext& context) {
  for (const HostPort& server : context.plan.new_side.servers) {
    if (server == context.plan.new_side.master) continue;
    for (int poll = 0; poll < kActionPolls && !check_replica(context, server); ++poll) {
      const Status waited = context.wait_ms(kActionPollMs);
      if (!waited) return waited;
    }
  }
  return Status::ok();
}

Result<std::map<int, ShimSlot>> switched_rows(MoveContext& context) {
  auto rows = context.shim.slots(context.plan.slots);
  if (!rows) return rows.status();
  for (const auto& [slot, row] : *rows) {
    if (row.state != "new" && row.state != "final") {
      return Status::refused(
          cat("slot ", slot, " is ", row.state, ", not switched; run the cutover phase first"));
    }
    if (row.owner != context.plan.new_side.master.text()) {
      return Status::refused(cat("the shim has ", row.owner, " as owner of slot ", slot,
                                 ", the plan ", context.plan.new_side.master.text(),
                                 "; make a plan for the servers of today"));
    }
  }
  return rows;
}

// Queues a slot-action for each slot still in the shim's group and waits until the dashboard has
// run them.
Status hand_back_by_action(MoveContext& context) {
  const MovePlan& plan = context.plan;
  int best = -1;
  int idle = 0;
  while (idle < kActionPolls) {
    const auto topology = context.dashboard.topology();
    if (!topology) return topology.status();
    if (topology->actions_disabled) {
      return Status::refused(
          "slot actions are switched off in the dashboard; enable them and run again");
    }
    SlotSet queue;
    SlotSet there;
    for (const int slot : plan.slots.to_vector()) {
      const CodisSlot& row = topology->slots[static_cast<size_t>(slot)];
      const bool mine = row.action_state.empty() || row.action_target == plan.target_group;
      if (!mine || (row.group != plan.shim_group && row.group != plan.target_group)) {
        return Status::refused(cat("slot ", slot, " is in group ", row.group,
                                   " or on its way to another one; look at the dashboard"));
      }
      if (row.group == plan.target_group && row.action_state.empty()) there.add(slot);
      if (row.group == plan.shim_group && row.action_state.empty()) queue.add(slot);
    }
    context.out.progress(
        {"handed back", there.size(), plan.slots.size(), "slots", topology->action_progress});
    if (there.size() == plan.slots.size()) return Status::ok();
    if (!queue.empty()) {
      const Status queued = context.effect(
          step_text(Step::kHandBack),
          cat("slot-action ", queue.text(), " to group ", plan.target_group), [&] {
            for (const int slot : queue.to_vector()) {
              const Status created = context.dashboard.create_action(slot, plan.target_group);
              if (!created) return created;
            }
            return Status::ok();
          });
      if (!queued) return queued;
    }
    idle = there.size() > best ? 0 : idle + 1;
    best = std::max(best, there.size());
    const Status waited = context.wait_ms(kActionPollMs);
    if (!waited) return waited;
  }
  return Status::unavailable(
      "the dashboard does not carry the slot-actions out; look at its progress line");
}

}  // namespace

Result<std::string> gate_new_group(MoveContext& context) {
  const auto rows = switched_rows(context);
  if (!rows) return rows.status();
  const Status group = check_target_group(context);
  if (!group) return group;
  const Status shown = show_to_sentinels(context, step_text(Step::kGate));
  if (!shown) return shown;
  if (context.is_pika() || context.is_pika_sharding()) {
    const auto attached = attach_replicas(context, Step::kGate);
    if (!attached) return attached.status();
    const Status linked = wait_for_replicas(context);
    if (!linked) return linked;
  }
  for (const HostPort& server : context.plan.new_side.servers) {
    if (server == context.plan.new_side.master) continue;
    const Status replica = check_replica(context, server);
    if (!replica) return replica;
  }
  return cat("server 0 of group ", context.plan.target_group, " owns the slots, ",
             context.plan.new_side.servers.size() - 1, " replicas in sync");
}

Result<std::string> make_final(MoveContext& context) {
  const auto rows = switched_rows(context);
  if (!rows) return rows.status();
  SlotSet open;
  for (const auto& [slot, row] : *rows) {
    if (row.state == "new") open.add(slot);
  }
  if (!open.empty()) {
    const Status done = context.effect(step_text(Step::kFinal), cat("SHIM FINAL ", open.text()),
                                       [&] { return context.shim.finalize(open, context.lock); });
    if (!done) return done;
  }
  return cat(context.plan.slots.size(), " slots final");
}

Result<std::string> hand_back(MoveContext& context) {
  const MovePlan& plan = context.plan;
  const std::string step(step_text(Step::kHandBack));
  const auto rows = switched_rows(context);
  if (!rows) return rows.status();
  for (const auto& [slot, row] : *rows) {
    if (row.state != "final")
      return Status::refused(cat("slot ", slot, " is not final in the shim"));
  }
  Status status = check_target_group(context);
  if (!status) return status;
  if (plan.handback == HandbackWay::kSlotAction) {
    status = hand_back_by_action(context);
  } else {
    status = assign_slots(context, step, plan.slots, {plan.shim_group}, plan.target_group);
  }
  if (!status) return status;
  SlotSet stay = plan.attached_slots();
  stay.remove(plan.slots);
  if (!stay.empty()) {
    status = assign_slots(context, step, stay, {plan.shim_group}, plan.source_group);
    if (!status) return status;
  }
  return cat(plan.slots.size(), " slots to group ", plan.target_group,
             stay.empty() ? "" : cat(", ", stay.size(), " back to group ", plan.source_group));
}

Result<std::string> read_back_target(MoveContext& context) {
  const MovePlan& plan = context.plan;
  auto expected = expect_slots(plan.slots, plan.new_side.master.text());
  std::map<int, int> groups;
  plan.slots.for_each([&](int slot) { groups[slot] = plan.target_group; });
  SlotSet stay = plan.attached_slots();
  stay.remove(plan.slots);
  expected.merge(expect_slots(stay, plan.old_side.master.text()));
  stay.for_each([&](int slot) { groups[slot] = plan.source_group; });
  return read_back_until(context, step_text(Step::kReadBackTarget), expected, groups);
}

Result<std::string> soak(MoveContext& context) {
  const int64_t begun =
      context.journal.time_of(JournalEntry::Kind::kDone, step_text(Step::kReadBackTarget));
  const int64_t total_ms = context.plan.soak_seconds * 1000;
  while (true) {
    const int64_t passed = std::max<int64_t>(0, context.clock.wall_ms() - begun);
    context.out.progress(
        {"soaked", std::min(passed, total_ms) / 1000, context.plan.soak_seconds, "seconds", {}});
    if (passed >= total_ms) return cat(context.plan.soak_seconds, " s");
    const Status waited = context.wait_ms(std::min<int64_t>(500, total_ms - passed));
    if (!waited) return waited;
  }
}

}  // namespace sf
