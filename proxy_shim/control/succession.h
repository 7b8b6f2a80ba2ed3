// When a plan names another master for a group: has it everything that the one before had? A
// promote in the dashboard does not stop the former master, so until the shim has noticed, it goes
// on acknowledging what the new one never sees (ADR 0022). Asked with the writes of that side
// stopped. Blocking; plain functions with connections of their own.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/slots/move_plan.h"
#include "common/slots/slot_set.h"

namespace sf {

struct Succession {
  enum class Verdict {
    kComplete,  // the successor has all of it
    kGone,      // nobody can tell any more: the former master is dead, or a replica by now
    kLacks,     // the former master has writes of `slots` that the successor has not
    kUnknown,   // both answer, and what they say does not settle it
  };
  Verdict verdict = Verdict::kComplete;
  std::string text;  // for the operator; "" if complete
};

// `slots`: whose owner that side is. `name`: of the connections. At most a few times `timeout_ms`.
Succession compare_successor(ServerKind kind, const PlanSide& former, const PlanSide& successor,
                             const SlotSet& slots, const std::string& name, int64_t timeout_ms);

// What lies between two offsets of a Redis's replication stream, as words of its commands: writes
// are counted, chatter (PING, SELECT, REPLCONF) is not. Pure.
struct StreamTail {
  int64_t bytes = 0;
  int64_t writes = 0;
  std::string first;  // the first write's name and key
  void add(const std::vector<std::string>& words);
};

}  // namespace sf
