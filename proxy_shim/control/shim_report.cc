#include "proxy_shim/control/shim_report.h"

#include "common/base/strings.h"

namespace sf {

ShimReport::ShimReport(const RunPorts& ports, std::string run_id)
    : ports_(ports), run_id_(std::move(run_id)) {}

std::vector<ShimReport::Field> ShimReport::status() const {
  const MovePlan& plan = *ports_.plan;
  const RunLock lock = ports_.store->run_lock();
  const DataPlaneStats data = ports_.plane->stats();
  const PauseSummary pauses = ports_.stats->summary();
  const HealList::Report heals = this->heals();
  return {
      {"plan", plan.id},
      {"run_id", run_id_},
      {"epoch", static_cast<int64_t>(ports_.store->epoch())},
      {"unit", std::string(unit_text(plan.unit))},
      {"kind", std::string(ports_.driver->kind())},
      {"slots", plan.slots.text()},
      {"old", plan.old_side.master.text()},
      {"new", plan.new_side.master.text()},
      {"stay", plan.stay.text()},
      {"old_count", count(SlotPhase::kOld)},
      {"hold", count(SlotPhase::kHold) + count(SlotPhase::kBarrier)},
      {"promote", count(SlotPhase::kPromote)},
      {"new_count", count(SlotPhase::kNew)},
      {"final", count(SlotPhase::kFinal)},
      {"doubt", count(SlotPhase::kDoubt)},
      {"permit_ms_left", ports_.permits->ms_left(plan.slots)},
      {"lock_owner", lock.owner},
      {"lock_epoch", static_cast<int64_t>(lock.epoch)},
      {"auto", ports_.board->automatic().text()},
      {"next_attempt_ms", next_attempt_ms()},
      {"clients", data.clients},
      {"requests", data.requests},
      {"held", data.held_now},
      {"inflight", data.inflight},
      {"cutovers", pauses.cutovers},
      {"pause_p50_us", pauses.pause_p50_us},
      {"pause_p99_us", pauses.pause_p99_us},
      {"pause_max_us", pauses.pause_max_us},
      {"sync_p99_us", pauses.sync_p99_us},
      {"gap_p99_us", pauses.gap_p99_us},
      {"gap_max_us", pauses.gap_max_us},
      {"heal_state", heals.open ? heals.state : std::string("off")},
      {"heal_keys", heals.keys},
      {"heal_compared", heals.compared},
      {"healed", heals.healed},
      {"replication_faults", heals.faults},
      {"last_error", pauses.last_error},
  };
}

ShimReport::Slot ShimReport::slot(int slot) const {
  Slot out{ports_.board->row(slot), ""};
  const SlotPhase phase = out.row.phase;
  const bool known = phase != SlotPhase::kOutside && phase != SlotPhase::kDoubt;
  if (known) out.owner = ports_.board->owner(out.row).text();
  const int64_t left_us = out.row.next_us - ports_.clock->mono_us();
  if (left_us > 0) {
    out.row.text += cat(out.row.text.empty() ? "" : "; ", "next attempt in ",
                        (left_us + 999'999) / 1'000'000, " s");
  }
  return out;
}

int64_t ShimReport::next_attempt_ms() const {
  const int64_t now_us = ports_.clock->mono_us();
  const int64_t next_us = ports_.board->next_attempt_us(now_us);
  return next_us == 0 ? 0 : (next_us - now_us) / 1000 + 1;
}

std::string ShimReport::unwell() const {
  const SlotSet doubt = ports_.board->in_phase(SlotPhase::kDoubt);
  if (!doubt.empty()) return cat("slots ", doubt.text(), " are in DOUBT: SHIM SLOTS says why");
  for (const PairSide side : {PairSide::kOld, PairSide::kNew}) {
    if (ports_.board->writes_stopped(side)) {
      return cat("writes to the ", side == PairSide::kOld ? "old" : "new",
                 " side are refused: its master is not the one of the plan");
    }
  }
  return {};
}

}  // namespace sf
