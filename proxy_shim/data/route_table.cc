#include "proxy_shim/data/route_table.h"

namespace sf {

const char* phase_name(SlotPhase phase) {
  switch (phase) {
    case SlotPhase::kOutside:
      return "OUTSIDE";
    case SlotPhase::kStay:
      return "STAY";
    case SlotPhase::kOld:
      return "OLD";
    case SlotPhase::kHold:
      return "HOLD";
    case SlotPhase::kBarrier:
      return "BARRIER";
    case SlotPhase::kPromote:
      return "PROMOTE";
    case SlotPhase::kNew:
      return "NEW";
    case SlotPhase::kFinal:
      return "FINAL";
    case SlotPhase::kDoubt:
      return "DOUBT";
  }
  return "?";
}

}  // namespace sf
