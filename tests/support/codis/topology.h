// What the dashboard knows: groups, slots, proxies; kept in one JSON file as a coordinator would
// keep it. Plain data with the checks and texts of Codis (contracts/codis 4.2, samples in http/).
// Not thread-safe.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tests/support/codis/http_api.h"
#include "tests/support/codis/proxy_router.h"

namespace sf::codis {

struct SlotMapping {
  int id = 0;
  int group = 0;  // 0: offline
  // The migration, if there is one: pending, preparing, prepared, migrating, finished.
  std::string state;
  int index = 0;
  int target = 0;
};

struct GroupServer {
  std::string address;
  std::string datacenter;
  std::string action_state;  // of a sync: pending, syncing, synced, synced_failed
  int action_index = 0;
  bool replica_group = false;
};

struct Group {
  int id = 0;
  std::vector<GroupServer> servers;
  std::string promoting;  // "", preparing, prepared, finished
  int promoting_index = 0;
  bool out_of_sync = false;

  std::string master() const { return servers.empty() ? "" : servers[0].address; }
  int find(const std::string& address) const;  // -1: not there
};

struct ProxyEntry {
  int id = 0;
  std::string token;
  std::string admin_addr;
  Json model;
};

class Topology {
 public:
  std::map<int, Group> groups;
  std::array<SlotMapping, kSlots> slots;
  std::map<std::string, ProxyEntry> proxies;  // by token

  Topology();

  Status create_group(int id);
  Status remove_group(int id);
  Status add_server(int id, const std::string& address, const std::string& datacenter);
  Status check_new_server(const std::string& address) const;
  Status del_server(int id, const std::string& address);
  Status check_promote(int id, const std::string& address) const;
  Status create_sync(const std::string& address);
  Status remove_sync(const std::string& address);

  Status create_action(int slot, int target);
  Status create_action_range(int begin, int end, int target);
  Status create_action_some(int source, int target, int count);
  Status remove_action(int slot);

  Result<Group*> group(int id);
  Status check_group_usable(int id) const;
  Status check_slot(int id) const;
  Group* group_of(const std::string& address);
  std::string master_of(int group_id) const;
  bool uses_group(int id) const;
  bool promoting(int id) const;

  // The slot as the proxies get it, for its present state (5.1, 5.3).
  SlotFill fill_of(const SlotMapping& slot, int forward_method) const;

  Json to_json() const;  // the state file
  Status from_json(const Json& json);

 private:
  int next_index() const;
  int next_sync_index() const;
};

Json slot_model(const SlotMapping& slot);
Json group_model(const Group& group);

}  // namespace sf::codis
