// Renews the shim's permit while slots are being switched: every 2 s all proxies are read back,
// and, for kinds without a fence, the old master's client list; only then PERMIT is sent, which the
// shim honours for 10 s (DESIGN 6.2). A proxy that strays or does not answer thus ends the cutover
// by itself. Runs on its own thread with connections of its own; stopped and joined by the
// destructor.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "common/slots/move_plan.h"
#include "migrator/codis_dashboard.h"
#include "migrator/peer.h"
#include "migrator/shim_admin.h"

namespace sf {

// Connections of CLIENT LIST that are neither replicas, nor the shim's, nor this program's, nor
// look like the dashboard's (last command INFO, CONFIG or none): each may write. The text of the
// first, "" if there is none.
std::string foreign_client(std::string_view client_list);

class PermitLoop {
 public:
  PermitLoop(const MovePlan& plan, ShimLock lock);
  ~PermitLoop();
  PermitLoop(const PermitLoop&) = delete;
  PermitLoop& operator=(const PermitLoop&) = delete;

  // Waits up to timeout_ms for the first round; then what the newest round found, at once.
  Status state(int timeout_ms);

 private:
  void loop();
  Status round();

  const MovePlan& plan_;
  const ShimLock lock_;
  CodisDashboard dashboard_;
  ShimAdmin shim_;
  Peer old_master_;

  std::mutex mutex_;  // guards the three below
  std::condition_variable changed_;
  bool stop_ = false;
  int rounds_ = 0;
  Status newest_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sf
