// The control half of one plan as it is now: drivers, permits, board, runner, monitor, report and
// commands, joined. When the plan changes (a failover, a password, more slots) another one takes
// over while the data plane, the state store and the admin port go on.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "proxy_shim/control/admin_commands.h"
#include "proxy_shim/control/backend_monitor.h"
#include "proxy_shim/control/cutover_runner.h"
#include "proxy_shim/control/group_watch.h"
#include "proxy_shim/control/heal_pass.h"
#include "proxy_shim/control/permits.h"
#include "proxy_shim/control/shim_report.h"
#include "proxy_shim/control/startup.h"

namespace sf {

// What outlives every plan.
struct ControlPorts {
  StateStore* store;
  DataPlane* plane;
  PauseStats* stats;
  const Clock* clock;
  Log log;
  std::string run_id;
  std::string state_dir;
  PlanReloader* reloader;
  HealList* heals;
};

class MoveControl {
 public:
  struct Lane {
    std::unique_ptr<BackendDriver> there;
    std::unique_ptr<BackendDriver> back;  // null: no way back for this kind
  };
  // Connects to both masters: for each lane of the runner, and for the monitor. An error is one
  // sentence.
  static Result<std::unique_ptr<MoveControl>> reach(MovePlan plan, const ControlPorts& ports);
  ~MoveControl();  // stops

  // Judges every slot by the record and both servers (startup.h).
  Status settle();
  // What `before` has in memory only: the automatic mode's slots, and the tables' epochs.
  void inherit(const MoveControl& before);
  // One look at both servers, for what INFO says; before the first client.
  void look();
  std::shared_ptr<const RouteTable> make_table() { return board_->make_table(); }
  // From here on it publishes by itself; the runner and the monitor work. Again after stop(), too.
  void begin();
  // Publishes the whole table: what `before` had told the workers is replaced.
  Status take_over() { return board_->publish(SlotSet(), SlotPhase::kOld); }
  // What `side`'s master has taken so far is all it takes, until move_on(). After stop().
  Status hold_still(PairSide side) { return commands_.hold_still(side, true).status(); }
  std::array<bool, 2> frozen() const {
    return {is_still(PairSide::kOld), is_still(PairSide::kNew)};
  }
  // Sides that were not `frozen` before take writes again.
  void move_on(const std::array<bool, 2>& frozen);
  SlotSet owned_by(PairSide side) const;
  // Takes a running attempt back, answers who waits, ends the threads.
  void stop();

  // A server is another process than the one judged.
  void look_now() { monitor_->look_now(); }
  void interrupt(const std::string& why) { runner_->interrupt(why); }
  const MovePlan& plan() const { return plan_; }
  const ShimReport& report() const { return report_; }
  AdminCommands& commands() { return commands_; }

 private:
  static Result<std::vector<Lane>> reach_lanes(const MovePlan& plan, const ControlPorts& ports);
  MoveControl(MovePlan plan, const ControlPorts& ports, std::vector<Lane> lanes,
              std::unique_ptr<BackendDriver> for_monitor, std::unique_ptr<BackendDriver> for_pass);
  void owe_debts();
  bool is_still(PairSide side) const;

  const MovePlan plan_;
  const ControlPorts shared_;
  const std::vector<Lane> lanes_;  // of the runner
  const std::unique_ptr<Permits> permits_;
  const std::unique_ptr<SlotBoard> board_;
  const RunPorts ports_;
  const std::unique_ptr<CutoverRunner> runner_;
  const std::unique_ptr<GroupWatch> watch_;
  const std::unique_ptr<BackendMonitor> monitor_;
  const std::unique_ptr<HealPass> heal_pass_;
  const ShimReport report_;
  AdminCommands commands_;
};

}  // namespace sf
