#include "proxy_shim/control/move_control.h"

#include "proxy_shim/control/direction.h"

namespace sf {
namespace {

constexpr int64_t kConnectMs = 1'000;
constexpr int64_t kAskMs = 2'000;
constexpr int kVerdictsTold = 5;  // in the log; all stand in SHIM SLOTS

RunnerOptions runner_options(const MovePlan& plan, const std::string& state_dir) {
  RunnerOptions out;
  out.max_pause_ms = plan.max_pause_ms;
  out.pacing.hold_share_percent = plan.hold_share_percent;
  out.pacing.at_once = plan.units_in_flight;
  out.state_dir = state_dir;
  return out;
}

std::vector<CutoverRunner::LaneDrivers> pointers(const std::vector<MoveControl::Lane>& lanes) {
  std::vector<CutoverRunner::LaneDrivers> out;
  for (const auto& lane : lanes) out.push_back({lane.there.get(), lane.back.get()});
  return out;
}

}  // namespace

// One is connected, which shows that it can be done; the others do it with their first question,
// which is asked before anything is held.
Result<std::vector<MoveControl::Lane>> MoveControl::reach_lanes(const MovePlan& plan,
                                                                const ControlPorts& ports) {
  const std::string name = "slotferry-shim-" + ports.run_id.substr(0, 8);
  auto first = make_driver(plan, ports.store, ports.clock, name, kConnectMs);
  if (!first) return first.status();
  std::vector<Lane> out;
  out.push_back({std::move(*first), nullptr});
  const BackendDriver& driver = *out.front().there;
  out.front().back = driver.another(turned(plan), name + "-back");
  if (out.front().back == nullptr) return out;
  const int lanes = CutoverRunner::lanes_for(runner_options(plan, "").pacing);
  for (int i = 1; i < lanes; ++i) {
    const std::string own = cat(name, "-", i);
    out.push_back({driver.another(plan, own), driver.another(turned(plan), own + "-back")});
  }
  return out;
}

Result<std::unique_ptr<MoveControl>> MoveControl::reach(MovePlan plan, const ControlPorts& ports) {
  auto lanes = reach_lanes(plan, ports);
  if (!lanes) return lanes.status();
  auto second = make_driver(plan, ports.store, ports.clock, "slotferry-shim-monitor", kConnectMs);
  if (!second) return second.status();
  std::unique_ptr<BackendDriver> for_pass;
  if (lanes->front().there->traits().heals) {
    auto last = make_driver(plan, ports.store, ports.clock, "slotferry-shim-heal", kConnectMs);
    if (!last) return last.status();
    for_pass = std::move(*last);
  }
  return std::unique_ptr<MoveControl>(new MoveControl(std::move(plan), ports, std::move(*lanes),
                                                      std::move(*second), std::move(for_pass)));
}

MoveControl::MoveControl(MovePlan plan, const ControlPorts& ports, std::vector<Lane> lanes,
                         std::unique_ptr<BackendDriver> for_monitor,
                         std::unique_ptr<BackendDriver> for_pass)
    : plan_(std::move(plan)),
      shared_(ports),
      lanes_(std::move(lanes)),
      permits_(std::make_unique<Permits>(ports.clock)),
      board_(std::make_unique<SlotBoard>(plan_)),
      ports_{&plan_,
             ports.store,
             board_.get(),
             permits_.get(),
             lanes_.front().there.get(),
             ports.plane,
             ports.stats,
             ports.clock,
             ports.log.tagged("cutover"),
             ports.heals},
      runner_(std::make_unique<CutoverRunner>(ports_, runner_options(plan_, ports.state_dir),
                                              pointers(lanes_))),
      watch_(std::make_unique<GroupWatch>(
          plan_, board_.get(), ports.store,
          [this](const std::string& why) { runner_->interrupt(why); }, ports.log.tagged("groups"))),
      monitor_(std::make_unique<BackendMonitor>(
          plan_, std::move(for_monitor), board_.get(), ports.plane, ports.store, ports.clock,
          [this] { runner_->wake(); }, [this](const std::string& why) { runner_->interrupt(why); },
          ports.log.tagged("monitor"))),
      heal_pass_(std::make_unique<HealPass>(plan_, std::move(for_pass), ports.heals, permits_.get(),
                                            ports.plane, ports.clock, ports.log.tagged("heal"))),
      report_(ports_, ports.run_id),
      commands_(ports_, runner_.get(), &report_, ports.reloader) {
  const CutTraits& traits = lanes_.front().there->traits();
  if (traits.heals) board_->note_writes(traits.loses_timed);
  // Where CLIENT LIST is what accounts for writes, a connection must say whose it is.
  if (!traits.end_fenced) board_->name_connections("slotferry-shim-data");
  monitor_->before_accepting([this](PairSide side) { return watch_->confirms(side); });
}

MoveControl::~MoveControl() {
  stop();
}

Status MoveControl::settle() {
  Result<StartVerdicts> verdicts = settle_at_start(plan_, *shared_.store, *lanes_.front().there,
                                                   kAskMs, shared_.log, lanes_.front().back.get());
  if (!verdicts) return verdicts.status();
  if (lanes_.front().there->traits().heals) {
    if (Status status = shared_.heals->open(); !status) return status;
  }
  SlotSet unmarked[2];  // by the side that owns
  int told = 0;
  SlotSet done;
  for (const auto& [slot, verdict] : verdicts->slots) {
    const SlotRecord record = shared_.store->record(slot);
    board_->set_phase(SlotSet::of(slot), verdict.phase, record.epoch, verdict.text);
    if (!verdict.text.empty() && ++told <= kVerdictsTold) shared_.log.warning(verdict.text);
    const CutoverMachine::Debts& debts = verdict.debts;
    if (debts.mark) unmarked[!verdict.back].add(slot);
    if (done.contains(slot) || !(debts.follow || debts.unfence || debts.mark || debts.link))
      continue;
    const SlotSet unit = plan_.unit == CutUnit::kPlan ? plan_.slots : SlotSet::of(slot);
    runner_->owe(unit, debts, verdicts->epoch, verdict.back);
    done.add(unit);
  }
  if (told > kVerdictsTold) {
    shared_.log.warning(cat("the same or another thing is to be said of ", told - kVerdictsTold,
                            " more slots: SHIM SLOTS"));
  }
  // Without its marker a side that was switched to takes no client write.
  const Status status = board_->owe_marker(PairSide::kOld, unmarked[0], true);
  return status ? board_->owe_marker(PairSide::kNew, unmarked[1], true) : status;
}

void MoveControl::inherit(const MoveControl& before) {
  board_->set_auto(before.board_->automatic(), true);
  board_->begin_above(before.board_->route_epoch());
}

void MoveControl::look() {
  watch_->round();
  monitor_->round();
}

void MoveControl::begin() {
  board_->attach(shared_.plane);
  runner_->start();
  monitor_->start();
  watch_->start();
  heal_pass_->start();
}

bool MoveControl::is_still(PairSide side) const {
  return board_->stopped_for(side, SlotBoard::Reason::kReplaced);
}

void MoveControl::move_on(const std::array<bool, 2>& frozen) {
  for (const PairSide side : {PairSide::kOld, PairSide::kNew}) {
    if (!frozen[side == PairSide::kNew]) (void)commands_.hold_still(side, false);
  }
}

SlotSet MoveControl::owned_by(PairSide side) const {
  return board_->owned_by(side);
}

void MoveControl::stop() {
  heal_pass_->stop();
  watch_->stop();
  monitor_->stop();
  runner_->stop();
}

}  // namespace sf
