#include "proxy_shim/control/cutover_answers.h"

#include <algorithm>
#include <chrono>

#include "common/base/strings.h"

namespace sf {

CutoverAnswers::CutoverAnswers(const Clock* clock, int64_t answer_ms, PhaseOf phase_of)
    : clock_(clock), answer_ms_(answer_ms), phase_of_(std::move(phase_of)) {}

CutoverAnswers::~CutoverAnswers() {
  stop();
}

void CutoverAnswers::start() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = false;
  }
  thread_ = std::thread([this] { loop(); });
}

void CutoverAnswers::stop() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

uint64_t CutoverAnswers::ask(const std::vector<SlotSet>& units, Done done) {
  std::lock_guard guard(mutex_);
  Request request;
  for (const SlotSet& unit : units) request.units[unit.first()].result.slots = unit;
  request.done = std::move(done);
  request.due_us = clock_->mono_us() + answer_ms_ * 1000;
  requests_.emplace(next_, std::move(request));
  changed_.notify_all();
  return next_++;
}

void CutoverAnswers::tried(uint64_t request, const SlotSet& unit, int attempts,
                           const std::string& why_not) {
  std::lock_guard guard(mutex_);
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  Unit& known = found->second.units[unit.first()];
  known.attempts = attempts;
  known.result.text = why_not;
}

void CutoverAnswers::decide(uint64_t request, UnitResult result) {
  std::unique_lock lock(mutex_);
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  Unit& known = found->second.units[result.slots.first()];
  known.result = std::move(result);
  known.decided = true;
  const auto& units = found->second.units;
  if (!std::all_of(units.begin(), units.end(), [](const auto& u) { return u.second.decided; })) {
    return;
  }
  Request whole = std::move(found->second);
  requests_.erase(found);
  lock.unlock();
  whole.done(results_of(whole));
}

std::vector<UnitResult> CutoverAnswers::results_of(Request& request) const {
  std::vector<UnitResult> out;
  for (auto& [first, unit] : request.units) {
    if (!unit.decided) {
      const std::string last = unit.result.text;
      unit.result.phase = phase_of_(unit.result.slots);
      unit.result.text = unit.attempts == 0 ? std::string("still in the queue, see SHIM STATUS")
                                            : cat("still trying, ", unit.attempts,
                                                  " attempts, see SHIM STATUS; last: ", last);
    }
    out.push_back(std::move(unit.result));
  }
  return out;
}

void CutoverAnswers::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (requests_.empty() && stopping_) return;
    if (requests_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next = requests_.begin();
    const int64_t wait_us = next->second.due_us - clock_->mono_us();
    if (wait_us > 0 && !stopping_) {
      changed_.wait_for(lock, std::chrono::microseconds(wait_us));
      continue;
    }
    Request due = std::move(next->second);
    requests_.erase(next);
    lock.unlock();
    due.done(results_of(due));
    lock.lock();
  }
}

}  // namespace sf
