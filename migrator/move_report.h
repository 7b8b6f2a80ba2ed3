// What a move came to, from its journal and the shim's figures.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/slots/move_plan.h"
#include "migrator/journal.h"
#include "migrator/output.h"
#include "migrator/shim_admin.h"

namespace sf {

struct MoveReport {
  std::string plan;
  std::string slots;
  int slot_count = 0;
  int slots_moved = 0;  // handed back and read back
  int64_t keys = -1;    // compared by verify; -1 unknown
  int64_t bytes = -1;   // of keys and values read by verify; else of the copy
  std::string verify;   // "passed", "failed", "not run"
  int64_t differing = 0;
  int64_t cutovers = 0;
  int64_t pause_p50_us = 0;
  int64_t pause_p99_us = 0;
  int64_t pause_max_us = 0;
  std::vector<std::pair<std::string, int64_t>> phase_ms;  // those begun, in order
  int64_t total_ms = 0;                                   // first intent to newest outcome
};

// The shim's pause figures as journal facts, so that the report does not need the shim.
Status keep_pauses(Journal& journal, const ShimStatus& status);
MoveReport make_report(const MovePlan& plan, const Journal& journal);
void show_report(Output& out, const MoveReport& report);

}  // namespace sf
