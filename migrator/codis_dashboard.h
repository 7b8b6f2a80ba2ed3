// Client of a Codis dashboard and its proxies over HTTP (contracts/codis section 4). Every answer
// is checked for its shape; nothing a dashboard answers to a change is believed: read back with
// proxy_slots() (traps 5, 25). Blocking; one thread at a time, cheap to make one a thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/slots/slot_set.h"

namespace sf {

struct CodisGroup {
  int id = 0;
  std::vector<std::string> servers;  // "host:port"; the first is the master
  bool promoting = false;
};

struct CodisSlot {
  int group = 0;             // 0: offline
  std::string action_state;  // "" when no migration is queued or running
  int action_target = 0;
};

struct CodisProxy {
  std::string token;
  std::string admin_addr;
  std::string proxy_addr;
  bool online = false;  // as the dashboard saw it last
};

struct CodisTopology {
  std::vector<CodisSlot> slots;  // 1024
  std::map<int, CodisGroup> groups;
  std::vector<CodisProxy> proxies;  // the registered ones
  std::string action_progress;      // the dashboard's one line about running slot-actions
  bool actions_disabled = false;

  SlotSet slots_of(int group) const;
  const CodisGroup* group(int id) const;  // nullptr: there is none
  const CodisGroup* group_with(const std::string& server) const;
};

struct ProxySlot {
  std::string backend;  // "" for a slot without one
  std::string migrate_from;
  bool locked = false;
};

class CodisDashboard {
 public:
  CodisDashboard(HostPort address, std::string product, std::string product_auth);

  // Errors: kUnavailable (cannot be reached), kInvalid (the product name does not fit), kRefused
  // (it says no; the text is its own), kTimeout, kCorrupt (not the API this program knows).
  Status ping();
  Result<CodisTopology> topology();
  // What one proxy really routes by: 1024 entries, asked of the proxy itself.
  Result<std::vector<ProxySlot>> proxy_slots(const CodisProxy& proxy);

  Status create_group(int group);
  Status remove_group(int group);
  Status add_server(int group, const std::string& server);
  Status remove_server(int group, const std::string& server);
  Status assign(const SlotSet& slots, int group);  // slots-assign: no data is moved
  Status create_action(int slot, int group);       // slot-action: queues a migration
  Status remove_action(int slot);                  // only while pending

  const HostPort& address() const { return address_; }

  // The xauth words (contracts/codis 4.1).
  static std::string dashboard_xauth(std::string_view product);
  static std::string proxy_xauth(std::string_view product, std::string_view auth,
                                 std::string_view token);

 private:
  Status put(const std::string& path, const std::string& body = {});

  HostPort address_;
  std::string product_;
  std::string product_auth_;
  std::string xauth_;
};

// Parses the body of /api/topom/stats and /api/proxy/slots; separate for tests with recorded
// answers.
Result<CodisTopology> parse_topology(std::string_view json);
Result<std::vector<ProxySlot>> parse_proxy_slots(std::string_view json);

}  // namespace sf
