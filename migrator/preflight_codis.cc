#include "migrator/move_context.h"
#include "migrator/preflight_checks.h"
#include "migrator/proxy_readback.h"

namespace sf {

void Findings::ok(std::string name, std::string evidence) {
  checks.push_back({std::move(name), Check::Level::kOk, std::move(evidence), {}});
}
void Findings::warn(std::string name, std::string evidence, std::string way_out) {
  checks.push_back({std::move(name), Check::Level::kWarn, std::move(evidence), std::move(way_out)});
}
void Findings::stop(std::string name, std::string evidence, std::string way_out) {
  checks.push_back({std::move(name), Check::Level::kStop, std::move(evidence), std::move(way_out)});
}

std::optional<CodisTopology> check_dashboard(const MovePlan& plan, CodisDashboard& dashboard,
                                             Findings& findings) {
  const Status ping = dashboard.ping();
  if (!ping) {
    findings.stop("dashboard", ping);
    return std::nullopt;
  }
  auto topology = dashboard.topology();
  if (!topology) {
    findings.stop("dashboard", topology.status());
    return std::nullopt;
  }
  findings.ok("dashboard", cat(plan.dashboard.text(), ", product ", plan.product));
  return std::move(*topology);
}

void check_slots(const MovePlan& plan, const CodisTopology& topology, Findings& findings) {
  for (const int slot : plan.attached_slots().to_vector()) {
    const CodisSlot& row = topology.slots[static_cast<size_t>(slot)];
    if (!row.action_state.empty()) {
      return findings.stop(
          "slots",
          cat("slot ", slot, " is in a migration of the dashboard (", row.action_state, ")"),
          "let it end, or remove the action");
    }
    if (row.group != plan.source_group) {
      return findings.stop(
          "slots", cat("slot ", slot, " is in group ", row.group, ", not ", plan.source_group),
          "make a new plan; if this move was begun before, use the same --dir folder");
    }
  }
  SlotSet others = topology.slots_of(plan.source_group);
  others.remove(plan.slots);
  if (!(others == plan.stay)) {
    return findings.stop(
        "slots", cat("group ", plan.source_group, " owns other slots than when the plan was made"),
        "make a new plan");
  }
  findings.ok("slots", cat(plan.slots.text(), " (", plan.slots.size(), ") are in group ",
                           plan.source_group, ", none in migration"));
}

void check_groups(const MovePlan& plan, const CodisTopology& topology, Findings& findings) {
  const std::pair<int, const PlanSide*> sides[] = {{plan.source_group, &plan.old_side},
                                                   {plan.target_group, &plan.new_side}};
  for (const auto& [id, side] : sides) {
    const CodisGroup* group = topology.group(id);
    if (group == nullptr || group->servers.empty()) {
      return findings.stop("groups", cat("group ", id, " has no servers"),
                           "add them in the dashboard");
    }
    if (group->promoting)
      return findings.stop("groups", cat("group ", id, " is being promoted"), "wait for its end");
    if (group->servers.front() != side->master.text() ||
        group->servers.size() != side->servers.size()) {
      return findings.stop("groups",
                           cat("group ", id, " has other servers than the plan (server 0 is ",
                               group->servers.front(), ")"),
                           "make a new plan");
    }
  }
  const CodisGroup* holder = topology.group_with(plan.shim.address.text());
  const CodisGroup* group = topology.group(plan.shim_group);
  const bool elsewhere = holder != nullptr && holder->id != plan.shim_group;
  const bool shared = group != nullptr && group->servers.size() > (holder == group ? 1U : 0U);
  if (elsewhere || shared) {
    return findings.stop("groups",
                         elsewhere
                             ? cat("the shim's address is in group ", holder->id)
                             : cat("group ", plan.shim_group, " holds other servers than the shim"),
                         "remove it there, or plan another --shim-group");
  }
  if (!topology.slots_of(plan.shim_group).empty()) {
    return findings.stop("groups", cat("group ", plan.shim_group, " owns slots already"),
                         "plan another --shim-group");
  }
  findings.ok("groups",
              cat(plan.source_group, " -> ", plan.target_group, " by way of ", plan.shim_group));
}

void check_proxies(const MovePlan& plan, CodisDashboard& dashboard, const CodisTopology& topology,
                   Findings& findings) {
  const auto expected = expect_slots(plan.attached_slots(), plan.old_side.master.text());
  const auto found = read_back_proxies(dashboard, topology, expected);
  if (!found) return findings.stop("proxies", found.status());
  if (!found->ok()) {
    return findings.stop("proxies", found->text,
                         "resync the group in the dashboard until all proxies agree");
  }
  findings.ok("proxies",
              cat(found->proxies, " answer, all map the slots to ", plan.old_side.master.text()));
}

void check_shim(const MovePlan& plan, Findings& findings) {
  ShimAdmin shim(plan.shim);
  const auto status = shim.status();
  if (!status) return findings.stop("shim", status.status());
  const std::string their_plan = status_text(*status, "plan");
  if (their_plan != plan.id) {
    return findings.stop(
        "shim", cat("it serves plan ", their_plan.empty() ? "-" : their_plan, ", not ", plan.id),
        "start slotferry-shim with --plan and this plan file");
  }
  const auto rows = shim.slots(plan.slots);
  if (!rows) return findings.stop("shim", rows.status());
  for (const auto& [slot, row] : *rows) {
    if (row.state == "old") continue;
    return findings.stop(
        "shim", cat("slot ", slot, " is ", row.state, " there, not old"),
        "this move was begun before: use its --dir folder, or give the shim a fresh --dir");
  }
  PeerOptions options;
  options.name = "shim";
  options.address = plan.shim.address;
  options.password = plan.product_auth;
  options.password_key = "the shim's --requirepass or plan key product_auth";
  Peer data(std::move(options));
  const auto info = data.expect({"SLOTSINFO"});
  if (!info) return findings.stop("shim", info.status());
  const std::string owner = status_text(*status, "lock_owner");
  if (!owner.empty() && owner != "-") {
    findings.warn("lock", cat("the run lock is held by ", owner),
                  "go on with that run's --dir folder, or --take-lock");
  }
  findings.ok("shim", cat(plan.shim.address.text(), " serves plan ", plan.id, ", all slots old"));
}

}  // namespace sf
