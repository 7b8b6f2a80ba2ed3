// One run of a command on a plan: the state folder held, the journal open, the plan the same as
// when the move began. Main thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ops/process.h"
#include "migrator/move_context.h"
#include "migrator/runbook.h"

namespace sf {

struct RunSettings {
  std::string state_dir;
  bool yes = false;
  bool take_lock = false;
  std::optional<Phase> until;
  std::vector<Phase> only;
  bool skip_preflight = false;
};

// Exit codes of every command.
enum ExitCode { kExitDone = 0, kExitFailed = 1, kExitUsage = 2, kExitAsked = 3 };

class MoveSession {
 public:
  // kRefused: another process works in the folder; kInvalid: the plan is another one than the
  // journal's.
  static Result<std::unique_ptr<MoveSession>> open(const MovePlan& plan,
                                                   const RunSettings& settings, const Clock& clock,
                                                   Output& out, StopFlag& stop);
  ~MoveSession();

  // Walks the runbook to its end, or to where it halts. Preflight first if nothing was done yet.
  ExitCode run();
  // One action outside the runbook, under the run lock, journalled as `name`.
  ExitCode once(std::string_view name, const std::function<Result<std::string>(MoveContext&)>& act);
  ExitCode run_steps_only(std::vector<Phase> phases);

  MoveContext& context() { return *context_; }

 private:
  MoveSession(const MovePlan& plan, RunSettings settings, Output& out, StopFlag& stop);

  Status check_same_plan();
  ExitCode walk();
  Runbook::Event perform(Step step);
  Runbook::Event judge_failure(const Status& status);
  Runbook::Event ask(const Runbook::Action& action);
  Result<std::string> locked(const std::function<Result<std::string>()>& act);
  void finish();

  const MovePlan plan_;
  RunSettings settings_;
  Output& out_;
  StopFlag& stop_;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<MoveContext> context_;
  std::string
      last_failure_;  // the newest reason journalled, so that a retry does not fill the journal
  int64_t failing_since_us_ = 0;  // of the current step, 0 while it does not fail
  Phase shown_ = Phase::kReplicate;
  bool any_shown_ = false;
};

}  // namespace sf
