// Which group a slot's requests go to: an immutable table with an epoch, handed whole to every
// worker (DESIGN 6.2). Control plane makes one, DataPlane::publish gives it to all workers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/strings.h"
#include "common/slots/slot_set.h"

namespace sf {

enum class SlotPhase : uint8_t {
  kOutside,  // not in the plan: refused before anything is sent
  kStay,     // of the old group, not in the move: old
  kOld,      // writes old, reads old
  kHold,     // writes held, reads old (going back: new)
  kBarrier,  // likewise
  kPromote,  // writes held, reads held
  kNew,      // writes new, reads new
  kFinal,    // as kNew, and the dashboard may take the slot to the new group
  kDoubt,    // refused with a retryable error
};

const char* phase_name(SlotPhase phase);  // "STAY", "OLD", ...

// One server the shim sends to.
struct BackendAddress {
  HostPort address;
  std::string password;
  // The process that was judged to be this server (INFO's run_id): a new connection that finds
  // another one there is not used (DESIGN 6.3). Empty: any.
  std::string run_id = {};
  // It owns slots, and servers of its kind are master or replica as a whole: a new connection that
  // finds a replica there is not used either. Told with an identity only.
  bool is_master = false;
  // What its connections are called (CLIENT SETNAME), so that one which outlives its shim is told
  // from an onlooker's. Asked for, not insisted on. Empty: not asked for.
  std::string name = {};
  // Another server or process than `before`, so what is asked there is asked of somebody else. A
  // password, or an identity that is only known by now, does not make it one.
  bool replaces(const BackendAddress& before) const {
    return address != before.address ||
           (!run_id.empty() && !before.run_id.empty() && run_id != before.run_id);
  }
};

struct RouteTable {
  uint64_t epoch = 0;  // rises with every table
  std::array<SlotPhase, kSlotCount> phase{};
  SlotSet back;  // held slots that the new side owns: they are on their way back
  BackendAddress old_side;
  BackendAddress new_side;
  bool old_writes_stopped =
      false;  // the group's master is in question: retryable error (DESIGN 6.6)
  bool new_writes_stopped = false;
  bool note_writes = false;  // the old side replicates unfaithfully: see DataPlane::take_notes
  bool note_timed = false;   // ... SETEX and its like, too
};

}  // namespace sf
