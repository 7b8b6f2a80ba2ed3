#include "migrator/proxy_readback.h"
#include "migrator/steps.h"

namespace sf {
namespace {

constexpr int kReadBackTries = 60;  // half a second apart
constexpr int kReadBackPollMs = 500;
constexpr int kAssignAgainEvery = 6;  // tries: what a proxy missed is sent once more (trap 5)

SlotSet in_groups(const CodisTopology& topology, const SlotSet& slots,
                  const std::set<int>& groups) {
  SlotSet found;
  slots.for_each([&](int slot) {
    if (groups.contains(topology.slots[static_cast<size_t>(slot)].group)) found.add(slot);
  });
  return found;
}

Status refuse_strays(const CodisTopology& topology, const SlotSet& slots,
                     const std::set<int>& allowed) {
  for (const int slot : slots.to_vector()) {
    const CodisSlot& row = topology.slots[static_cast<size_t>(slot)];
    if (!row.action_state.empty()) {
      return Status::refused(cat("slot ", slot, " is in a migration of the dashboard (",
                                 row.action_state, " to group ", row.action_target,
                                 "); let it end or remove it first"));
    }
    if (!allowed.contains(row.group)) {
      return Status::refused(cat("slot ", slot, " is in group ", row.group,
                                 " now, which is no group of this plan; make a new plan"));
    }
  }
  return Status::ok();
}

std::set<int> plan_groups(const MovePlan& plan) {
  return {plan.source_group, plan.target_group, plan.shim_group};
}

}  // namespace

Result<std::string> make_shim_group(MoveContext& context) {
  const std::string address = context.plan.shim.address.text();
  const int group = context.plan.shim_group;
  const std::string step(step_text(Step::kMakeShimGroup));
  auto topology = context.dashboard.topology();
  if (!topology) return topology.status();
  if (topology->group(group) == nullptr) {
    const Status created = context.effect(step, cat("create group ", group),
                                          [&] { return context.dashboard.create_group(group); });
    if (!created) return created;
    topology = context.dashboard.topology();
    if (!topology) return topology.status();
  }
  const CodisGroup* holder = topology->group_with(address);
  if (holder != nullptr && holder->id != group) {
    return Status::refused(cat("the shim's address ", address, " is in group ", holder->id,
                               " of the dashboard, not in ", group, "; remove it there"));
  }
  const CodisGroup* row = topology->group(group);
  if (row == nullptr)
    return Status::unavailable(cat("the dashboard does not show group ", group, " yet"));
  if (holder == nullptr && !row->servers.empty()) {
    return Status::refused(cat("group ", group, " holds ", row->servers.front(),
                               "; it must hold the shim alone, choose another --shim-group"));
  }
  if (holder != nullptr && row->servers.size() > 1) {
    return Status::refused(
        cat("group ", group, " holds other servers beside the shim; remove them"));
  }
  if (holder != nullptr) return cat("group ", group, " holds ", address);
  const Status added = context.effect(step, cat("add ", address, " to group ", group),
                                      [&] { return context.dashboard.add_server(group, address); });
  if (!added) return added;
  return cat("group ", group, " holds ", address);
}

Status assign_slots(MoveContext& context, std::string_view step, const SlotSet& slots,
                    const std::set<int>& from, int to) {
  const auto topology = context.dashboard.topology();
  if (!topology) return topology.status();
  std::set<int> allowed = from;
  allowed.insert(to);
  const Status strays = refuse_strays(*topology, slots, allowed);
  if (!strays) return strays;
  const SlotSet todo = in_groups(*topology, slots, from);
  if (todo.empty()) return Status::ok();
  return context.effect(step, cat("slots-assign ", todo.text(), " to group ", to),
                        [&] { return context.dashboard.assign(todo, to); });
}

Result<std::string> assign_to_shim(MoveContext& context) {
  const SlotSet slots = context.plan.attached_slots();
  const Status assigned = assign_slots(context, step_text(Step::kAssignToShim), slots,
                                       {context.plan.source_group}, context.plan.shim_group);
  // Refused by one proxy, yet done by others: the read back that follows finds and mends it.
  if (!assigned && assigned.code() != Code::kRefused) return assigned;
  const auto topology = context.dashboard.topology();
  if (!topology) return topology.status();
  if (!topology->slots_of(context.plan.shim_group).contains(slots)) {
    if (!assigned) return assigned;
    return Status::unavailable("the dashboard does not show the slots in the shim's group yet");
  }
  return cat(slots.size(), " slots mapped to group ", context.plan.shim_group);
}

Result<std::string> read_back_until(MoveContext& context, std::string_view step,
                                    const std::map<int, std::string>& expected,
                                    const std::map<int, int>& groups) {
  std::string text;
  for (int attempt = 1; attempt <= kReadBackTries; ++attempt) {
    const auto topology = context.dashboard.topology();
    if (!topology) return topology.status();
    const auto found = read_back_proxies(context.dashboard, *topology, expected);
    if (!found) return found.status();
    if (found->ok()) return cat(expected.size(), " slots on ", found->proxies, " proxies");
    text = found->text;
    if (attempt % kAssignAgainEvery == 0) {
      // An assign over a migration that somebody began meanwhile would drop it, and the keys that
      // are still at its source with it (trap 6).
      const Status strays = refuse_strays(*topology, found->wrong, plan_groups(context.plan));
      if (!strays) return strays;
      std::map<int, SlotSet> again;
      for (const auto& [slot, group] : groups) {
        if (found->wrong.contains(slot)) again[group].add(slot);
      }
      for (const auto& [group, slots] : again) {
        // The answer is not looked at: the next read back is what counts.
        (void)context.effect(
            step, cat("slots-assign once more ", slots.text(), " to group ", group),
            [&, to = group, &these = slots] { return context.dashboard.assign(these, to); });
      }
    }
    const Status waited = context.wait_ms(kReadBackPollMs);
    if (!waited) return waited;
  }
  return Status::unavailable(text);
}

Result<std::string> read_back_shim(MoveContext& context) {
  const SlotSet slots = context.plan.attached_slots();
  std::map<int, int> groups;
  slots.for_each([&](int slot) { groups[slot] = context.plan.shim_group; });
  return read_back_until(context, step_text(Step::kReadBackShim),
                         expect_slots(slots, context.plan.shim.address.text()), groups);
}

}  // namespace sf
