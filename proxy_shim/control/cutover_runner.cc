#include "proxy_shim/control/cutover_runner.h"

#include <algorithm>
#include <chrono>

#include "common/base/file.h"
#include "proxy_shim/control/direction.h"

namespace sf {
namespace {

constexpr int64_t kForecastMs = 1'000;   // timeout of the forecast's questions
constexpr int64_t kRoomMin = 64L << 20;  // bytes free where the owner record goes
constexpr int64_t kDebtPassMs = 1'000;   // of one round over what is owed
constexpr int64_t kDebtGapMsMin = 200;
constexpr int64_t kDebtGapMsMax = 5'000;
constexpr int64_t kIdleLookMs = 1'000;
constexpr int64_t kPassLookMs = 200;
constexpr int64_t kTurnSliceUs = 20'000;  // between looks at the interrupts while waiting
// Somebody waits for the answer, and there are only a few attempts.
constexpr int64_t kNoRest = INT64_MAX;
constexpr int kDoublingsMax = 20;  // of a back-off
constexpr int kSteadySamples = 2;  // small lags in a row before the automatic mode starts

}  // namespace

CutoverRunner::CutoverRunner(const RunPorts& ports, RunnerOptions options,
                             std::vector<LaneDrivers> lanes)
    : ports_(ports),
      options_(std::move(options)),
      answers_(
          ports.clock, options_.answer_ms,
          [board = ports.board](const SlotSet& unit) { return board->row(unit.first()).phase; }),
      turns_(options_.pacing) {
  if (lanes.empty()) lanes.push_back({ports.driver, nullptr});
  for (const LaneDrivers& drivers : lanes) {
    RunPorts there = ports;
    there.driver = drivers.there;
    RunPorts back = ports;
    back.driver = drivers.back;
    lanes_.push_back(std::make_unique<Lane>(this, there, back));
  }
}

CutoverRunner::~CutoverRunner() {
  stop();
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

void CutoverRunner::start() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = false;
  }
  answers_.start();
  for (auto& lane : lanes_) lane->thread = std::thread([this, own = lane.get()] { loop(*own); });
}

void CutoverRunner::stop() {
  {
    std::lock_guard guard(mutex_);
    if (stopping_) return;
    stopping_ = true;
    for (auto& lane : lanes_) {
      if (!lane->running.empty()) {
        lane->interrupts.set("the shim stops, or takes a changed plan over");
      }
    }
  }
  changed_.notify_all();
  for (auto& lane : lanes_) {
    if (lane->thread.joinable()) lane->thread.join();
  }
  std::deque<Job> rest;
  {
    std::lock_guard guard(mutex_);
    rest.swap(queue_);
  }
  for (const Job& left : rest) {
    const SlotPhase phase = ports_.board->row(left.slots.first()).phase;
    answer(left, {left.slots, phase, 0, 0, "not begun: the shim is being stopped"});
  }
  answers_.stop();
}

void CutoverRunner::interrupt(const std::string& why) {
  std::lock_guard guard(mutex_);
  for (auto& lane : lanes_) {
    if (!lane->running.empty()) lane->interrupts.set(why);
  }
  changed_.notify_all();
}

void CutoverRunner::wake() {
  changed_.notify_all();
}

// ---- turns to hold

bool CutoverRunner::Lane::take_turn(const std::function<bool()>& gave_up, int64_t* gap_us) {
  std::unique_lock lock(runner->mutex_);
  const Clock& clock = *runner->ports_.clock;
  for (;;) {
    if (gave_up()) return false;
    const int64_t wait_us = runner->turns_.wait_us(clock.mono_us(), asked_us);
    if (wait_us == 0) break;
    if (runner->turns_.rests_until_us(asked_us) > clock.mono_us()) {
      interrupts.set("another unit's hold was taken back, and its share of the time comes first");
      continue;
    }
    const int64_t slice_us = wait_us == HoldTurns::kNotYet ? kTurnSliceUs : wait_us;
    runner->changed_.wait_for(lock, std::chrono::microseconds(std::min(slice_us, kTurnSliceUs)));
  }
  *gap_us = runner->turns_.begin(clock.mono_us(), ready_us);
  return true;
}

void CutoverRunner::Lane::end_turn(bool taken_back) {
  {
    std::lock_guard guard(runner->mutex_);
    runner->turns_.end(runner->ports_.clock->mono_us(), taken_back);
    inside = false;
    if (taken_back) runner->tell_rest_locked();
  }
  runner->changed_.notify_all();
}

