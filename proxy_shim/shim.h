// The whole shim, wired: store, drivers, board, data plane, cutover runner, monitor, admin port.
// Owns them all and knows the order in which they start and stop. Main thread.
#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/ops/log.h"
#include "common/ops/process.h"
#include "common/slots/move_plan.h"
#include "proxy_shim/control/admin_commands.h"
#include "proxy_shim/control/admin_pages.h"
#include "proxy_shim/control/admin_server.h"
#include "proxy_shim/control/backend_monitor.h"
#include "proxy_shim/control/cutover_runner.h"
#include "proxy_shim/control/permits.h"
#include "proxy_shim/control/slot_board.h"
#include "proxy_shim/control/startup.h"
#include "proxy_shim/control/state_store.h"
#include "proxy_shim/data/data_plane.h"

namespace sf {

struct ShimOptions {
  DataPlaneOptions data;
  AdminOptions admin;
  std::string dir;
  std::string plan_file;
  bool init = false;
  int64_t backend_wait_ms =
      5'000;                 // how long a start waits for servers that are down; not with init
  int64_t drain_ms = 5'000;  // of a stop: for answers in flight
};

class Shim {
 public:
  Shim(ShimOptions options, Log log);
  ~Shim();

  // Reads plan and record, settles with both servers, opens the listeners. An error is one
  // sentence; nothing is served then.
  Status start();
  // Takes a running attempt back, answers what is in flight, closes.
  void stop();

  int port() const { return plane_->port(); }
  int admin_port() const { return admin_->port(); }
  const MovePlan& plan() const { return plan_; }

 private:
  Status open_state();
  Status reach_servers();
  Status settle();
  Status serve();
  void make_runner();

  ShimOptions options_;
  const Log log_;
  const SystemClock clock_;
  std::string run_id_;
  MovePlan plan_;
  RunPorts ports_;
  PauseStats stats_;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<StateStore> store_;
  std::unique_ptr<BackendDriver> driver_;
  std::unique_ptr<Permits> permits_;
  std::unique_ptr<SlotBoard> board_;
  StartVerdicts verdicts_;
  std::unique_ptr<DataPlane> plane_;
  std::unique_ptr<CutoverRunner> runner_;
  std::unique_ptr<BackendMonitor> monitor_;
  std::unique_ptr<ShimReport> report_;
  EventFeed feed_;
  std::unique_ptr<AdminPages> pages_;
  std::unique_ptr<AdminCommands> commands_;
  std::unique_ptr<AdminServer> admin_;
};

}  // namespace sf
