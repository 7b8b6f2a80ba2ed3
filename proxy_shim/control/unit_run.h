// Performs one attempt at one unit: the machine's actions in order, against the data plane, the
// driver and the store, within the bound. Runs on a lane of the runner; interrupt() may be called
// from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/ops/log.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/cutover_machine.h"
#include "proxy_shim/control/heal_list.h"
#include "proxy_shim/control/hold_turns.h"
#include "proxy_shim/control/pause_stats.h"
#include "proxy_shim/control/permits.h"
#include "proxy_shim/control/slot_board.h"
#include "proxy_shim/control/state_store.h"
#include "proxy_shim/data/data_plane.h"

namespace sf {

// What a unit run works with. Everything outlives it.
struct RunPorts {
  const MovePlan* plan;
  StateStore* store;
  SlotBoard* board;
  Permits* permits;
  BackendDriver* driver;
  DataPlane* plane;
  PauseStats* stats;
  const Clock* clock;
  Log log;
  HealList* heals = nullptr;  // null: no pair is healed
};

// A reason to take the running attempt back, set from any thread.
class InterruptBox {
 public:
  void set(const std::string& why) {
    std::lock_guard guard(mutex_);
    if (why_.empty()) why_ = why;
  }
  std::string take() {
    std::lock_guard guard(mutex_);
    return std::exchange(why_, {});
  }

 private:
  std::mutex mutex_;
  std::string why_;
};

class UnitRun {
 public:
  // `back`: from the plan's new side to its old one; `ports.driver` and `machine` see the sides
  // exchanged then (direction.h).
  UnitRun(const RunPorts& ports, InterruptBox* interrupts, CutoverMachine* machine, SlotSet slots,
          int64_t max_pause_ms, bool back = false);

  // One attempt, to its end: NEW, OLD (taken back) or DOUBT. Nothing is held before `gate` says so.
  void attempt(uint64_t epoch, HoldGate* gate);
  // Tries again what the machine owes. True if nothing is owed any more.
  bool retry();

  bool accepted() const { return accepted_; }  // the machine took the start
  const std::string& text() const { return text_; }
  int64_t pause_us() const { return pause_us_; }
  int64_t held() const { return held_; }

 private:
  using Event = CutEvent;
  void drive(std::vector<CutAction> actions);
  std::optional<Event> perform(const CutAction& action);
  Event perform_setup(const CutAction& action, Event event);
  Event perform_proof(const CutAction& action, Event event);
  Event perform_switch(const CutAction& action, Event event);
  Event perform_after(const CutAction& action, Event event);
  Event seek_orphans(Event event);
  Status wait_for_turn();
  Status publish(SlotPhase phase);
  Event drain(InFlight what, Event event);
  Status begin_undo();
  Event wait_applied(const ReplPosition& end, Event event);
  Event write_owner(Event event);
  // I2b: is everything older than the heal list compared, and is what is on it little enough for
  // the pause? Takes off the list what has become equal.
  Status forecast_heal();
  Status trim_heal_list();
  Result<std::vector<HealList::Snapshot>> still_different(
      const std::vector<HealList::Snapshot>& listed, bool settled_first);
  Event heal(Event event);
  void let_go(bool taken_back);
  std::string said(const std::string& text) const;  // the machine's words, for a person
  Side left_side() const { return back_ ? Side::kNew : Side::kOld; }
  const char* name(const char* cutover, const char* rollback) const {
    return back_ ? rollback : cutover;
  }
  void finish(const CutAction& action);
  std::string interrupt_reason();
  int64_t left_ms() const;              // of the bound; at least 1
  int64_t step_ms(int64_t most) const;  // timeout of a call: the bound in a pause, else `most`
  void note(const char* what, const CutAction& action, const Event* outcome, int64_t us);

  const RunPorts& ports_;
  InterruptBox* interrupts_;
  CutoverMachine* machine_;
  const SlotSet slots_;
  const SlotSet held_too_;  // slots that stay and are held until the end is proved, or none
  const int64_t max_pause_ms_;
  const bool back_;
  CutAttempt attempt_;
  CutAttempt undo_;  // epoch 0: nothing is being taken back
  bool accepted_ = false;
  int64_t hold_start_us_ = 0;  // 0: nothing held
  int64_t deadline_us_ = 0;
  int64_t sync_us_ = 0;
  int64_t pause_us_ = 0;
  int64_t held_ = 0;
  int64_t hold_us_ = 0;
  int64_t gap_us_ = -1;  // HoldTurns::begin()
  HoldGate* gate_ = nullptr;
  std::string healed_;  // for the report: "3 of 120 keys were put right"
  std::string pending_interrupt_;
  std::string text_;
};

}  // namespace sf