// ---- requests

std::vector<SlotSet> CutoverRunner::units_of(const SlotSet& slots) const {
  if (ports_.plan->unit == CutUnit::kPlan) return {slots};
  std::vector<SlotSet> out;
  slots.for_each([&](int slot) { out.push_back(SlotSet::of(slot)); });
  return out;
}

Status CutoverRunner::check_units(const SlotSet& slots) const {
  const MovePlan& plan = *ports_.plan;
  if (!plan.slots.contains(slots)) {
    SlotSet outside = slots;
    outside.remove(plan.slots);
    return Status::invalid(cat("slots ", outside.text(), " are not moved by plan ", plan.id,
                               ", which moves ", plan.slots.text()));
  }
  if (plan.unit == CutUnit::kPlan && !(slots == plan.slots)) {
    return Status::invalid(
        cat("these servers replicate only as a whole: name all slots of the plan, ",
            plan.slots.text()));
  }
  return Status::ok();
}

Status CutoverRunner::rollback(const SlotSet& slots, int64_t max_pause_ms, Done done) {
  if (lanes_.front()->ports_for(true).driver == nullptr) {
    const bool linked = ports_.driver->traits().reverse_link;
    return Status::refused(
        cat("there is no way back by the shim for servers of kind ", ports_.driver->kind(), ": ",
            linked ? "their end is proved on the old side only"
                   : "the old side does not follow the new one, so it lacks every write since the "
                     "switch",
            "; before a switch, SHIM ABORT; after it, a move of its own"));
  }
  const Status status = ask(slots, max_pause_ms, true, std::move(done));
  if (status) ports_.board->set_auto(slots, false);
  return status;
}

bool CutoverRunner::going_back(const SlotSet& slots, std::string* owed) {
  std::lock_guard guard(mutex_);
  for (const auto& [slot, debt] : owing_back_) {
    if (!slots.contains(slot)) continue;
    *owed = cat("slot ", slot, ": ", debt);
    return true;
  }
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& lane) {
                       return lane->going_back && lane->running.intersects(slots);
                     }) ||
         std::any_of(queue_.begin(), queue_.end(),
                     [&](const Job& job) { return job.back && job.slots.intersects(slots); });
}

Status CutoverRunner::ask(const SlotSet& slots, int64_t max_pause_ms, bool back, Done done) {
  Status status = check_units(slots);
  if (!status) return status;
  std::string why_not;
  if (!ports_.permits->valid(slots, &why_not)) return Status::refused(why_not);
  const int64_t bound_ms = max_pause_ms > 0 ? max_pause_ms : options_.max_pause_ms;
  std::lock_guard guard(mutex_);
  if (stopping_) return Status::refused("the shim is being stopped");
  for (const Job& job : queue_) {
    if (job.back == back || !job.slots.intersects(slots)) continue;
    return Status::refused(cat("slots ", job.slots.text(), " are queued for the other direction: ",
                               "SHIM ABORT ", job.slots.text(), " first"));
  }
  ports_.board->set_next_attempt(slots, 0);
  const std::vector<SlotSet> units = units_of(slots);
  const uint64_t request = answers_.ask(units, std::move(done));
  for (const SlotSet& unit : units) {
    const auto queued = std::find_if(queue_.begin(), queue_.end(),
                                     [&](const Job& job) { return job.slots == unit; });
    if (queued == queue_.end()) {
      const int64_t now = ports_.clock->mono_us();
      queue_.push_back({unit, back, bound_ms, 0, now, {request}, kNoRest});
      continue;
    }
    // Asked for again while it is tried: this one's bound and patience count from here on.
    queued->max_pause_ms = bound_ms;
    queued->attempts = 0;
    queued->asked_us = kNoRest;
    queued->requests.push_back(request);
  }
  changed_.notify_all();
  return Status::ok();
}

void CutoverRunner::abort(const SlotSet& slots) {
  std::vector<Job> dropped;
  {
    std::lock_guard guard(mutex_);
    for (auto& lane : lanes_) {
      if (!lane->running.intersects(slots)) continue;
      lane->interrupts.set("aborted by the operator");
      lane->aborted = true;
    }
    for (auto it = queue_.begin(); it != queue_.end();) {
      if (it->slots.intersects(slots)) {
        ports_.board->set_next_attempt(it->slots, 0);
        dropped.push_back(std::move(*it));
        it = queue_.erase(it);
      } else {
        ++it;
      }
    }
  }
  changed_.notify_all();
  for (const Job& job : dropped) {
    const SlotPhase phase = ports_.board->row(job.slots.first()).phase;
    answer(job, {job.slots, phase, 0, 0, "aborted by the operator before it began"});
  }
}

