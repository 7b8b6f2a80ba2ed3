// What the shim says about itself, once for all who ask: the admin port's SHIM STATUS and SHIM
// SLOTS, and the pages. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "proxy_shim/control/unit_run.h"

namespace sf {

class ShimReport {
 public:
  // `ports` must outlive it.
  ShimReport(const RunPorts& ports, std::string run_id);

  struct Field {
    const char* name;
    std::variant<std::string, int64_t> value;
  };
  std::vector<Field> status() const;  // docs/COMMANDS.md, SHIM STATUS

  struct Slot {
    SlotRow row;        // its text says when the next attempt comes, where that is waited for
    std::string owner;  // host:port; empty outside the plan and in DOUBT
  };
  Slot slot(int slot) const;
  const SlotSet& slots() const { return ports_.plan->slots; }
  int64_t count(SlotPhase phase) const { return int64_t{ports_.board->in_phase(phase).size()}; }
  DataPlaneStats data() const { return ports_.plane->stats(); }
  HealList::Report heals() const {
    return ports_.heals == nullptr ? HealList::Report{} : ports_.heals->report();
  }
  PauseSummary pauses() const { return ports_.stats->summary(); }
  const std::string& plan_id() const { return ports_.plan->id; }
  // Why a load balancer or an operator should look here, one sentence; empty: nothing.
  std::string unwell() const;

 private:
  int64_t next_attempt_ms() const;  // of those that wait; 0: none does

  const RunPorts& ports_;
  const std::string run_id_;
};

}  // namespace sf
