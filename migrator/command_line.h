// What the operator typed, checked. Boost.Program_options stays inside the .cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/slots/move_plan.h"
#include "migrator/plan_maker.h"
#include "migrator/runbook.h"

namespace sf {

enum class Command {
  kHelp,
  kVersion,
  kPlan,
  kPreflight,
  kRun,
  kStatus,
  kWatch,
  kJournal,
  kCutover,
  kHandback,
  kVerify,
  kCleanup,
  kDetach,
  kAbort,
  kReport,
};

struct CommandLine {
  Command command = Command::kHelp;
  std::string help;  // kHelp: the text to print
  bool json = false;
  bool yes = false;
  bool dry_run = false;
  bool take_lock = false;
  bool overwrite = false;
  std::optional<Phase> until;
  std::string plan_path;         // all but plan
  std::string state_dir;         // <plan>.state where not given
  std::optional<SlotSet> slots;  // cutover
  std::string out_path;          // plan
  PlanRequest request;           // plan
};

// kInvalid: one sentence naming the flag or word at fault and where to look.
Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments);

}  // namespace sf
