// Going back (DESIGN 6.2, ADR 0020) is the same machine, drivers and judgement with the sides
// exchanged: what owns a unit is their OLD, where it goes their NEW. This turns phases between that
// view and the shim's own, where NEW is the plan's new side, always.
#pragma once

#include <utility>

#include "common/slots/move_plan.h"
#include "proxy_shim/data/route_table.h"

namespace sf {

inline SlotPhase turned(SlotPhase phase, bool back) {
  if (!back) return phase;
  if (phase == SlotPhase::kOld) return SlotPhase::kNew;
  return phase == SlotPhase::kNew ? SlotPhase::kOld : phase;
}

// The plan as a driver for the way back has to see it.
inline MovePlan turned(const MovePlan& plan) {
  MovePlan out = plan;
  std::swap(out.old_side, out.new_side);
  return out;
}

}  // namespace sf
