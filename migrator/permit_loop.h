// Renews the shim's permit while slots are being switched: every 2 s all proxies are read back,
// only then PERMIT is sent, which the shim honours for 10 s (DESIGN 6.2). A proxy that strays or
// does not answer thus ends the cutover by itself. (Strangers in the old master's CLIENT LIST are
// the shim's to find: only it can tell its own connections from others.) Runs on its own thread
// with connections of its own; stopped and joined by the destructor.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "common/slots/move_plan.h"
#include "migrator/codis_dashboard.h"
#include "migrator/shim_admin.h"

namespace sf {

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

  std::mutex mutex_;  // guards the three below
  std::condition_variable changed_;
  bool stop_ = false;
  int rounds_ = 0;
  Status newest_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace sf
