#include "migrator/move_session.h"

#include <unistd.h>

#include <iostream>

#include "migrator/move_report.h"
#include "migrator/preflight.h"
#include "migrator/steps.h"

namespace sf {
namespace {

using Event = Runbook::Event;
using Action = Runbook::Action;

constexpr std::string_view kProgram = "slotferry";
constexpr int kStateFormat = 1;
constexpr int kRetryMs = 1000;
// Some steps wait by themselves before they give up, so tries alone would be no bound.
constexpr int64_t kRetryForUs = 180'000'000;

bool not_now(const Status& status) {
  return status.code() == Code::kUnavailable || status.code() == Code::kTimeout;
}

// What must not change while a move is under way; passwords, bounds and wishes may.
std::string essence(const MovePlan& plan) {
  return cat(plan.id, " slots ", plan.slots.text(), " stay ", plan.stay.text(), " groups ",
             plan.source_group, " ", plan.target_group, " ", plan.shim_group, " old ",
             plan.old_side.master.text(), " new ", plan.new_side.master.text(), " shim ",
             plan.shim.address.text(), " product ", plan.product);
}

}  // namespace

MoveSession::MoveSession(const MovePlan& plan, RunSettings settings, Output& out, StopFlag& stop)
    : plan_(plan), settings_(std::move(settings)), out_(out), stop_(stop) {}
MoveSession::~MoveSession() = default;

Result<std::unique_ptr<MoveSession>> MoveSession::open(const MovePlan& plan,
                                                       const RunSettings& settings,
                                                       const Clock& clock, Output& out,
                                                       StopFlag& stop) {
  std::unique_ptr<MoveSession> session(new MoveSession(plan, settings, out, stop));
  auto folder = StateFolder::open(settings.state_dir, kProgram, kStateFormat);
  if (!folder) return folder.status();
  session->folder_ = std::move(*folder);
  auto journal = Journal::open(settings.state_dir, clock);
  if (!journal) return journal.status();
  session->journal_ = std::move(*journal);
  const Status same = session->check_same_plan();
  if (!same) return same;
  session->context_ =
      std::make_unique<MoveContext>(session->plan_, clock, *session->journal_, out, stop);
  return session;
}

Status MoveSession::check_same_plan() {
  const auto begun = journal_->fact("plan");
  if (!begun) return journal_->set_fact("plan", essence(plan_));
  if (*begun == essence(plan_)) return Status::ok();
  return Status::invalid(cat("the state folder ", settings_.state_dir, " belongs to another plan (",
                             *begun, "); use that plan, or another --dir folder"));
}

Result<std::string> MoveSession::locked(const std::function<Result<std::string>()>& act) {
  // After detach there may be no shim, and nothing left that a second run could disturb in it.
  if (!journal_->is_done(step_text(Step::kRemoveShim))) {
    const Status lock = context_->ensure_lock(settings_.take_lock);
    if (!lock) return lock;
    settings_.take_lock =
        false;  // once: two runs that both take it must not take it from each other for ever
  }
  return act();
}

Event MoveSession::perform(Step step) {
  const std::string name(step_text(step));
  const Status intent = journal_->intent(name, step_title(step));
  if (!intent) return {Event::Kind::kFailed, intent.text()};
  const int64_t begun = context_->clock.mono_us();
  const auto result = locked([&] { return run_step(*context_, step); });
  if (result) {
    last_failure_.clear();
    failing_since_us_ = 0;
    const Status done = journal_->done(name, *result);
    if (!done) return {Event::Kind::kFailed, done.text()};
    out_.step_done(name, step_title(step), *result, (context_->clock.mono_us() - begun) / 1000);
    if (step != Step::kCutOver) return {Event::Kind::kDone, {}};
    const auto figures = context_->shim.status();
    const Status kept = figures ? keep_pauses(*journal_, *figures) : Status::ok();
    if (!kept) return {Event::Kind::kFailed, kept.text()};
    return {Event::Kind::kDone, {}};
  }
  if (last_failure_ != result.status().text()) {
    last_failure_ = result.status().text();
    const Status failed = journal_->failed(name, last_failure_);
    if (!failed) return {Event::Kind::kFailed, failed.text()};
    if (not_now(result.status()) && !stop_.raised())
      out_.warning(cat(last_failure_, "; trying again"));
  }
  if (stop_.raised()) return {Event::Kind::kStop, {}};
  return judge_failure(result.status());
}

Event MoveSession::judge_failure(const Status& status) {
  if (!not_now(status)) return {Event::Kind::kFailed, status.text()};
  const int64_t now = context_->clock.mono_us();
  if (failing_since_us_ == 0) failing_since_us_ = now;
  if (now - failing_since_us_ < kRetryForUs) return {Event::Kind::kRetry, status.text()};
  return {Event::Kind::kFailed,
          cat(status.text(), " (tried for ", (now - failing_since_us_) / 1'000'000,
              " s); mend that and run the same command again, it goes on here")};
}

Event MoveSession::ask(const Action& action) {
  if (isatty(STDIN_FILENO) != 1 || out_.mode() != Output::Mode::kBars)
    return {Event::Kind::kNo, {}};
  out_.text_only(cat("   ", action.text, " [y/N]"));
  std::string answer;
  std::getline(std::cin, answer);
  return {answer == "y" || answer == "yes" ? Event::Kind::kYes : Event::Kind::kNo, {}};
}

ExitCode MoveSession::walk() {
  RunbookOptions options;
  options.yes = settings_.yes;
  options.only = settings_.only;
  options.has_until = settings_.until.has_value();
  options.until = settings_.until.value_or(Phase::kDetach);
  options.ask.insert(Phase::kCleanup);  // I11: the operator's explicit word
  for (const std::string& name : plan_.ask) options.ask.insert(*parse_phase(name));
  Runbook runbook(plan_, options, journal_->done_steps());
  Event event;
  while (true) {
    const Action action = runbook.step(stop_.raised() ? Event{Event::Kind::kStop, {}} : event);
    switch (action.kind) {
      case Action::Kind::kRun:
        if (!any_shown_ || shown_ != action.phase) out_.phase(phase_text(action.phase));
        any_shown_ = true;
        shown_ = action.phase;
        event = perform(action.step);
        break;
      case Action::Kind::kWait:
        stop_.wait_ms(kRetryMs);
        event = Event{};
        break;
      case Action::Kind::kAsk:
        event = ask(action);
        break;
      case Action::Kind::kHalt:
        finish();
        out_.error(action.text);
        return action.failed ? kExitFailed : kExitAsked;
      case Action::Kind::kFinish:
        finish();
        return kExitDone;
    }
  }
}

void MoveSession::finish() {
  const Status released = context_->release_lock();
  if (!released) out_.warning(cat("the run lock stays with this run: ", released.text()));
}

ExitCode MoveSession::run() {
  if (journal_->done_steps().empty() && !settings_.skip_preflight) {
    out_.phase("preflight");
    const auto checks = run_preflight(plan_, context_->clock);
    show_checks(out_, checks);
    if (has_stop(checks)) {
      out_.error("preflight says stop; nothing was changed");
      return kExitFailed;
    }
  }
  const ExitCode code = walk();
  if (code == kExitDone) {
    out_.phase("report");
    show_report(out_, make_report(plan_, *journal_));
    if (!settings_.until && !plan_.cleanup) {
      out_.note("the old copy was kept; delete it with slotferry cleanup PLAN --yes");
    }
  }
  return code;
}

ExitCode MoveSession::run_steps_only(std::vector<Phase> phases) {
  settings_.only = std::move(phases);
  return walk();
}

ExitCode MoveSession::once(std::string_view name,
                           const std::function<Result<std::string>(MoveContext&)>& act) {
  const int64_t begun = context_->clock.mono_us();
  Status written = journal_->intent(name, "asked for by its own command");
  Result<std::string> result(written);
  if (written) result = locked([&] { return act(*context_); });
  if (result) {
    written = journal_->done(name, *result);
    if (!written) result = Result<std::string>(written);
  } else if (written) {
    (void)journal_->failed(name, result.status().text());
  }
  finish();
  if (!result) {
    out_.error(cat(name, ": ", result.status().text()));
    return kExitFailed;
  }
  out_.step_done(name, name, *result, (context_->clock.mono_us() - begun) / 1000);
  return kExitDone;
}

}  // namespace sf
