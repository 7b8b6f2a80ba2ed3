// The plan of a move: one JSON file that the operator reads, the migrator walks and the shim obeys.
// Its keys are in docs/CONFIG.md. Parsing checks everything that can be checked without a
// network: a MovePlan that came out of parse() or load() is consistent in itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/slots/slot_set.h"

namespace sf {

enum class ServerKind {
  kNode,          // slotferry-node
  kRedis,         // redis-server or codis-server
  kPika,          // Pika 3.x and 4.0 in classic mode: replicates as a whole
  kPikaSharding,  // Pika 3.2-3.4 in sharding mode: replicates slots
};
enum class CutUnit { kSlot, kPlan };  // what is switched together: one slot, or all of them
enum class HandbackWay {
  kAssign,
  kSlotAction
};  // how the dashboard is told to take the slots back

std::string_view kind_text(ServerKind kind);      // "node", "redis", "pika", "pika-sharding"
std::string_view unit_text(CutUnit unit);         // "slot", "plan"
std::string_view handback_text(HandbackWay way);  // "assign", "slot-action"
Result<ServerKind> parse_kind(std::string_view text);

// One group of servers. `master` is one of `servers`, all with the same password and kind.
struct PlanSide {
  HostPort master;
  std::vector<HostPort> servers;
  std::string password;  // "" for none
  ServerKind kind = ServerKind::kNode;
};

struct PlanShim {
  HostPort address;            // the data port, as the dashboard and the proxies dial it
  HostPort admin;              // SHIM commands
  std::string admin_password;  // "" for none
};

struct MovePlan {
  std::string id;  // 1..64 bytes of [A-Za-z0-9_.:-]; the <plan> of FENCE, PROMOTE, FOLLOW, EPOCH
  HostPort dashboard;
  std::string product;
  std::string product_auth;
  SlotSet slots;         // that move; never empty
  SlotSet stay;          // the source group's other slots; disjoint from `slots`, may be empty
  int source_group = 0;  // 1..9999, all three different
  int target_group = 0;
  int shim_group = 0;
  PlanSide old_side;  // JSON "old"
  PlanSide new_side;  // JSON "new"; same kind as the old side
  PlanShim shim;
  CutUnit unit = CutUnit::kSlot;  // kSlot for node and pika-sharding, else kPlan
  int64_t max_pause_ms = 500;     // 1..60000, of one unit
  int hold_share_percent = 5;     // 1..100, of the time, of each slot's writes
  int units_in_flight = 1;        // 1..8: units held at the same time, where the kind allows it
  HandbackWay handback = HandbackWay::kAssign;
  int64_t soak_seconds = 5;      // 0..604800
  std::string reads = "owner";   // owner, new-then-old, compare: what the shim does with reads
  int compare_percent = 1;       // 1..100, of reads, with `compare`
  std::string guard = "off";     // off, pika-3.5: commands the shim keeps from the servers
  std::vector<std::string> ask;  // phases before which `run` stops and asks
  bool verify = true;
  bool cleanup = false;
  // Faults of the servers' own replication the operator takes upon himself: "ttl", "append",
  // "streams" (docs/CONFIG.md). A fault that is found and not named here stops the cutover.
  std::vector<std::string> accept;

  // The slots that pass the shim: `slots`, and `stay` too where the server replicates only as a
  // whole.
  SlotSet attached_slots() const;

  // Checks as parse() does; for plans built in memory.
  Status check() const;
  std::string to_json() const;  // indented, ends with a newline; parse(to_json()) is the same plan

  // Errors name the key at fault and what is allowed: "plan key old.master: '...' is no host:port".
  // Unknown keys are refused, so that a misspelt one is not silently a default. `plan`,
  // `dashboard`, `product`, `slots`, the three groups, `old`, `new` and `shim` are required.
  static Result<MovePlan> parse(std::string_view json);
  static Result<MovePlan> load(const std::string& path);  // errors begin with the path
};

// The names `ask` may hold, in the order a move takes them: replicate, attach, cutover, verify,
// handback, soak, cleanup, detach.
const std::vector<std::string>& move_phase_names();
// The names `accept` may hold.
const std::vector<std::string>& replication_fault_names();

}  // namespace sf