Status CutoverRunner::set_auto(const SlotSet& slots, bool on) {
  Status status = check_units(slots);
  if (!status) return status;
  std::string why_not;
  if (on && !ports_.permits->valid(slots, &why_not)) return Status::refused(why_not);
  {
    std::lock_guard guard(mutex_);
    ports_.board->set_auto(slots, on);
    if (!on) {
      std::erase_if(queue_, [&](const Job& job) {
        return job.requests.empty() && job.slots.intersects(slots);
      });
    }
    // It is asked for from here on.
    const int64_t now = ports_.clock->mono_us();
    slots.for_each([&](int slot) { patience_[slot] = {0, now, now}; });
    ports_.board->set_next_attempt(slots, 0);
  }
  changed_.notify_all();
  return Status::ok();
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

bool CutoverRunner::sleep_until(std::unique_lock<std::mutex>& lock, int64_t us) {
  const int64_t wait_us = us - ports_.clock->mono_us();
  if (wait_us > 0) changed_.wait_for(lock, std::chrono::microseconds(wait_us));
  return !stopping_;
}

// ---- a lane

SlotSet CutoverRunner::busy_locked() const {
  SlotSet out;
  for (const auto& lane : lanes_) {
    out.add(lane->running);
    out.add(lane->paying);
  }
  return out;
}

// Waits for the first job that is due; false when stopping. Debts are paid in between.
bool CutoverRunner::take_job(std::unique_lock<std::mutex>& lock, Lane& lane, Job* job) {
  while (!stopping_) {
    const int64_t now = ports_.clock->mono_us();
    if (debts_due_us_ != 0 && debts_due_us_ <= now && !paying_) {
      pay_debts(lock, lane);
      continue;
    }
    int64_t due = std::min(now + kIdleLookMs * 1000, queue_automatic_locked(now));
    if (debts_due_us_ != 0 && !paying_) due = std::min(due, debts_due_us_);
    const SlotSet busy = busy_locked();
    for (auto it = queue_.begin(); it != queue_.end() && turns_.may_prepare(); ++it) {
      if (busy.intersects(it->slots)) continue;
      const int64_t ready_us = ready_at_locked(it->not_before_us, it->asked_us);
      if (ready_us <= now) {
        *job = std::move(*it);
        queue_.erase(it);
        lane.running = job->slots;
        lane.going_back = job->back;
        lane.aborted = false;
        lane.ready_us = ready_us;
        lane.asked_us = job->asked_us;
        lane.inside = true;
        turns_.prepare();
        return true;
      }
      due = std::min(due, ready_us);
    }
    sleep_until(lock, due);
  }
  return false;
}

int64_t CutoverRunner::queue_automatic_locked(int64_t now_us) {
  int64_t look_again_us = INT64_MAX;
  const SlotSet wanted = ports_.board->automatic();
  if (wanted.empty()) return look_again_us;
  const SlotSet busy = busy_locked();
  for (const SlotSet& unit : units_of(wanted)) {
    const SlotRow row = ports_.board->row(unit.first());
    std::string why_not;
    if (row.phase != SlotPhase::kOld || row.steady < kSteadySamples) continue;
    const Patience& patience = patience_[unit.first()];
    const int64_t ready_us = ready_at_locked(patience.not_before_us, patience.asked_us);
    if (ready_us > now_us) {
      look_again_us = std::min(look_again_us, ready_us);
      continue;
    }
    const LagForecast forecast = ports_.board->forecast(unit);
    if (forecast.course == LagForecast::Course::kGrowing) continue;
    if (!why_too_late(forecast, options_.max_pause_ms, ports_.driver->lag_limit(), 0,
                      ports_.driver->lag_in_bytes())
             .empty()) {
      continue;
    }
    if (!ports_.permits->valid(unit, &why_not)) continue;
    const bool queued = busy.intersects(unit) ||
                        std::any_of(queue_.begin(), queue_.end(),
                                    [&](const Job& job) { return job.slots.intersects(unit); });
    if (!queued) {
      queue_.push_back({unit, false, options_.max_pause_ms, 0, now_us, {}, patience.asked_us});
    }
  }
  return look_again_us;
}

// A unit that held and was taken back is left alone for longer and longer; one that could not even
// begin costs nobody anything and is looked at again as a request is.
void CutoverRunner::learn_patience_locked(const Lane& lane, const Job& job, Verdict verdict,
                                          const UnitResult& result) {
  if (result.phase == SlotPhase::kNew) {
    patience_.erase(job.slots.first());
    return;
  }
  Patience& patience = patience_[job.slots.first()];
  int64_t wait_ms = kPassLookMs;
  if (verdict != Verdict::kWaits) {
    const bool held = !lane.inside;
    const int64_t most_ms = held ? options_.auto_back_off_ms_max : options_.back_off_ms * 40;
    wait_ms =
        std::min(options_.back_off_ms << std::min(patience.failures++, kDoublingsMax), most_ms);
  }
  patience.not_before_us = ports_.clock->mono_us() + wait_ms * 1000;
  if (!ports_.board->row(job.slots.first()).automatic) return;
  ports_.board->set_next_attempt(job.slots,
                                 ready_at_locked(patience.not_before_us, patience.asked_us));
}

int64_t CutoverRunner::ready_at_locked(int64_t not_before_us, int64_t asked_us) const {
  return std::max(not_before_us, turns_.rests_until_us(asked_us));
}

// Who waits for the share of a hold that was taken back is told until when.
void CutoverRunner::tell_rest_locked() {
  const auto tell = [&](const SlotSet& slots, int64_t not_before_us, int64_t asked_us) {
    if (ports_.board->row(slots.first()).phase == SlotPhase::kNew) return;
    ports_.board->set_next_attempt(slots, ready_at_locked(not_before_us, asked_us));
  };
  const SlotSet automatic = ports_.board->automatic();
  for (const SlotSet& unit : automatic.empty() ? std::vector<SlotSet>() : units_of(automatic)) {
    const Patience& patience = patience_[unit.first()];
    tell(unit, patience.not_before_us, patience.asked_us);
  }
  for (const Job& job : queue_) tell(job.slots, job.not_before_us, job.asked_us);
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

void CutoverRunner::finish_job(Lane& lane, Job job, Verdict verdict, UnitResult result) {
  bool again = verdict != Verdict::kDone;
  {
    std::lock_guard guard(mutex_);
    lane.running = {};
    (void)lane.interrupts.take();
    const bool automatic = job.requests.empty();
    if (automatic) learn_patience_locked(lane, job, verdict, result);
    if (lane.inside) turns_.withdraw();
    lane.inside = false;
    again = again && !stopping_ && !lane.aborted && !automatic;
    if (again) {
      for (const uint64_t request : job.requests) {
        answers_.tried(request, job.slots, job.attempts, result.text);
      }
      const int64_t wait_ms =
          verdict == Verdict::kWaits
              ? kPassLookMs
              : options_.back_off_ms * std::min(1 << std::min(job.attempts - 1, 5), 40);
      job.not_before_us = ports_.clock->mono_us() + wait_ms * 1000;
      ports_.board->set_next_attempt(job.slots, ready_at_locked(job.not_before_us, job.asked_us));
      queue_again_locked(std::move(job));
    }
  }
  changed_.notify_all();
  if (!again) answer(job, result);
}

// Asked for again while it ran: one job for both.
void CutoverRunner::queue_again_locked(Job job) {
  for (Job& queued : queue_) {
    if (!(queued.slots == job.slots) || queued.back != job.back) continue;
    queued.requests.insert(queued.requests.end(), job.requests.begin(), job.requests.end());
    queued.not_before_us = job.not_before_us;
    return;
  }
  queue_.push_back(std::move(job));
}

bool CutoverRunner::waits_for_pass(const Lane& lane, std::string* why) const {
  const std::vector<std::string>& accept = ports_.plan->accept;
  const bool compares = ports_.heals != nullptr && lane.ports_for(false).driver->traits().heals;
  if (!compares || ports_.heals->passed()) return false;
  if (std::find(accept.begin(), accept.end(), "uncompared") != accept.end()) return false;
  *why = cat("these servers do not replicate faithfully: ", ports_.heals->report().state);
  return true;
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

void CutoverRunner::answer(const Job& job, const UnitResult& result) {
  for (const uint64_t request : job.requests) answers_.decide(request, result);
}

}  // namespace sf
