// The shim's admin port, typed (docs/COMMANDS.md). One thread at a time; the permit loop has
// a ShimAdmin of its own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/slots/move_plan.h"
#include "migrator/peer.h"

namespace sf {

struct ShimSlot {
  int slot = 0;
  std::string state;  // lower case: stay, old, hold, barrier, promote, new, final, doubt
  std::string owner;  // host:port
  int64_t epoch = 0;
  int64_t pause_us = 0;  // of its last cutover
  int64_t held = 0;
  int64_t lag = -1;
  std::string text;
};

struct ShimUnit {
  SlotSet slots;
  std::string state;  // after the attempt, lower case
  int64_t pause_us = 0;
  int64_t held = 0;
  std::string text;  // why it is not new
};

struct ShimLock {
  std::string owner;
  int64_t epoch = 0;
};

using ShimStatus = std::map<std::string, std::string, std::less<>>;
int64_t status_number(const ShimStatus& status, std::string_view name);
std::string status_text(const ShimStatus& status, std::string_view name);

class ShimAdmin {
 public:
  explicit ShimAdmin(const PlanShim& shim);

  Result<ShimStatus> status();
  Result<std::map<int, ShimSlot>> slots(const SlotSet& slots);

  // Takes the run lock for `owner`, once more if that owner holds it already (a run killed before).
  // kRefused names the other owner. `force` takes it from anybody.
  Result<ShimLock> lock(const std::string& owner, bool force);
  Status unlock(const ShimLock& lock);

  Status permit(const SlotSet& slots, const ShimLock& lock);
  // Waits until every unit is decided. The answer to wait for is bounded by `timeout_ms`.
  Result<std::vector<ShimUnit>> cutover(const SlotSet& slots, int64_t max_pause_ms,
                                        const ShimLock& lock, int timeout_ms);
  Status abort(const SlotSet& slots, const ShimLock& lock);
  Status finalize(const SlotSet& slots, const ShimLock& lock);

 private:
  Peer peer_;
};

}  // namespace sf
