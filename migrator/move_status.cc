#include "migrator/move_status.h"

#include <map>

#include "migrator/journal.h"
#include "migrator/runbook.h"
#include "migrator/shim_admin.h"

namespace sf {
namespace {

constexpr int kWatchMs = 1000;

void show_steps(const MovePlan& plan, const Journal& journal, Output& out) {
  std::string next;
  int done = 0;
  const auto steps = Runbook::steps_of(plan);
  for (const Step step : steps) {
    if (journal.is_done(step_text(step))) {
      ++done;
    } else if (next.empty()) {
      next = step_text(step);
    }
  }
  const auto& entries = journal.entries();
  const std::string newest = entries.empty() ? ""
                                             : cat(journal_kind_text(entries.back().kind), " ",
                                                   entries.back().step, ": ", entries.back().text);
  out.table({{"plan", plan.id},
             {"steps done", cat(done, " of ", steps.size())},
             {"next step", next.empty() ? "none, the move is complete" : next},
             {"newest journal entry", newest}});
  out.json_only("status", {{"plan", json_text(plan.id)},
                           {"steps_done", std::to_string(done)},
                           {"steps", std::to_string(steps.size())},
                           {"next", json_text(next)},
                           {"newest", json_text(newest)}});
}

std::map<std::string, SlotSet> by_state(const std::map<int, ShimSlot>& rows) {
  std::map<std::string, SlotSet> states;
  for (const auto& [slot, row] : rows) states[row.state].add(slot);
  return states;
}

}  // namespace

Status show_status(const MovePlan& plan, const std::string& state_dir, const Clock& clock,
                   Output& out) {
  const auto journal = Journal::open_read_only(state_dir, clock);
  if (journal) {
    show_steps(plan, **journal, out);
  } else if (journal.status().code() == Code::kNotFound) {
    out.note(journal.status().text());
  } else {
    return journal.status();
  }
  ShimAdmin shim(plan.shim);
  const auto status = shim.status();
  if (!status) return status.status();
  const auto rows = shim.slots(plan.slots);
  if (!rows) return rows.status();
  Fields fields;
  std::vector<std::pair<std::string, std::string>> lines;
  for (const auto& [state, slots] : by_state(*rows)) {
    lines.emplace_back("slots " + state, cat(slots.size(), ": ", slots.text()));
  }
  for (const auto& [name, value] : *status) {
    lines.emplace_back("shim " + name, value);
    fields.emplace_back(name, json_text(value));
  }
  out.table(lines);
  out.json_only("shim", fields);
  return Status::ok();
}

Status show_journal(const std::string& state_dir, const Clock& clock, Output& out) {
  const auto journal = Journal::open_read_only(state_dir, clock);
  if (!journal) return journal.status();
  for (const JournalEntry& entry : (*journal)->entries()) {
    out.text_only(
        cat(entry.time_ms, " ", journal_kind_text(entry.kind), " ", entry.step, ": ", entry.text));
    out.json_only("entry", {{"seq", std::to_string(entry.seq)},
                            {"at_ms", std::to_string(entry.time_ms)},
                            {"kind", json_text(journal_kind_text(entry.kind))},
                            {"step", json_text(entry.step)},
                            {"text", json_text(entry.text)}});
  }
  return Status::ok();
}

Status watch_move(const MovePlan& plan, Output& out, StopFlag& stop) {
  ShimAdmin shim(plan.shim);
  while (true) {
    const auto status = shim.status();
    if (!status) return status.status();
    const auto rows = shim.slots(plan.slots);
    if (!rows) return rows.status();
    int64_t switched = 0;
    for (const auto& [slot, row] : *rows)
      switched += row.state == "new" || row.state == "final" ? 1 : 0;
    const std::string detail = cat("held ", status_text(*status, "held"), ", pause max ",
                                   human_ms(status_number(*status, "pause_max_us")), ", in doubt ",
                                   status_text(*status, "doubt"));
    out.progress({"switched", switched, plan.slots.size(), "slots", detail});
    if (switched == plan.slots.size()) {
      out.text_only("");
      return Status::ok();
    }
    if (stop.wait_ms(kWatchMs)) return Status::ok();
  }
}

}  // namespace sf
