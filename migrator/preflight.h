// Preflight: named checks that look and change nothing, each with what was seen and the way out. A
// move with a `stop` is not begun.
#pragma once

#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/slots/move_plan.h"
#include "migrator/output.h"

namespace sf {

struct Check {
  enum class Level { kOk, kWarn, kStop };
  std::string name;  // "proxies"
  Level level = Level::kOk;
  std::string evidence;  // what was seen
  std::string way_out;   // "" for kOk
};
std::string_view level_text(Check::Level level);  // "ok", "warn", "stop"

// For a move that has not begun: the slots must still be in the source group. Checks whose grounds
// are missing (a dashboard that does not answer) are left out; the failing one says why.
std::vector<Check> run_preflight(const MovePlan& plan, const Clock& clock);

bool has_stop(const std::vector<Check>& checks);
void show_checks(Output& out, const std::vector<Check>& checks);

}  // namespace sf
