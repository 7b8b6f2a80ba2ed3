// The order of a move as a pure state machine: event in, one action out, no I/O. It knows which
// steps a plan needs, which phases stop to ask, how often an unreachable peer is tried again, and
// where a killed run goes on. What a step does is the executor's business (steps.h).
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/slots/move_plan.h"

namespace sf {

enum class Phase { kReplicate, kAttach, kCutover, kVerify, kHandback, kSoak, kCleanup, kDetach };
std::string_view phase_text(Phase phase);  // as in move_phase_names()
Result<Phase> parse_phase(std::string_view text);

enum class Step {
  kFollow,          // the new master follows the old one
  kFollowReplicas,  // the other servers of the new group follow the new master
  kWaitCopied,      // the copy is complete and the lag small and steady
  kMakeShimGroup,   // the dashboard knows the shim as a group
  kAssignToShim,    // the dashboard maps the slots to it
  kReadBackShim,    // every registered proxy does
  kCutOver,         // every unit is switched
  kVerify,          // both sides hold the same
  kGate,            // the whole new group has the slots in sync, and is what the dashboard calls it
  kFinal,           // the shim lets go of the slots for good
  kHandBack,        // the dashboard maps the slots to their groups
  kReadBackTarget,  // every registered proxy does
  kSoak,            // time passes
  kEndReverse,      // neither side follows the other (guards of I11 checked)
  kDeleteCopies,    // what nobody owns is deleted
  kRemoveShim,      // the dashboard forgets the shim's group
};
std::string_view step_text(Step step);   // "replicate.follow"
std::string_view step_title(Step step);  // for people: "new master follows the old one"
Phase phase_of(Step step);

struct RunbookOptions {
  std::set<Phase> ask;      // stop before these and ask
  bool yes = false;         // every question is answered with yes
  int tries = 120;          // of a step whose peer does not answer, one second apart
  std::vector<Phase> only;  // of the plan's phases just these; empty: all
  bool has_until = false;   // stop after this phase
  Phase until = Phase::kDetach;
};

class Runbook {
 public:
  struct Event {
    enum class Kind {
      kStart,   // (again); also after kWait's time is over and after kHalt's reason is gone
      kDone,    // the step asked for is done
      kRetry,   // it could not be done now: a peer does not answer
      kFailed,  // it cannot be done as things are; text says why
      kYes,
      kNo,    // the answer to kAsk
      kStop,  // the operator pressed Ctrl-C
    };
    Kind kind = Kind::kStart;
    std::string text;
  };
  struct Action {
    enum class Kind { kRun, kWait, kAsk, kHalt, kFinish };
    Kind kind = Kind::kFinish;
    Step step = Step::kFollow;        // kRun
    Phase phase = Phase::kReplicate;  // kRun, kAsk
    bool failed = false;              // kHalt: something is wrong, as against asked to stop
    std::string text;                 // kAsk: the question; kHalt: a sentence with the way on
  };

  // `done` are step_text()s of steps that the journal has as done.
  Runbook(const MovePlan& plan, RunbookOptions options, const std::set<std::string>& done);

  Action step(const Event& event);

  // All steps of this plan in order, those already done too.
  static std::vector<Step> steps_of(const MovePlan& plan);
  const std::vector<Step>& pending() const { return pending_; }

 private:
  Action next();
  Action halt(bool failed, std::string text) const;

  RunbookOptions options_;
  std::vector<Step> pending_;  // front is the current one
  std::set<Phase> answered_;
  int failures_ = 0;  // of the current step, in a row
};

}  // namespace sf
