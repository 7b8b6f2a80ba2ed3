// What a lane does with one unit (cutover_runner.h): may it start, the attempt, and what is owed
// afterwards.
#include <algorithm>

#include "common/base/file.h"
#include "proxy_shim/control/cutover_runner.h"
#include "proxy_shim/control/direction.h"

namespace sf {
namespace {

constexpr int64_t kForecastMs = 1'000;   // timeout of the forecast's questions
constexpr int64_t kRoomMin = 64L << 20;  // bytes free where the owner record goes
constexpr int64_t kDebtPassMs = 1'000;   // of one round over what is owed
constexpr int64_t kDebtGapMsMin = 200;
constexpr int64_t kDebtGapMsMax = 5'000;

}  // namespace

void CutoverRunner::loop(Lane& lane) {
  std::unique_lock lock(mutex_);
  Job job;
  while (take_job(lock, lane, &job)) {
    lock.unlock();
    UnitResult result{job.slots, SlotPhase::kOld, 0, 0, ""};
    const Verdict verdict = run_job(lane, job, &result);
    finish_job(lane, std::move(job), verdict, std::move(result));
    lock.lock();
  }
}

bool CutoverRunner::may_start(Lane& lane, const Job& job, Unit& unit, std::string* why_not,
                              bool* hopeless) {
  *hopeless = false;
  BackendDriver& driver = *lane.ports_for(job.back).driver;
  if (unit.machine->owes() && !pay(lane, unit, job.slots, job.max_pause_ms)) {
    *why_not = cat("an earlier attempt is not yet taken back, or tied up: ", unit.machine->debt());
    return false;
  }
  if (!ports_.permits->valid(job.slots, why_not)) {
    *hopeless = true;
    return false;
  }
  if (ports_.board->writes_stopped(PairSide::kOld) ||
      ports_.board->writes_stopped(PairSide::kNew)) {
    *why_not = "a master is not what it was: writes to it are stopped";
    return false;
  }
  Result<int64_t> room = free_bytes(options_.state_dir);
  if (room && *room < kRoomMin) {
    *why_not =
        cat(options_.state_dir, " has less than 64 MiB free; the owner record must find room");
    *hopeless = true;
    return false;
  }
  const Status ready = driver.make_ready(job.slots, kForecastMs);
  if (!ready) {
    *why_not = ready.text();
    return false;
  }
  const SyncState sync = driver.sync_state(job.slots, kForecastMs);
  if (!sync.following) {
    *why_not = cat("not in sync: ", sync.text);
    return false;
  }
  if (sync.lag >= 0) {
    ports_.board->add_lag(job.slots, {ports_.clock->mono_us(), sync.lag, sync.applied});
  }
  *why_not = why_too_late(ports_.board->forecast(job.slots), job.max_pause_ms, driver.lag_limit(),
                          sync.queue_ms, driver.lag_in_bytes());
  return why_not->empty();
}

CutoverRunner::Verdict CutoverRunner::run_job(Lane& lane, Job& job, UnitResult* result) {
  ++job.attempts;
  const SlotRow row = ports_.board->row(job.slots.first());
  const SlotPhase from = turned(SlotPhase::kOld, job.back);
  result->phase = row.phase;
  if (row.phase != from) {
    result->text = row.phase == SlotPhase::kDoubt ? row.text
                   : !job.back                    ? "the new side owns it already"
                   : row.phase == SlotPhase::kFinal
                       ? "it is handed back: nothing sends it here any more"
                       : "the old side owns it already";
    return Verdict::kDone;
  }
  Unit& unit = unit_of(job.slots, job.back);
  bool hopeless = false;
  if (!may_start(lane, job, unit, &result->text, &hopeless)) {
    ports_.board->set_text(job.slots, cat("not started: ", result->text));
    return hopeless || job.attempts >= options_.attempts_max ? Verdict::kDone : Verdict::kAgain;
  }
  if (!job.back && waits_for_pass(lane, &result->text)) {
    ports_.board->set_text(job.slots, cat("waits: ", result->text));
    --job.attempts;
    return Verdict::kWaits;
  }
  if (unit.back != job.back) {
    unit.back = job.back;
    unit.machine = std::make_unique<CutoverMachine>(ports_.driver->traits(), SlotPhase::kOld);
  }
  CutoverMachine& machine = *unit.machine;
  UnitRun run(lane.ports_for(job.back), &lane.interrupts, &machine, job.slots, job.max_pause_ms,
              job.back);
  run.attempt(ports_.store->reserve_epoch(), &lane);
  note_debts(unit, job.slots);
  result->phase = turned(machine.phase(), job.back);
  result->pause_us = run.pause_us();
  result->held = run.held();
  result->text = run.text();
  if (machine.owes()) {
    std::lock_guard guard(mutex_);
    debt_gap_ms_ = kDebtGapMsMin;
    owe_later_locked();
  }
  const bool again = result->phase == from && job.attempts < options_.attempts_max;
  return again ? Verdict::kAgain : Verdict::kDone;
}

bool CutoverRunner::waits_for_pass(const Lane& lane, std::string* why) const {
  const std::vector<std::string>& accept = ports_.plan->accept;
  const bool compares = ports_.heals != nullptr && lane.ports_for(false).driver->traits().heals &&
                        lane.ports_for(false).driver->lists_keys();
  if (!compares || ports_.heals->passed()) return false;
  if (std::find(accept.begin(), accept.end(), "uncompared") != accept.end()) return false;
  *why = cat("these servers do not replicate faithfully: ", ports_.heals->report().state);
  return true;
}

CutoverRunner::Unit& CutoverRunner::unit_of(const SlotSet& slots, bool back) {
  std::lock_guard guard(mutex_);
  Unit& unit = units_[slots.first()];
  if (!unit.machine) {
    const SlotPhase phase = ports_.board->row(slots.first()).phase;
    unit.back = back;
    unit.machine = std::make_unique<CutoverMachine>(ports_.driver->traits(), turned(phase, back));
  }
  return unit;
}

void CutoverRunner::owe(const SlotSet& unit, const CutoverMachine::Debts& debts, uint64_t epoch,
                        bool back) {
  Unit& owing = unit_of(unit, back);
  owing.machine->owe(debts, epoch);
  note_debts(owing, unit);
  std::lock_guard guard(mutex_);
  debt_gap_ms_ = kDebtGapMsMin;
  debts_due_us_ = ports_.clock->mono_us();
}

void CutoverRunner::owe_later_locked() {
  const int64_t due = ports_.clock->mono_us() + debt_gap_ms_ * 1000;
  if (debts_due_us_ == 0 || due < debts_due_us_) debts_due_us_ = due;
}

// With the lock held at its begin and end. One unit after the other is taken from the others.
void CutoverRunner::pay_debts(std::unique_lock<std::mutex>& lock, Lane& lane) {
  paying_ = true;
  debts_due_us_ = 0;
  std::vector<int> firsts;
  for (const auto& [first, unit] : units_) firsts.push_back(first);
  bool left = false;
  bool passed_over = false;  // another lane has it, and may leave a debt as it was
  const int64_t enough = ports_.clock->mono_us() + kDebtPassMs * 1000;
  for (const int first : firsts) {
    // Servers that do not answer must not hold up the queue, nor a stop.
    if (left && (ports_.clock->mono_us() > enough || stopping_)) break;
    const SlotSet slots =
        ports_.plan->unit == CutUnit::kPlan ? ports_.plan->slots : SlotSet::of(first);
    if (busy_locked().intersects(slots)) {
      passed_over = true;
      continue;
    }
    Unit& unit = units_[first];
    if (ports_.board->row(first).phase == SlotPhase::kFinal) unit.machine->forgive_link();
    if (!unit.machine->owes()) continue;
    lane.paying = slots;
    lock.unlock();
    if (!pay(lane, unit, slots, options_.max_pause_ms)) left = true;
    lock.lock();
    lane.paying = {};
  }
  paying_ = false;
  debt_gap_ms_ = std::clamp(debt_gap_ms_ * 2, kDebtGapMsMin, kDebtGapMsMax);
  if (left || passed_over) owe_later_locked();
  changed_.notify_all();
}

bool CutoverRunner::pay(Lane& lane, Unit& unit, const SlotSet& slots, int64_t max_pause_ms) {
  UnitRun run(lane.ports_for(unit.back), &lane.interrupts, unit.machine.get(), slots, max_pause_ms,
              unit.back);
  const bool paid = run.retry();
  note_debts(unit, slots);
  return paid;
}

void CutoverRunner::note_debts(const Unit& unit, const SlotSet& slots) {
  const bool owes = unit.back && unit.machine->owes();
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) {
    if (owes) owing_back_[slot] = unit.machine->debt();
    if (!owes) owing_back_.erase(slot);
  });
}

}  // namespace sf
