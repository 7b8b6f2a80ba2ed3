// The runner's life, and what is asked of it; its queue and its lanes have files of their own.
#include "proxy_shim/control/cutover_runner.h"

#include <algorithm>
#include <chrono>

namespace sf {
namespace {

// Somebody waits for the answer, and there are only a few attempts.
constexpr int64_t kNoRest = INT64_MAX;

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

bool CutoverRunner::sleep_until(std::unique_lock<std::mutex>& lock, int64_t us) {
  const int64_t wait_us = us - ports_.clock->mono_us();
  if (wait_us > 0) changed_.wait_for(lock, std::chrono::microseconds(wait_us));
  return !stopping_;
}

void CutoverRunner::answer(const Job& job, const UnitResult& result) {
  for (const uint64_t request : job.requests) answers_.decide(request, result);
}

}  // namespace sf
