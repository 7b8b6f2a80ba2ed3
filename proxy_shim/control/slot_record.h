// What is remembered of one slot, and its text in the state store (state_store.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/cutover_machine.h"

namespace sf {

struct SlotRecord {
  SlotPhase phase = SlotPhase::kOld;  // kOld, kNew or kFinal: who owns the slot
  uint64_t epoch = 0;                 // of the last switch; 0: there was none
  uint64_t attempt = 0;               // epoch of the last attempt whose intent was recorded
  bool back = false;                  // that attempt goes from the new side to the old one
  ReplPosition proof;                 // end of the side that was left, at the switch
  ReplPosition promoted;              // own position there of the side that owns it since
  std::string owner;                  // its address; "" if not kept then
  bool marked = false;                // the marker stands on the new side
  bool linked = false;                // the side that was left follows the owner
};

std::string record_text(const SlotRecord& record);  // JSON
// Nothing if it is no record, or damaged. Reads those of earlier versions.
std::optional<SlotRecord> parse_record(std::string_view text);

}  // namespace sf
