#include "migrator/move_report.h"

#include <algorithm>
#include <cstdio>

#include "migrator/runbook.h"

namespace sf {
namespace {

constexpr const char* kPauseFacts[] = {"cutovers", "pause_p50_us", "pause_p99_us", "pause_max_us"};

// Microseconds as a JSON number of milliseconds, milliseconds as one of seconds.
std::string thousandths(int64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(value) / 1000);
  return text;
}

int64_t number_fact(const Journal& journal, std::string_view name, int64_t otherwise) {
  const auto text = journal.fact(name);
  return text ? parse_int64(*text).value_or(otherwise) : otherwise;
}

}  // namespace

Status keep_pauses(Journal& journal, const ShimStatus& status) {
  for (const char* name : kPauseFacts) {
    const Status kept = journal.set_fact(name, status_text(status, name));
    if (!kept) return kept;
  }
  return Status::ok();
}

MoveReport make_report(const MovePlan& plan, const Journal& journal) {
  MoveReport report;
  report.plan = plan.id;
  report.slots = plan.slots.text();
  report.slot_count = plan.slots.size();
  if (journal.is_done(step_text(Step::kReadBackTarget))) report.slots_moved = report.slot_count;
  report.keys = number_fact(journal, "verify-keys", -1);
  report.bytes = number_fact(journal, "verify-bytes", number_fact(journal, "copied-bytes", -1));
  report.verify = journal.fact("verify").value_or("not run");
  report.differing = number_fact(journal, "verify-differing", 0);
  report.cutovers = number_fact(journal, "cutovers", 0);
  report.pause_p50_us = number_fact(journal, "pause_p50_us", 0);
  report.pause_p99_us = number_fact(journal, "pause_p99_us", 0);
  report.pause_max_us = number_fact(journal, "pause_max_us", 0);
  int64_t first = 0;
  int64_t last = 0;
  MovePlan whole = plan;
  whole.cleanup = true;  // it may have been done by its own command
  for (const Step step : Runbook::steps_of(whole)) {
    const int64_t begun = journal.first_intent(step_text(step));
    const int64_t ended = journal.time_of(JournalEntry::Kind::kDone, step_text(step));
    if (begun == 0 || ended < begun) continue;
    first = first == 0 ? begun : std::min(first, begun);
    last = std::max(last, ended);
    const std::string phase(phase_text(phase_of(step)));
    if (report.phase_ms.empty() || report.phase_ms.back().first != phase)
      report.phase_ms.emplace_back(phase, 0);
    report.phase_ms.back().second += ended - begun;
  }
  report.total_ms = last - first;
  return report;
}

void show_report(Output& out, const MoveReport& report) {
  std::string phases = "{";
  std::vector<std::pair<std::string, std::string>> rows = {
      {"plan", report.plan},
      {"slots", cat(report.slots, " (", report.slot_count, ")")},
      {"slots moved", std::to_string(report.slots_moved)},
      {"keys", report.keys < 0 ? "not counted (verify did not run)" : human_count(report.keys)},
      {"bytes", report.bytes < 0 ? "not counted" : human_bytes(report.bytes)},
      {"cutovers", std::to_string(report.cutovers)},
      {"pause p50, p99, max",
       cat(human_ms(report.pause_p50_us), ", ", human_ms(report.pause_p99_us), ", ",
           human_ms(report.pause_max_us))},
      {"verify", report.differing == 0
                     ? report.verify
                     : cat(report.verify, ", ", report.differing, " keys differ")}};
  for (const auto& [phase, ms] : report.phase_ms) {
    rows.emplace_back("seconds " + phase, human_seconds(ms));
    phases += cat(phases.size() > 1 ? "," : "", json_text(phase), ":", thousandths(ms));
  }
  rows.emplace_back("seconds in all", human_seconds(report.total_ms));
  out.table(rows);
  out.json_only("report", {{"plan", json_text(report.plan)},
                           {"slots", json_text(report.slots)},
                           {"slot_count", std::to_string(report.slot_count)},
                           {"slots_moved", std::to_string(report.slots_moved)},
                           {"keys", std::to_string(report.keys)},
                           {"bytes", std::to_string(report.bytes)},
                           {"cutovers", std::to_string(report.cutovers)},
                           {"pause_p50_ms", thousandths(report.pause_p50_us)},
                           {"pause_p99_ms", thousandths(report.pause_p99_us)},
                           {"pause_max_ms", thousandths(report.pause_max_us)},
                           {"verify", json_text(report.verify)},
                           {"differing", std::to_string(report.differing)},
                           {"phases_s", phases + "}"},
                           {"total_s", thousandths(report.total_ms)}});
}

}  // namespace sf
