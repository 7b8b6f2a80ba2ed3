// What a step of a move works with. Main thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/slots/move_plan.h"
#include "migrator/codis_dashboard.h"
#include "migrator/journal.h"
#include "migrator/output.h"
#include "migrator/peer.h"
#include "migrator/shim_admin.h"
#include "migrator/stop_flag.h"

namespace sf {

// A connection to a server of one side. `role` begins error texts: "old master", "new server".
std::unique_ptr<Peer> open_peer(const MovePlan& plan, bool old_side, const HostPort& server,
                                const std::vector<Argv>& greetings = {});

class MoveContext {
 public:
  MoveContext(const MovePlan& move_plan, const Clock& the_clock, Journal& the_journal,
              Output& output, StopFlag& stop_flag);

  const MovePlan& plan;
  const Clock& clock;
  Journal& journal;
  Output& out;
  StopFlag& stop;
  CodisDashboard dashboard;
  ShimAdmin shim;
  std::unique_ptr<Peer> old_master;
  std::unique_ptr<Peer> new_master;
  ShimLock lock;

  bool is_node() const { return plan.old_side.kind == ServerKind::kNode; }
  bool is_pika() const { return plan.old_side.kind == ServerKind::kPika; }
  bool is_pika_sharding() const { return plan.old_side.kind == ServerKind::kPikaSharding; }
  // Slots are replicated and switched one by one, and after the switch the old one follows the new.
  bool by_slot() const { return plan.unit == CutUnit::kSlot; }

  // Takes the shim's run lock in the name the journal keeps, so that a run killed before gets its
  // lock back and a second run does not. No-op while held.
  Status ensure_lock(bool force);
  Status release_lock();

  // One change outside the process: the intent is synced to the journal, then `act` runs, then its
  // outcome is written. The gate of I12: steps change nothing but through here.
  Status effect(std::string_view step, const std::string& what, const std::function<Status()>& act);

  // Waits; a status that ends the step if the operator stops the run meanwhile.
  Status wait_ms(int64_t ms) const;
};

}  // namespace sf
