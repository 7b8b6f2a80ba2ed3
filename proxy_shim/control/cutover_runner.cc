#include "proxy_shim/control/cutover_runner.h"

#include <algorithm>
#include <chrono>

#include "common/base/file.h"

namespace sf {
namespace {

constexpr int64_t kForecastMs = 1'000;   // timeout of the forecast's questions
constexpr int64_t kRoomMin = 64L << 20;  // bytes free where the owner record goes
constexpr int64_t kDebtPassMs = 1'000;   // of one round over what is owed
constexpr int64_t kDebtGapMsMin = 200;
constexpr int64_t kDebtGapMsMax = 5'000;
constexpr int64_t kIdleLookMs = 1'000;
constexpr int kSteadySamples = 2;  // small lags in a row before the automatic mode starts

}  // namespace

CutoverRunner::CutoverRunner(const RunPorts& ports, RunnerOptions options)
    : ports_(ports), options_(std::move(options)) {}

CutoverRunner::~CutoverRunner() {
  stop();
}

void CutoverRunner::owe(const SlotSet& unit, const CutoverMachine::Debts& debts, uint64_t epoch) {
  machine_of(unit).owe(debts, epoch);
  debt_gap_ms_ = kDebtGapMsMin;
  debts_due_us_ = ports_.clock->mono_us();
}

void CutoverRunner::start() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = false;
  }
  thread_ = std::thread([this] { loop(); });
}

