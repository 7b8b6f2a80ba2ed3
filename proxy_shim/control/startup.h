// What the shim does before it opens its listener: it believes neither its record nor the servers
// alone. It raises the epoch first, so that late requests of an earlier life are refused; asks both
// sides; takes back what has no owner record (I3); and calls what disagrees DOUBT, with a sentence
// (DESIGN 6.6).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/ops/log.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/state_store.h"

namespace sf {

struct SlotVerdict {
  SlotPhase phase = SlotPhase::kOld;
  std::string text;             // worth telling the operator; "" if all is as it should be
  CutoverMachine::Debts debts;  // what could not be done now and is tried again
  bool back = false;            // they are of an attempt, or a switch, back to the old side
};

struct StartVerdicts {
  uint64_t epoch = 0;
  std::map<int, SlotVerdict> slots;
};

// Fails, and the shim must not serve, if a side cannot be asked or has seen a higher epoch of the
// plan than the record knows.
// `back`: a driver that sees the sides exchanged; null: this kind has no way back.
Result<StartVerdicts> settle_at_start(const MovePlan& plan, StateStore& store,
                                      BackendDriver& driver, int64_t timeout_ms, const Log& log,
                                      BackendDriver* back = nullptr);

// The sentence why a server with this promote record is not the one that owns the slot; "" if it
// is, or its kind keeps none.
std::string not_the_owner(const SlotRecord& record, const std::optional<uint64_t>& promoted);

// The judgement of one slot, by its record and what both sides say; pure. `debts` name what must be
// done about it now.
SlotVerdict judge_slot(int slot, const SlotRecord& record, const SlotReport& old_side,
                       const SlotReport& new_side, const CutTraits& traits, uint64_t marker);

}  // namespace sf
