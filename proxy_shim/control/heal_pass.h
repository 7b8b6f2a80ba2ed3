// Feeds the heal list: brings the workers' notes to it, and compares what is older than the list,
// key by key on both sides, until everything was (DESIGN 6.4). Reads only, a part of the time, and
// only while a permit says that every write passes the shim; what differs goes to the list, and is
// healed in the pause. On a thread of its own.
#pragma once

#include <memory>
#include <vector>

#include "common/ops/log.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/heal_list.h"
#include "proxy_shim/control/permits.h"
#include "proxy_shim/control/round_thread.h"

namespace sf {

class HealPass {
 public:
  // `driver`: its own; null for kinds that are faithful: then nothing is done. The rest outlives
  // it.
  HealPass(const MovePlan& plan, std::unique_ptr<BackendDriver> driver, HealList* list,
           Permits* permits, DataPlane* plane, const Clock* clock, Log log);

  void start();  // after stop() again, too
  void stop();
  void round();  // what the thread does, for tests

 private:
  void begin();
  bool step();
  void look_again();
  void add_found(const std::vector<HealKey>& keys);
  bool strangers_write();

  const MovePlan& plan_;
  const std::unique_ptr<BackendDriver> driver_;
  HealList* const list_;
  Permits* const permits_;
  DataPlane* const plane_;
  const Clock* const clock_;
  const Log log_;
  // Of the pass under way.
  uint64_t life_ = 0;  // 0: none
  PassCursor cursor_;
  int64_t keys_ = 0;
  int64_t different_ = 0;
  struct Suspect {
    HealKey at;
    int looks = 0;
  };
  std::vector<Suspect> suspects_;  // different once: it may be on its way
  std::string last_error_;
  int64_t look_due_us_ = 0;  // at who is connected to the old side
  RoundThread thread_;
};

}  // namespace sf
