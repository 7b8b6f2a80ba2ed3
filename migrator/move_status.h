// `slotferry status` and `watch`: where a move stands, from its journal and the shim; changes
// nothing.
#pragma once

#include <string>

#include "common/slots/move_plan.h"
#include "migrator/output.h"
#include "migrator/stop_flag.h"

namespace sf {

// kUnavailable: the shim does not answer; what the journal knows is shown all the same.
Status show_status(const MovePlan& plan, const std::string& state_dir, const Clock& clock,
                   Output& out);

// The journal's entries as lines, oldest first.
Status show_journal(const std::string& state_dir, const Clock& clock, Output& out);

// A line a second until every slot is switched or the flag is raised.
Status watch_move(const MovePlan& plan, Output& out, StopFlag& stop);

}  // namespace sf
