// The single checks of preflight. Each adds one or more findings; those that return something give
// later checks their grounds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "migrator/codis_dashboard.h"
#include "migrator/preflight.h"

namespace sf {

struct Findings {
  std::vector<Check> checks;
  void ok(std::string name, std::string evidence);
  void warn(std::string name, std::string evidence, std::string way_out);
  void stop(std::string name, std::string evidence, std::string way_out);
  // A status' text is evidence and way out in one.
  void stop(std::string name, const Status& status) { stop(std::move(name), status.text(), ""); }
};

// preflight_codis.cc
std::optional<CodisTopology> check_dashboard(const MovePlan& plan, CodisDashboard& dashboard,
                                             Findings& findings);
void check_slots(const MovePlan& plan, const CodisTopology& topology, Findings& findings);
void check_groups(const MovePlan& plan, const CodisTopology& topology, Findings& findings);
void check_proxies(const MovePlan& plan, CodisDashboard& dashboard, const CodisTopology& topology,
                   Findings& findings);
void check_shim(const MovePlan& plan, Findings& findings);

// preflight_servers.cc
bool check_servers(const MovePlan& plan, bool old_side,
                   Findings& findings);                      // masters answer as planned
void check_links(const MovePlan& plan, Findings& findings);  // passwords of each towards the other
void check_new_side_empty(const MovePlan& plan, const CodisTopology& topology, Findings& findings);
void check_room(const MovePlan& plan, Findings& findings);
void check_clocks(const MovePlan& plan, const Clock& clock, Findings& findings);
void check_redis_settings(const MovePlan& plan, Findings& findings);

// preflight_pika_slots.cc: sharding mode
void check_pika_slots(const MovePlan& plan, Findings& findings);  // roles and keys of each slot

// preflight_pika.cc
void check_pika(const MovePlan& plan, Findings& findings);  // the traps of its replication

}  // namespace sf
