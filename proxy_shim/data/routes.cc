#include "proxy_shim/data/routes.h"

namespace sf {

namespace {

uint8_t flags_of(SlotPhase phase) {
  switch (phase) {
    case SlotPhase::kOutside:
      return kRouteOutside;
    case SlotPhase::kStay:
    case SlotPhase::kOld:
      return 0;
    case SlotPhase::kHold:
    case SlotPhase::kBarrier:
      return kRouteHoldWrites;
    case SlotPhase::kPromote:
      return kRouteHoldWrites | kRouteHoldReads;
    case SlotPhase::kNew:
      return kRouteNew;
    case SlotPhase::kFinal:
      return kRouteNew | kRouteFinal;
    case SlotPhase::kDoubt:
      return kRouteDoubt;
  }
  return kRouteOutside;
}

bool is_to_be_switched(SlotPhase phase) {
  return phase == SlotPhase::kOld || phase == SlotPhase::kHold || phase == SlotPhase::kBarrier ||
         phase == SlotPhase::kPromote;
}

}  // namespace

Routes::Routes(std::shared_ptr<const RouteTable> table) : table_(std::move(table)) {
  for (size_t slot = 0; slot < flags_.size(); ++slot) {
    uint8_t flags = flags_of(table_->phase[slot]);
    const bool back = table_->back.contains(static_cast<int>(slot));
    if (back && (flags & kRouteHoldWrites) != 0) flags |= kRouteNew;
    const bool is_new = (flags & kRouteNew) != 0;
    if (is_new ? table_->new_writes_stopped : table_->old_writes_stopped) flags |= kRouteStopped;
    if (table_->note_writes && is_to_be_switched(table_->phase[slot])) flags |= kRouteNoted;
    any_write_held_ = any_write_held_ || (flags & kRouteHoldWrites) != 0;
    flags_[slot] = flags;
  }
}

std::string Routes::refusal(int slot, bool is_write) const {
  const uint8_t f = flags(slot);
  if ((f & kRouteOutside) != 0) {
    return cat("ERR slot ", slot,
               " is not behind this slotferry-shim; map it to its own group again");
  }
  if ((f & kRouteDoubt) != 0) {
    return cat("TRYAGAIN the owner of slot ", slot, " is in doubt between ",
               table_->old_side.address.text(), " and ", table_->new_side.address.text(),
               "; the operator has to decide");
  }
  if (is_write && (f & kRouteStopped) != 0) {
    return cat("TRYAGAIN writes to slot ", slot, " are stopped until the master of its group (was ",
               address(side_of(f)).address.text(), ") is known again");
  }
  return {};
}

}  // namespace sf