void CutoverRunner::stop() {
  {
    std::lock_guard guard(mutex_);
    if (stopping_) return;
    stopping_ = true;
    if (!running_.empty()) interrupts_.set("the shim stops, or takes a changed plan over");
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CutoverRunner::interrupt(const std::string& why) {
  std::lock_guard guard(mutex_);
  if (!running_.empty()) interrupts_.set(why);
}

void CutoverRunner::wake() {
  changed_.notify_all();
}

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

Status CutoverRunner::cutover(const SlotSet& slots, int64_t max_pause_ms, Done done) {
  Status status = check_units(slots);
  if (!status) return status;
  std::string why_not;
  if (!ports_.permits->valid(slots, &why_not)) return Status::refused(why_not);
  std::lock_guard guard(mutex_);
  if (stopping_) return Status::refused("the shim is being stopped");
  auto request = std::make_shared<Request>();
  request->done = std::move(done);
  for (const SlotSet& unit : units_of(slots)) {
    ++request->left;
    queue_.push_back(
        {unit, max_pause_ms > 0 ? max_pause_ms : options_.max_pause_ms, 0, 0, request});
  }
  changed_.notify_all();
  return Status::ok();
}

void CutoverRunner::abort(const SlotSet& slots) {
  std::vector<Job> dropped;
  {
    std::lock_guard guard(mutex_);
    if (running_.intersects(slots)) interrupts_.set("aborted by the operator");
    for (auto it = queue_.begin(); it != queue_.end();) {
      if (it->slots.intersects(slots)) {
        dropped.push_back(std::move(*it));
        it = queue_.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (Job& job : dropped) {
    const SlotPhase phase = ports_.board->row(job.slots.first()).phase;
    answer(job, {job.slots, phase, 0, 0, "aborted by the operator before it began"});
  }
}

Status CutoverRunner::set_auto(const SlotSet& slots, bool on) {
  Status status = check_units(slots);
  if (!status) return status;
  std::string why_not;
  if (on && !ports_.permits->valid(slots, &why_not)) return Status::refused(why_not);
  ports_.board->set_auto(slots, on);
  changed_.notify_all();
  return Status::ok();
}

CutoverMachine& CutoverRunner::machine_of(const SlotSet& unit) {
  std::unique_ptr<CutoverMachine>& machine = machines_[unit.first()];
  if (!machine) {
    machine = std::make_unique<CutoverMachine>(ports_.driver->traits(),
                                               ports_.board->row(unit.first()).phase);
  }
  return *machine;
}

bool CutoverRunner::sleep_until(std::unique_lock<std::mutex>& lock, int64_t us) {
  const int64_t wait_us = us - ports_.clock->mono_us();
  if (wait_us > 0) changed_.wait_for(lock, std::chrono::microseconds(wait_us));
  return !stopping_;
}

// Waits for the first job that is due; false when stopping. Debts are paid in between.
bool CutoverRunner::take_job(std::unique_lock<std::mutex>& lock, Job* job) {
  while (!stopping_) {
    const int64_t now = ports_.clock->mono_us();
    if (debts_due_us_ != 0 && debts_due_us_ <= now) {
      lock.unlock();
      pay_debts();
      lock.lock();
      continue;
    }
    queue_automatic_locked();
    int64_t due = now + kIdleLookMs * 1000;
    if (debts_due_us_ != 0) due = std::min(due, debts_due_us_);
    for (auto it = queue_.begin(); it != queue_.end(); ++it) {
      if (it->not_before_us <= now) {
        *job = std::move(*it);
        queue_.erase(it);
        running_ = job->slots;
        return true;
      }
      due = std::min(due, it->not_before_us);
    }
    sleep_until(lock, due);
  }
  return false;
}

void CutoverRunner::queue_automatic_locked() {
  const SlotSet wanted = ports_.board->automatic();
  if (wanted.empty()) return;
  for (const SlotSet& unit : units_of(wanted)) {
    const SlotRow row = ports_.board->row(unit.first());
    std::string why_not;
    if (row.phase != SlotPhase::kOld || row.steady < kSteadySamples) continue;
    const LagForecast forecast = ports_.board->forecast(unit);
    if (forecast.course == LagForecast::Course::kGrowing) continue;
    if (!why_too_late(forecast, options_.max_pause_ms, ports_.driver->lag_limit(), 0,
                      ports_.driver->lag_in_bytes())
             .empty()) {
      continue;
    }
    if (!ports_.permits->valid(unit, &why_not)) continue;
    const bool queued = std::any_of(queue_.begin(), queue_.end(),
                                    [&](const Job& job) { return job.slots.intersects(unit); });
    if (!queued) queue_.push_back({unit, options_.max_pause_ms, 0, 0, nullptr});
  }
}

bool CutoverRunner::is_stopping() {
  std::lock_guard guard(mutex_);
  return stopping_;
}

void CutoverRunner::pay_debts() {
  bool left = false;
  const int64_t enough = ports_.clock->mono_us() + kDebtPassMs * 1000;
  for (auto& [first, machine] : machines_) {
    // Servers that do not answer must not hold up the queue, nor a stop.
    if (left && (ports_.clock->mono_us() > enough || is_stopping())) break;
    if (ports_.board->row(first).phase == SlotPhase::kFinal) machine->forgive_link();
    if (!machine->owes()) continue;
    const SlotSet slots =
        ports_.plan->unit == CutUnit::kPlan ? ports_.plan->slots : SlotSet::of(first);
    UnitRun run(ports_, &interrupts_, machine.get(), slots, options_.max_pause_ms);
    if (!run.retry()) left = true;
  }
  debt_gap_ms_ = std::clamp(debt_gap_ms_ * 2, kDebtGapMsMin, kDebtGapMsMax);
  debts_due_us_ = left ? ports_.clock->mono_us() + debt_gap_ms_ * 1000 : 0;
}

void CutoverRunner::loop() {
  std::unique_lock lock(mutex_);
  Job job;
  while (take_job(lock, &job)) {
    lock.unlock();
    UnitResult result{job.slots, SlotPhase::kOld, 0, 0, ""};
    const Verdict verdict = run_job(job, &result);
    lock.lock();
    running_ = {};
    (void)interrupts_.take();
    if (verdict == Verdict::kAgain && !stopping_) {
      const int64_t wait_ms =
          options_.back_off_ms * std::min(1 << std::min(job.attempts - 1, 5), 40);
      job.not_before_us = ports_.clock->mono_us() + wait_ms * 1000;
      queue_.push_back(std::move(job));
    } else {
      lock.unlock();
      answer(job, std::move(result));
      lock.lock();
    }
  }
  std::deque<Job> rest = std::move(queue_);
  queue_.clear();
  lock.unlock();
  for (Job& left : rest) {
    const SlotPhase phase = ports_.board->row(left.slots.first()).phase;
    answer(left, {left.slots, phase, 0, 0, "not begun: the shim is being stopped"});
  }
}

bool CutoverRunner::may_start(const Job& job, CutoverMachine& machine, std::string* why_not,
                              bool* hopeless) {
  *hopeless = false;
  if (machine.owes()) {
    UnitRun run(ports_, &interrupts_, &machine, job.slots, job.max_pause_ms);
    if (!run.retry()) {
      *why_not = cat("an earlier attempt is not yet taken back: ", machine.debt());
      return false;
    }
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
  const SyncState sync = ports_.driver->sync_state(job.slots, kForecastMs);
  if (!sync.following) {
    *why_not = cat("not in sync: ", sync.text);
    return false;
  }
  if (sync.lag >= 0) {
    ports_.board->add_lag(job.slots, {ports_.clock->mono_us(), sync.lag, sync.applied});
  }
  *why_not = why_too_late(ports_.board->forecast(job.slots), job.max_pause_ms,
                          ports_.driver->lag_limit(), sync.queue_ms, ports_.driver->lag_in_bytes());
  return why_not->empty();
}

CutoverRunner::Verdict CutoverRunner::run_job(Job& job, UnitResult* result) {
  ++job.attempts;
  result->phase = ports_.board->row(job.slots.first()).phase;
  if (result->phase != SlotPhase::kOld) {
    result->text = result->phase == SlotPhase::kDoubt ? ports_.board->row(job.slots.first()).text
                                                      : "the new side owns it already";
    return Verdict::kDone;
  }
  CutoverMachine& machine = machine_of(job.slots);
  bool hopeless = false;
  if (!may_start(job, machine, &result->text, &hopeless)) {
    ports_.board->set_text(job.slots, cat("not started: ", result->text));
    return hopeless || job.attempts >= options_.attempts_max ? Verdict::kDone : Verdict::kAgain;
  }
  UnitRun run(ports_, &interrupts_, &machine, job.slots, job.max_pause_ms);
  run.attempt(ports_.store->epoch() + 1);
  result->phase = machine.phase();
  result->pause_us = run.pause_us();
  result->held = run.held();
  result->text = run.text();
  if (machine.owes() && debts_due_us_ == 0) {
    debt_gap_ms_ = kDebtGapMsMin;
    debts_due_us_ = ports_.clock->mono_us() + debt_gap_ms_ * 1000;
  }
  pace(run.let_go_us(), run.hold_us());
  const bool again = machine.phase() == SlotPhase::kOld && job.attempts < options_.attempts_max &&
                     machine.reason() != "aborted by the operator";
  return again ? Verdict::kAgain : Verdict::kDone;
}

void CutoverRunner::answer(Job& job, UnitResult result) {
  if (!job.request) return;
  Request& request = *job.request;
  std::vector<UnitResult> all;
  {
    std::lock_guard guard(mutex_);
    request.results.push_back(std::move(result));
    if (--request.left > 0) return;
    all = std::move(request.results);
  }
  std::sort(all.begin(), all.end(), [](const UnitResult& a, const UnitResult& b) {
    return a.slots.first() < b.slots.first();
  });
  request.done(std::move(all));
}

// A held slot stalls every slot behind it on a proxy's connection, so the next unit waits until the
// share of held time is small again, within the gap that the whole move can afford.
void CutoverRunner::pace(int64_t let_go_us, int64_t hold_us) {
  const int64_t share = std::clamp(options_.hold_share_percent, 1, 100);
  const int64_t gap_us = std::min(hold_us * (100 - share) / share, options_.idle_gap_ms_max * 1000);
  const int64_t until = let_go_us + gap_us;
  std::unique_lock lock(mutex_);
  while (!stopping_ && ports_.clock->mono_us() < until) sleep_until(lock, until);
}

}  // namespace sf
