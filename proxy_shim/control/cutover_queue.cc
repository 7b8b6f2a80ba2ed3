// Which unit is tried next, and when (cutover_runner.h): the queue, back-off and patience, turns to
// hold and the rest after a hold that was taken back.
#include <algorithm>
#include <chrono>

#include "proxy_shim/control/cutover_runner.h"

namespace sf {
namespace {

constexpr int64_t kIdleLookMs = 1'000;
constexpr int64_t kPassLookMs = 200;
constexpr int64_t kTurnSliceUs = 20'000;  // between looks at the interrupts while waiting
constexpr int kDoublingsMax = 20;         // of a back-off
constexpr int kSteadySamples = 2;         // small lags in a row before the automatic mode starts

}  // namespace

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

}  // namespace sf
