#include "migrator/runbook.h"

#include <algorithm>

namespace sf {
namespace {

struct StepRow {
  Step step;
  Phase phase;
  const char* text;
  const char* title;
};

constexpr StepRow kSteps[] = {
    {Step::kFollow, Phase::kReplicate, "replicate.follow", "new master follows the old one"},
    {Step::kFollowReplicas, Phase::kReplicate, "replicate.replicas",
     "other new servers follow the new master"},
    {Step::kWaitCopied, Phase::kReplicate, "replicate.copied", "copy complete, lag settled"},
    {Step::kMakeShimGroup, Phase::kAttach, "attach.group", "dashboard knows the shim's group"},
    {Step::kAssignToShim, Phase::kAttach, "attach.assign", "slots mapped to the shim"},
    {Step::kReadBackShim, Phase::kAttach, "attach.readback", "every proxy read back"},
    {Step::kCutOver, Phase::kCutover, "cutover.switch", "slots switched"},
    {Step::kVerify, Phase::kVerify, "verify.compare", "both sides compared"},
    {Step::kGate, Phase::kHandback, "handback.gate", "whole new group in sync"},
    {Step::kFinal, Phase::kHandback, "handback.final", "shim lets go of the slots"},
    {Step::kHandBack, Phase::kHandback, "handback.assign", "slots mapped to their groups"},
    {Step::kReadBackTarget, Phase::kHandback, "handback.readback", "every proxy read back"},
    {Step::kSoak, Phase::kSoak, "soak.wait", "soak time"},
    {Step::kEndReverse, Phase::kCleanup, "cleanup.guard", "neither side follows the other"},
    {Step::kDeleteCopies, Phase::kCleanup, "cleanup.delete", "copies nobody owns deleted"},
    {Step::kRemoveShim, Phase::kDetach, "detach.group", "shim's group removed"},
};

const StepRow& row_of(Step step) {
  return *std::find_if(std::begin(kSteps), std::end(kSteps),
                       [step](const StepRow& row) { return row.step == step; });
}

}  // namespace

std::string_view phase_text(Phase phase) {
  return move_phase_names()[static_cast<size_t>(phase)];
}

Result<Phase> parse_phase(std::string_view text) {
  const auto& names = move_phase_names();
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) return static_cast<Phase>(it - names.begin());
  return Status::invalid(cat("'", printable(text),
                             "' is no phase; phases are replicate, attach, cutover, ",
                             "verify, handback, soak, cleanup, detach"));
}

std::string_view step_text(Step step) {
  return row_of(step).text;
}
std::string_view step_title(Step step) {
  return row_of(step).title;
}
Phase phase_of(Step step) {
  return row_of(step).phase;
}

std::vector<Step> Runbook::steps_of(const MovePlan& plan) {
  std::vector<Step> steps;
  for (const StepRow& row : kSteps) {
    if (row.phase == Phase::kVerify) continue;
    if (row.phase == Phase::kCleanup && !plan.cleanup) continue;
    // Without a reverse link the two sides can be compared only while the new one still follows.
    const bool verify_before = row.step == Step::kCutOver && plan.unit == CutUnit::kPlan;
    const bool verify_after = row.step == Step::kGate && plan.unit == CutUnit::kSlot;
    if (plan.verify && (verify_before || verify_after)) steps.push_back(Step::kVerify);
    steps.push_back(row.step);
  }
  return steps;
}

Runbook::Runbook(const MovePlan& plan, RunbookOptions options, const std::set<std::string>& done)
    : options_(std::move(options)) {
  for (const Step step : steps_of(plan)) {
    const bool wanted = options_.only.empty() ||
                        std::count(options_.only.begin(), options_.only.end(), phase_of(step)) > 0;
    if (wanted && !done.contains(std::string(step_text(step)))) pending_.push_back(step);
  }
  if (!options_.has_until) return;
  const auto last = std::find_if(pending_.rbegin(), pending_.rend(),
                                 [&](Step step) { return phase_of(step) == options_.until; });
  // Everything of the plan up to the phase may be done already, then nothing is left to do.
  if (last != pending_.rend()) {
    pending_.erase(last.base(), pending_.end());
  } else {
    std::erase_if(pending_, [&](Step step) { return phase_of(step) > options_.until; });
  }
}

Runbook::Action Runbook::halt(bool failed, std::string text) const {
  Action action;
  action.kind = Action::Kind::kHalt;
  action.failed = failed;
  action.text = std::move(text);
  return action;
}

Runbook::Action Runbook::next() {
  Action action;
  if (pending_.empty()) return action;
  action.step = pending_.front();
  action.phase = phase_of(action.step);
  const bool ask =
      options_.ask.contains(action.phase) && !options_.yes && !answered_.contains(action.phase);
  action.kind = ask ? Action::Kind::kAsk : Action::Kind::kRun;
  if (ask) action.text = cat("go on with ", phase_text(action.phase), "?");
  return action;
}

Runbook::Action Runbook::step(const Event& event) {
  const std::string current =
      pending_.empty() ? "the end" : std::string(step_text(pending_.front()));
  switch (event.kind) {
    case Event::Kind::kStart:
      return next();
    case Event::Kind::kDone:
      pending_.erase(pending_.begin());
      failures_ = 0;
      return next();
    case Event::Kind::kRetry: {
      if (++failures_ >= options_.tries) {
        return halt(true,
                    cat(current, ": ", event.text, " (tried ", failures_,
                        " times); mend that and run the same command again, it goes on here"));
      }
      Action action = next();
      action.kind = Action::Kind::kWait;
      action.text = event.text;
      return action;
    }
    case Event::Kind::kFailed:
      return halt(true, cat(current, ": ", event.text));
    case Event::Kind::kYes:
      answered_.insert(phase_of(pending_.front()));
      return next();
    case Event::Kind::kNo:
      return halt(false,
                  cat("stopped before ", phase_text(phase_of(pending_.front())),
                      "; run the same command again to go on, with --yes to answer the question"));
    case Event::Kind::kStop:
      break;
  }
  return halt(false, cat("stopped at ", current, "; run the same command again to go on"));
}

}  // namespace sf
