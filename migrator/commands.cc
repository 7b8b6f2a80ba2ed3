#include "migrator/commands.h"

#include <unistd.h>

#include "common/base/file.h"
#include "migrator/command_line.h"
#include "migrator/move_report.h"
#include "migrator/move_status.h"
#include "migrator/preflight.h"
#include "migrator/steps.h"

namespace sf {
namespace {

int fail(const Status& status, int code = kExitFailed) {
  std::fprintf(stderr, "slotferry: %s\n", status.text().c_str());
  return code;
}

int write_plan(const CommandLine& line) {
  if (!line.overwrite && access(line.out_path.c_str(), F_OK) == 0) {
    return fail(Status::exists(cat(line.out_path,
                                   " exists already; choose another --out, or say --overwrite")),
                kExitUsage);
  }
  const auto plan = make_plan(line.request);
  if (!plan) return fail(plan.status());
  const Status written = write_file_atomic(line.out_path, plan->to_json());
  if (!written) return fail(written);
  std::printf(
      "%s: plan %s moves slots %s from group %d (%s) to group %d (%s), kind %s; read it, then: "
      "slotferry "
      "preflight %s\n",
      line.out_path.c_str(), plan->id.c_str(), plan->slots.text().c_str(), plan->source_group,
      plan->old_side.master.text().c_str(), plan->target_group,
      plan->new_side.master.text().c_str(), std::string(kind_text(plan->old_side.kind)).c_str(),
      line.out_path.c_str());
  return kExitDone;
}

int preflight(const MovePlan& plan, const Clock& clock, Output& out) {
  const auto checks = run_preflight(plan, clock);
  show_checks(out, checks);
  if (!has_stop(checks)) return kExitDone;
  out.error("preflight says stop; mend what it names first");
  return kExitFailed;
}

int dry_run(const MovePlan& plan, const CommandLine& line, const Clock& clock, Output& out) {
  std::set<std::string> done;
  const auto journal = Journal::open_read_only(line.state_dir, clock);
  if (journal) done = (*journal)->done_steps();
  int code = kExitDone;
  if (done.empty()) code = preflight(plan, clock, out);
  for (const Step step : Runbook::steps_of(plan)) {
    const bool over = done.contains(std::string(step_text(step)));
    out.note(cat(over ? "done  " : "to do ", step_text(step), ": ", step_title(step)));
  }
  return code;
}

int run_move(MoveSession& session, const MovePlan& plan, const CommandLine& line) {
  switch (line.command) {
    case Command::kRun:
      return session.run();
    case Command::kHandback:
      return session.run_steps_only({Phase::kHandback});
    case Command::kCleanup:
      return session.run_steps_only({Phase::kCleanup});
    case Command::kDetach:
      return session.run_steps_only({Phase::kDetach});
    case Command::kVerify:
      return session.once(step_text(Step::kVerify), verify_sides);
    case Command::kAbort:
      return session.once("abort", abort_move);
    default:
      break;
  }
  const SlotSet slots = line.slots.value_or(plan.slots);
  return session.once("cutover",
                      [slots](MoveContext& context) { return cut_over_slots(context, slots); });
}

int change(MovePlan plan, const CommandLine& line, const Clock& clock, Output& out,
           StopFlag& stop) {
  if (line.slots && !plan.slots.contains(*line.slots)) {
    return fail(Status::invalid(cat("slots ", line.slots->text(), " are not all in the plan (",
                                    plan.slots.text(), ")")),
                kExitUsage);
  }
  if (line.command == Command::kCleanup) {
    if (!line.yes) {
      return fail(Status::refused(
                      "cleanup deletes data for good; say --yes after reading slotferry status"),
                  kExitAsked);
    }
    plan.cleanup = true;
  }
  RunSettings settings;
  settings.state_dir = line.state_dir;
  settings.yes = line.yes;
  settings.take_lock = line.take_lock;
  settings.until = line.until;
  auto session = MoveSession::open(plan, settings, clock, out, stop);
  if (!session) return fail(session.status());
  return run_move(**session, plan, line);
}

int report(const MovePlan& plan, const CommandLine& line, const Clock& clock, Output& out) {
  const auto journal = Journal::open_read_only(line.state_dir, clock);
  if (!journal) return fail(journal.status());
  show_report(out, make_report(plan, **journal));
  return kExitDone;
}

int on_plan(const CommandLine& line, StopFlag& stop) {
  const auto plan = MovePlan::load(line.plan_path);
  if (!plan) return fail(plan.status(), kExitUsage);
  const SystemClock clock;
  Output out(stdout, Output::mode_for(stdout, line.json), clock);
  Status status;
  switch (line.command) {
    case Command::kPreflight:
      return preflight(*plan, clock, out);
    case Command::kStatus:
      status = show_status(*plan, line.state_dir, clock, out);
      break;
    case Command::kJournal:
      status = show_journal(line.state_dir, clock, out);
      break;
    case Command::kWatch:
      status = watch_move(*plan, out, stop);
      break;
    case Command::kReport:
      return report(*plan, line, clock, out);
    default:
      return line.dry_run ? dry_run(*plan, line, clock, out)
                          : change(*plan, line, clock, out, stop);
  }
  return status.is_ok() ? kExitDone : fail(status);
}

}  // namespace

int run_command(const std::vector<std::string>& arguments, StopFlag& stop) {
  const auto line = parse_command_line(arguments);
  if (!line) return fail(line.status(), kExitUsage);
  switch (line->command) {
    case Command::kHelp:
      std::fputs(line->help.c_str(), stdout);
      return kExitDone;
    case Command::kVersion:
      std::printf("%s\n", version_text("slotferry").c_str());
      return kExitDone;
    case Command::kPlan:
      return write_plan(*line);
    default:
      return on_plan(*line, stop);
  }
}

}  // namespace sf
