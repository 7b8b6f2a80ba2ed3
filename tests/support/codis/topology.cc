#include "tests/support/codis/topology.h"

#include <algorithm>

#include "common/base/strings.h"

namespace sf::codis {
namespace {

constexpr int kGroupMax = 9999;

Status no_group(int id) {
  return Status::not_found(cat("group-[", id, "] doesn't exist"));
}

bool moves_slot(const std::string& state) {
  return state == "prepared" || state == "migrating" || state == "finished";
}

}  // namespace

int Group::find(const std::string& address) const {
  for (size_t i = 0; i < servers.size(); ++i) {
    if (servers[i].address == address) return static_cast<int>(i);
  }
  return -1;
}

Topology::Topology() {
  for (int i = 0; i < kSlots; ++i) slots[static_cast<size_t>(i)].id = i;
}

Result<Group*> Topology::group(int id) {
  const auto found = groups.find(id);
  if (found == groups.end()) return no_group(id);
  return &found->second;
}

Status Topology::check_group_usable(int id) const {
  const auto found = groups.find(id);
  if (found == groups.end()) return no_group(id);
  if (found->second.servers.empty()) return Status::refused(cat("group-[", id, "] is empty"));
  return Status::ok();
}

Status Topology::check_slot(int id) const {
  if (id >= 0 && id < kSlots) return Status::ok();
  return Status::not_found(cat("slot-[", id, "] doesn't exist"));
}

Group* Topology::group_of(const std::string& address) {
  for (auto& [id, group] : groups) {
    if (group.find(address) >= 0) return &group;
  }
  return nullptr;
}

std::string Topology::master_of(int group_id) const {
  const auto found = groups.find(group_id);
  return found == groups.end() ? "" : found->second.master();
}

bool Topology::uses_group(int id) const {
  return std::any_of(slots.begin(), slots.end(), [id](const SlotMapping& slot) {
    return slot.group == id || (!slot.state.empty() && slot.target == id);
  });
}

bool Topology::promoting(int id) const {
  const auto found = groups.find(id);
  return found != groups.end() && !found->second.promoting.empty();
}

Status Topology::create_group(int id) {
  if (id <= 0 || id > kGroupMax) {
    return Status::refused(cat("invalid group id = ", id, ", out of range"));
  }
  if (groups.contains(id)) return Status::exists(cat("group-[", id, "] already exists"));
  groups[id].id = id;
  return Status::ok();
}

Status Topology::remove_group(int id) {
  const auto found = group(id);
  if (!found) return found.status();
  if (!(*found)->servers.empty()) return Status::refused(cat("group-[", id, "] isn't empty"));
  groups.erase(id);
  return Status::ok();
}

Status Topology::check_new_server(const std::string& address) const {
  for (const auto& [id, group] : groups) {
    if (group.find(address) >= 0) {
      return Status::exists(cat("server-[", address, "] already exists"));
    }
  }
  return Status::ok();
}

Status Topology::add_server(int id, const std::string& address, const std::string& datacenter) {
  if (address.empty()) return Status::refused("invalid server address");
  if (const Status fresh = check_new_server(address); !fresh) return fresh;
  const auto found = group(id);
  if (!found) return found.status();
  if (!(*found)->promoting.empty()) {
    return Status::refused(cat("group-[", id, "] is promoting"));
  }
  GroupServer& server = (*found)->servers.emplace_back();
  server.address = address;
  server.datacenter = datacenter;
  return Status::ok();
}

Status Topology::del_server(int id, const std::string& address) {
  const auto found = group(id);
  if (!found) return found.status();
  Group& group = **found;
  const int index = group.find(address);
  if (index < 0) {
    return Status::not_found(cat("group-[", id, "] doesn't have server-[", address, "]"));
  }
  if (!group.promoting.empty()) return Status::refused(cat("group-[", id, "] is promoting"));
  if (index == 0 && (group.servers.size() != 1 || uses_group(id))) {
    return Status::refused(cat("group-[", id, "] can't remove master, still in use"));
  }
  if (group.servers[static_cast<size_t>(index)].replica_group) group.out_of_sync = true;
  group.servers.erase(group.servers.begin() + index);
  if (group.servers.empty()) group.out_of_sync = false;
  return Status::ok();
}

Status Topology::check_promote(int id, const std::string& address) const {
  const auto found = groups.find(id);
  if (found == groups.end()) return no_group(id);
  const int index = found->second.find(address);
  if (index < 0) {
    return Status::not_found(cat("group-[", id, "] doesn't have server-[", address, "]"));
  }
  if (!found->second.promoting.empty()) {
    return Status::refused(cat("group-[", id, "] is promoting"));
  }
  if (index == 0) return Status::refused(cat("group-[", id, "] can't promote master"));
  return Status::ok();
}

int Topology::next_sync_index() const {
  int index = 0;
  for (const auto& [id, group] : groups) {
    for (const auto& server : group.servers) index = std::max(index, server.action_index);
  }
  return index + 1;
}

Status Topology::create_sync(const std::string& address) {
  Group* group = group_of(address);
  if (group == nullptr) return Status::not_found(cat("server-[", address, "] doesn't exist"));
  GroupServer& server = group->servers[static_cast<size_t>(group->find(address))];
  if (server.action_state == "pending") {
    return Status::exists(cat("server-[", address, "] action already exist"));
  }
  server.action_state = "pending";
  server.action_index = next_sync_index();
  return Status::ok();
}

Status Topology::remove_sync(const std::string& address) {
  Group* group = group_of(address);
  if (group == nullptr) return Status::not_found(cat("server-[", address, "] doesn't exist"));
  GroupServer& server = group->servers[static_cast<size_t>(group->find(address))];
  if (server.action_state.empty()) {
    return Status::not_found(cat("server-[", address, "] action doesn't exist"));
  }
  server.action_state.clear();
  server.action_index = 0;
  return Status::ok();
}

int Topology::next_index() const {
  int index = 0;
  for (const SlotMapping& slot : slots) index = std::max(index, slot.index);
  return index + 1;
}

Status Topology::create_action(int slot, int target) {
  if (const Status usable = check_group_usable(target); !usable) return usable;
  if (const Status known = check_slot(slot); !known) return known;
  SlotMapping& mapping = slots[static_cast<size_t>(slot)];
  if (!mapping.state.empty()) {
    return Status::exists(cat("slot-[", slot, "] action already exists"));
  }
  if (mapping.group == target) {
    return Status::exists(cat("slot-[", slot, "] already in group-[", target, "]"));
  }
  mapping.index = next_index();
  mapping.state = "pending";
  mapping.target = target;
  return Status::ok();
}

// All or nothing.
Status Topology::create_action_range(int begin, int end, int target) {
  if (begin < 0 || end >= kSlots || begin > end) {
    return Status::refused(cat("invalid slot range [", begin, ",", end, "]"));
  }
  const auto before = slots;
  for (int id = begin; id <= end; ++id) {
    if (const Status made = create_action(id, target); !made) {
      slots = before;
      return made;
    }
  }
  return Status::ok();
}

Status Topology::create_action_some(int source, int target, int count) {
  if (const Status usable = check_group_usable(target); !usable) return usable;
  for (const SlotMapping& slot : slots) {
    if (count <= 0) break;
    if (slot.group != source || !slot.state.empty() || slot.group == target) continue;
    if (const Status made = create_action(slot.id, target); !made) return made;
    --count;
  }
  return Status::ok();
}

Status Topology::remove_action(int slot) {
  if (const Status known = check_slot(slot); !known) return known;
  SlotMapping& mapping = slots[static_cast<size_t>(slot)];
  if (mapping.state.empty())
    return Status::not_found(cat("slot-[", slot, "] action doesn't exist"));
  if (mapping.state != "pending") {
    return Status::refused(cat("slot-[", slot, "] action isn't pending"));
  }
  mapping.state.clear();
  mapping.index = 0;
  mapping.target = 0;
  return Status::ok();
}

SlotFill Topology::fill_of(const SlotMapping& slot, int forward_method) const {
  SlotFill fill;
  fill.id = slot.id;
  fill.forward_method = forward_method;
  const bool moved = moves_slot(slot.state);
  fill.backend_group = moved ? slot.target : slot.group;
  fill.backend_addr = master_of(fill.backend_group);
  if (fill.backend_addr.empty()) fill.backend_group = 0;
  if (slot.state == "prepared" || slot.state == "migrating") {
    fill.migrate_from = master_of(slot.group);
    fill.migrate_from_group = fill.migrate_from.empty() ? 0 : slot.group;
    fill.locked = slot.state == "prepared";
  }
  const auto group = groups.find(fill.backend_group);
  if (group == groups.end()) return fill;
  if (group->second.promoting == "prepared") fill.locked = true;
  std::vector<std::string> replicas;
  for (const auto& server : group->second.servers) {
    if (server.replica_group) replicas.push_back(server.address);
  }
  if (!replicas.empty() && fill.migrate_from.empty()) fill.replica_groups.push_back(replicas);
  return fill;
}

Json slot_model(const SlotMapping& slot) {
  Json action = Json::object();
  if (slot.index != 0) action["index"] = slot.index;
  if (!slot.state.empty()) action["state"] = slot.state;
  if (slot.target != 0) action["target_id"] = slot.target;
  return {{"id", slot.id}, {"group_id", slot.group}, {"action", action}};
}

Json group_model(const Group& group) {
  Json servers = Json::array();
  for (const auto& server : group.servers) {
    Json action = Json::object();
    if (server.action_index != 0) action["index"] = server.action_index;
    if (!server.action_state.empty()) action["state"] = server.action_state;
    servers.push_back({{"server", server.address},
                       {"datacenter", server.datacenter},
                       {"action", action},
                       {"replica_group", server.replica_group}});
  }
  Json promoting = Json::object();
  if (group.promoting_index != 0) promoting["index"] = group.promoting_index;
  if (!group.promoting.empty()) promoting["state"] = group.promoting;
  return {{"id", group.id},
          {"servers", servers},
          {"promoting", promoting},
          {"out_of_sync", group.out_of_sync}};
}

Json Topology::to_json() const {
  Json out = {{"groups", Json::array()}, {"slots", Json::array()}, {"proxies", Json::array()}};
  for (const auto& [id, group] : groups) out["groups"].push_back(group_model(group));
  for (const SlotMapping& slot : slots) {
    if (slot.group != 0 || !slot.state.empty()) out["slots"].push_back(slot_model(slot));
  }
  for (const auto& [token, proxy] : proxies) out["proxies"].push_back(proxy.model);
  return out;
}

Status Topology::from_json(const Json& json) {
  try {
    for (const Json& one : json.at("groups")) {
      Group& group = groups[one.at("id").get<int>()];
      group.id = one.at("id");
      group.out_of_sync = one.value("out_of_sync", false);
      group.promoting = one.at("promoting").value("state", "");
      group.promoting_index = one.at("promoting").value("index", 0);
      for (const Json& server : one.at("servers")) {
        group.servers.push_back({server.at("server"), server.value("datacenter", ""),
                                 server.at("action").value("state", ""),
                                 server.at("action").value("index", 0),
                                 server.value("replica_group", false)});
      }
    }
    for (const Json& one : json.at("slots")) {
      SlotMapping& slot = slots.at(one.at("id").get<size_t>());
      slot.group = one.value("group_id", 0);
      slot.state = one.at("action").value("state", "");
      slot.index = one.at("action").value("index", 0);
      slot.target = one.at("action").value("target_id", 0);
    }
    for (const Json& one : json.at("proxies")) {
      ProxyEntry entry{one.at("id"), one.at("token"), one.at("admin_addr"), one};
      proxies[entry.token] = entry;
    }
  } catch (const std::exception& error) {
    return Status::corrupt(cat("the state file is damaged: ", error.what()));
  }
  return Status::ok();
}

}  // namespace sf::codis
