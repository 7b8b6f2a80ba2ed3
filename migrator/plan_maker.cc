#include "migrator/plan_maker.h"

#include <algorithm>
#include <map>

#include "migrator/codis_dashboard.h"
#include "migrator/server_facts.h"

namespace sf {
namespace {

Result<int> find_source_group(const CodisTopology& topology, const SlotSet& slots) {
  std::map<int, SlotSet> by_group;
  slots.for_each(
      [&](int slot) { by_group[topology.slots[static_cast<size_t>(slot)].group].add(slot); });
  if (by_group.size() == 1 && by_group.begin()->first != 0) return by_group.begin()->first;
  std::string text;
  for (const auto& [group, part] : by_group) {
    text += cat(text.empty() ? "" : ", ", part.text(),
                group == 0 ? " in none" : cat(" in group ", group));
  }
  return Status::invalid(
      cat("the slots must all be of one group, but ", text, "; make a plan for each"));
}

Result<PlanSide> read_group(const CodisTopology& topology, int id, const char* which) {
  const CodisGroup* group = topology.group(id);
  if (group == nullptr) {
    return Status::not_found(cat(
        which, " group ", id, " does not exist in the dashboard; create it and add its servers"));
  }
  if (group->servers.empty()) {
    return Status::invalid(cat(which, " group ", id, " has no servers; add them in the dashboard"));
  }
  PlanSide side;
  for (const std::string& text : group->servers) {
    const auto server = parse_host_port(text);
    if (!server) return Status::invalid(cat(which, " group ", id, ": ", text, " is no host:port"));
    side.servers.push_back(*server);
  }
  side.master = side.servers.front();
  return side;
}

Status find_kind(PlanSide& side, const char* name, const std::string& flag) {
  PeerOptions options;
  options.name = name;
  options.address = side.master;
  options.password = side.password;
  options.password_key = flag;
  Peer peer(std::move(options));
  const auto facts = read_facts(peer);
  if (!facts) return facts.status();
  side.kind = facts->kind;
  return Status::ok();
}

std::string default_id(const MovePlan& plan) {
  std::string slots = plan.slots.text();
  std::replace(slots.begin(), slots.end(), ',', '.');
  return cat("g", plan.source_group, "-g", plan.target_group, "-", slots).substr(0, 64);
}

}  // namespace

Result<MovePlan> make_plan(const PlanRequest& request) {
  CodisDashboard dashboard(request.dashboard, request.product, request.product_auth);
  const auto topology = dashboard.topology();
  if (!topology) return topology.status();
  const auto source = find_source_group(*topology, request.slots);
  if (!source) return source.status();
  if (*source == request.target_group) {
    return Status::invalid(cat("slots ", request.slots.text(), " are in group ", *source,
                               " already; choose another --to"));
  }
  MovePlan plan;
  plan.dashboard = request.dashboard;
  plan.product = request.product;
  plan.product_auth = request.product_auth;
  plan.slots = request.slots;
  plan.source_group = *source;
  plan.target_group = request.target_group;
  plan.shim_group = request.shim_group;
  plan.stay = topology->slots_of(*source);
  plan.stay.remove(request.slots);
  plan.shim = request.shim;
  plan.max_pause_ms = request.max_pause_ms;
  plan.hold_share_percent = request.hold_share_percent;
  plan.soak_seconds = request.soak_seconds;
  plan.ask = request.ask;
  plan.verify = request.verify;
  plan.cleanup = request.cleanup;
  auto old_side = read_group(*topology, *source, "source");
  if (!old_side) return old_side.status();
  auto new_side = read_group(*topology, request.target_group, "target");
  if (!new_side) return new_side.status();
  plan.old_side = std::move(*old_side);
  plan.new_side = std::move(*new_side);
  plan.old_side.password =
      request.old_password.empty() ? request.product_auth : request.old_password;
  plan.new_side.password =
      request.new_password.empty() ? request.product_auth : request.new_password;
  Status status = find_kind(plan.old_side, "old master", "--old-password (or --product-auth)");
  if (status) status = find_kind(plan.new_side, "new master", "--new-password (or --product-auth)");
  if (!status) return status;
  const bool node = plan.old_side.kind == ServerKind::kNode;
  const bool by_slot = node || plan.old_side.kind == ServerKind::kPikaSharding;
  plan.unit = by_slot ? CutUnit::kSlot : CutUnit::kPlan;  // the others move as a whole
  plan.handback = node ? HandbackWay::kAssign : HandbackWay::kSlotAction;
  plan.id = request.id.empty() ? default_id(plan) : request.id;
  status = plan.check();
  if (!status) return status;
  return plan;
}

}  // namespace sf
