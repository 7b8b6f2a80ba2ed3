// The whole shim, wired: store, data plane, admin port, and the control half of the plan as it is
// now. Owns them all and knows the order in which they start and stop. Main thread, but for
// reload().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/ops/log.h"
#include "common/ops/process.h"
#include "common/slots/move_plan.h"
#include "proxy_shim/control/admin_pages.h"
#include "proxy_shim/control/admin_server.h"
#include "proxy_shim/control/move_control.h"
#include "proxy_shim/control/plan_reloader.h"
#include "proxy_shim/control/state_store.h"
#include "proxy_shim/data/data_plane.h"

namespace sf {

struct ShimOptions {
  DataPlaneOptions data;
  AdminOptions admin;
  std::string dir;
  std::string plan_file;
  bool init = false;
  bool adopt = false;  // the plan file may have changed since the last start
  bool adopt_lose =
      false;  // ... and what a former master has and its successor has not is given up
  int64_t backend_wait_ms =
      5'000;                 // how long a start waits for servers that are down; not with init
  int64_t drain_ms = 5'000;  // of a stop: for answers in flight
};

class Shim : public PlanReloader {
 public:
  Shim(ShimOptions options, Log log);
  ~Shim() override;

  // Reads plan and record, settles with both servers, opens the listeners. An error is one
  // sentence; nothing is served then.
  Status start();
  // Takes a running attempt back, answers what is in flight, closes.
  void stop();

  Status reload(const std::string& from, bool may_lose,
                std::function<void(Result<std::string>)> done) override;
  bool reloading() const override { return reloading_; }

  int port() const { return plane_->port(); }
  int admin_port() const { return admin_->port(); }
  const std::string& plan_id() const { return plan_id_; }

 private:
  Status open_state(const MovePlan& plan);
  Status reach_servers(const MovePlan& plan);
  Status serve();
  Result<std::string> take_over(const std::string& from, bool may_lose);
  // Takes the plan over where the record is of another one. Before anything is settled or served.
  Status adopt(const MovePlan& plan);
  // Has every master that `plan` names in another's place all that the other had? Else refused,
  // unless `may_lose`; `said` gets what is to be told. Writes of `before` stand still.
  Status check_successors(MoveControl& before, const MovePlan& plan, bool may_lose,
                          std::string* said);
  // The same of one side, whose writes stand still and whose slots are `slots`. `word`: how what is
  // missing is given up.
  Status check_successor(PairSide side, const PlanSide& was, const PlanSide& is,
                         const SlotSet& slots, bool may_lose, const char* word, std::string* said);
  ControlPorts control_ports();
  std::shared_ptr<MoveControl> control() const;
  void set_control(std::shared_ptr<MoveControl> control);

  ShimOptions options_;
  const Log log_;
  const SystemClock clock_;
  std::string run_id_;
  std::string plan_id_;
  PauseStats stats_;
  EventFeed feed_;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<HealList> heals_;
  std::unique_ptr<DataPlane> plane_;
  mutable std::mutex control_mutex_;
  std::shared_ptr<MoveControl> control_;
  std::unique_ptr<AdminPages> pages_;
  std::unique_ptr<AdminServer> admin_;
  std::atomic<bool> reloading_{false};
  std::mutex reload_mutex_;  // the two below
  bool stopping_ = false;
  std::thread reloader_;
};

}  // namespace sf
