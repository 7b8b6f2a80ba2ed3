#include "tests/support/codis/slot_json.h"

namespace sf::codis {

Json to_json(const SlotFill& slot) {
  Json out = {{"id", slot.id}};
  if (slot.locked) out["locked"] = true;
  if (!slot.backend_addr.empty()) out["backend_addr"] = slot.backend_addr;
  if (slot.backend_group != 0) out["backend_addr_group_id"] = slot.backend_group;
  if (!slot.migrate_from.empty()) out["migrate_from"] = slot.migrate_from;
  if (slot.migrate_from_group != 0) out["migrate_from_group_id"] = slot.migrate_from_group;
  if (slot.forward_method != 0) out["forward_method"] = slot.forward_method;
  if (!slot.replica_groups.empty()) out["replica_groups"] = slot.replica_groups;
  return out;
}

std::vector<SlotFill> fills_from_text(const std::string& body) {
  std::vector<SlotFill> fills;
  try {
    for (const Json& one : Json::parse(body)) {
      SlotFill fill;
      fill.id = one.value("id", 0);
      fill.locked = one.value("locked", false);
      fill.backend_addr = one.value("backend_addr", "");
      fill.backend_group = one.value("backend_addr_group_id", 0);
      fill.migrate_from = one.value("migrate_from", "");
      fill.migrate_from_group = one.value("migrate_from_group_id", 0);
      fill.forward_method = one.value("forward_method", 0);
      if (one.contains("replica_groups") && !one["replica_groups"].is_null()) {
        fill.replica_groups = one["replica_groups"].get<decltype(fill.replica_groups)>();
      }
      fills.push_back(std::move(fill));
    }
  } catch (const std::exception&) {
    fills.clear();
  }
  return fills;
}

}  // namespace sf::codis
