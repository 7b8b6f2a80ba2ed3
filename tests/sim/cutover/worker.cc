#include "tests/sim/cutover/worker.h"

namespace sf::cutsim {

Worker::Worker(Context& context, Groups& groups, std::function<void(int)> note)
    : context_(context),
      note_(std::move(note)),
      old_line_(context, groups, false),
      new_line_(context, groups, true) {
  phase_.fill(SlotPhase::kDoubt);
}

void Worker::take(const Request& request, Reply reply) {
  auto pending = std::make_shared<Pending>();
  pending->request = request;
  pending->reply = std::move(reply);
  queue_.push_back(pending);
  route(pending);
}

bool Worker::must_hold(const Request& request) const {
  const size_t slot = static_cast<size_t>(slot_of_key(request.key));
  const SlotPhase phase = phase_[slot];
  if (phase == SlotPhase::kPromote) return true;
  if (phase != SlotPhase::kHold && phase != SlotPhase::kBarrier) return false;
  return request.writes() || held_[slot] > 0;
}

void Worker::route(const std::shared_ptr<Pending>& pending) {
  const Request& request = pending->request;
  const size_t slot = static_cast<size_t>(slot_of_key(request.key));
  if (must_hold(request)) {
    pending->held = true;
    ++held_[slot];
    return;
  }
  if (phase_[slot] == SlotPhase::kDoubt) return finish(pending, Outcome::kRefused, {});
  const bool on_new =
      phase_[slot] == SlotPhase::kNew || phase_[slot] == SlotPhase::kFinal || back_[slot];
  if (request.writes() && stopped_[on_new]) return finish(pending, Outcome::kRefused, {});
  send(pending, on_new);
}

void Worker::send(const std::shared_ptr<Pending>& pending, bool on_new) {
  const Request& request = pending->request;
  const size_t slot = static_cast<size_t>(slot_of_key(request.key));
  ++(request.writes() ? writes_ : reads_)[on_new][slot];
  if (!on_new && request.odd) note_(request.key);
  Line& line = on_new ? new_line_ : old_line_;
  line.send(request, [this, pending, slot, on_new](Outcome outcome, const Answer& answer) {
    const bool write = pending->request.writes();
    --(write ? writes_ : reads_)[on_new][slot];
    if (write && outcome == Outcome::kUnknown) ++unanswered_[on_new][slot];
    finish(pending, outcome, answer);
  });
}

void Worker::finish(const std::shared_ptr<Pending>& pending, Outcome outcome,
                    const Answer& answer) {
  pending->done = true;
  pending->outcome = outcome;
  pending->answer = answer;
  while (!ended_ && !queue_.empty() && queue_.front()->done) {
    const auto first = queue_.front();
    queue_.pop_front();
    first->reply(first->outcome, first->answer);
  }
}

void Worker::set_phase(int slot, SlotPhase phase, bool back) {
  phase_[at(slot)] = phase;
  back_[at(slot)] = back && (phase == SlotPhase::kHold || phase == SlotPhase::kPromote);
  if (held_[at(slot)] == 0) return;
  std::deque<std::shared_ptr<Pending>> held;
  for (const auto& pending : queue_) {
    if (pending->held && slot_of_key(pending->request.key) == slot) held.push_back(pending);
  }
  held_[at(slot)] = 0;
  for (const auto& pending : held) {
    pending->held = false;
    route(pending);
  }
}

void Worker::cut(bool new_side, bool server_gone) {
  (new_side ? new_line_ : old_line_).cut(server_gone);
}

void Worker::end() {
  ended_ = true;
  std::deque<std::shared_ptr<Pending>> all;
  all.swap(queue_);
  cut(false, false);
  cut(true, false);
  for (const auto& pending : all) {
    const bool unsent = pending->held;
    pending->reply(unsent ? Outcome::kRefused : Outcome::kUnknown, {});
  }
}

}  // namespace sf::cutsim
