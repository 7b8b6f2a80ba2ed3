#include "proxy_shim/control/unit_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "proxy_shim/control/direction.h"

namespace sf {
namespace {

using Act = CutAction::Type;
using Json = nlohmann::json;

constexpr int64_t kQuietMs = 2'000;  // timeout of a call outside the pause
constexpr int64_t kUndoMs = 30;      // of a call that takes back, with requests held: more is owed
constexpr int64_t kMarkMs = 240;     // of the marker, with requests held
constexpr int64_t kSliceMs = 30;     // between looks at the interrupts while waiting
constexpr int64_t kLeaseMarginMs = 500;  // a lease outlives the bound by this

CutEvent::Type answer_type(Act action) {
  switch (action) {
    case Act::kRecordIntent:
      return CutEvent::Type::kRecorded;
    case Act::kAnnounce:
      return CutEvent::Type::kAnnounced;
    case Act::kPublish:
      return CutEvent::Type::kPublished;
    case Act::kDrain:
    case Act::kDrainReads:
      return CutEvent::Type::kDrained;
    case Act::kFence:
      return CutEvent::Type::kFenced;
    case Act::kWaitApplied:
      return CutEvent::Type::kApplied;
    case Act::kCheckPermit:
      return CutEvent::Type::kPermit;
    case Act::kFencePermanent:
      return CutEvent::Type::kPermanent;
    case Act::kPromote:
      return CutEvent::Type::kPromoted;
    case Act::kReadEnds:
      return CutEvent::Type::kEnds;
    case Act::kHeal:
      return CutEvent::Type::kHealed;
    case Act::kWriteOwner:
      return CutEvent::Type::kOwnerSynced;
    case Act::kMark:
      return CutEvent::Type::kMarked;
    case Act::kRelease:
      return CutEvent::Type::kReleased;
    case Act::kLinkReverse:
      return CutEvent::Type::kLinked;
    case Act::kFollowAgain:
      return CutEvent::Type::kFollowing;
    default:
      return CutEvent::Type::kUnfenced;
  }
}

// Changes something outside the process, so it is in the audit log before and after (I12).
bool touches_servers(Act action) {
  switch (action) {
    case Act::kAnnounce:
    case Act::kFence:
    case Act::kFencePermanent:
    case Act::kPromote:
    case Act::kHeal:
    case Act::kMark:
    case Act::kRelease:
    case Act::kLinkReverse:
    case Act::kFollowAgain:
    case Act::kUnfence:
      return true;
    default:
      return false;
  }
}

// Takes `result` apart into the event.
void fill(CutEvent* event, const Result<ReplPosition>& result) {
  event->status = result.status();
  if (result) event->position = *result;
}

}  // namespace

UnitRun::UnitRun(const RunPorts& ports, InterruptBox* interrupts, CutoverMachine* machine,
                 SlotSet slots, int64_t max_pause_ms, bool back)
    : ports_(ports),
      interrupts_(interrupts),
      machine_(machine),
      slots_(slots),
      held_too_(ports.driver->traits().holds_stay ? ports.plan->stay : SlotSet{}),
      max_pause_ms_(max_pause_ms),
      back_(back) {}

void UnitRun::attempt(uint64_t epoch, HoldGate* gate) {
  attempt_ = {slots_, epoch};
  gate_ = gate;
  CutEvent start;
  start.type = CutEvent::Type::kStart;
  start.epoch = epoch;
  std::vector<CutAction> actions = machine_->step(start);
  accepted_ = !actions.empty();
  drive(std::move(actions));
}

bool UnitRun::retry() {
  attempt_ = {slots_, machine_->epoch()};
  CutEvent again;
  again.type = CutEvent::Type::kRetry;
  drive(machine_->step(again));
  return !machine_->owes();
}

void UnitRun::drive(std::vector<CutAction> actions) {
  std::deque<CutAction> todo(actions.begin(), actions.end());
  while (!todo.empty()) {
    const CutAction action = todo.front();
    todo.pop_front();
    std::optional<CutEvent> answer = perform(action);
    if (!answer) continue;
    std::vector<CutAction> next;
    // An interrupt that is heeded makes the answer nobody's.
    const std::string reason = interrupt_reason();
    if (!reason.empty()) {
      CutEvent interrupt;
      interrupt.type = CutEvent::Type::kInterrupt;
      interrupt.epoch = attempt_.epoch;
      interrupt.text = reason;
      next = machine_->step(interrupt);
    }
    if (next.empty()) next = machine_->step(*answer);
    if (!next.empty()) todo.assign(next.begin(), next.end());
  }
}

std::string UnitRun::interrupt_reason() {
  if (pending_interrupt_.empty()) pending_interrupt_ = interrupts_->take();
  if (!pending_interrupt_.empty()) return pending_interrupt_;
  if (hold_start_us_ != 0 && ports_.clock->mono_us() >= deadline_us_) {
    return cat("not done within ", max_pause_ms_, " ms");
  }
  return "";
}

int64_t UnitRun::left_ms() const {
  return std::max<int64_t>((deadline_us_ - ports_.clock->mono_us()) / 1000, 1);
}

int64_t UnitRun::step_ms(int64_t most) const {
  return hold_start_us_ == 0 || machine_->committed() ? most : std::min(most, left_ms());
}

void UnitRun::note(const char* what, const CutAction& action, const CutEvent* outcome, int64_t us) {
  Json entry = {{"what", what},
                {"step", action_name(action.type)},
                {"slots", slots_.text()},
                {"epoch", undo_.epoch != 0 ? undo_.epoch : attempt_.epoch}};
  if (!action.position.history.empty()) entry["at"] = action.position.text();
  if (outcome != nullptr) {
    entry["us"] = us;
    entry["ok"] = outcome->status.is_ok();
    if (!outcome->status) entry["error"] = outcome->status.text();
    if (!outcome->position.history.empty()) entry["position"] = outcome->position.text();
  }
  ports_.store->audit(entry);
}

std::optional<CutEvent> UnitRun::perform(const CutAction& action) {
  if (action.type == Act::kReport) {
    finish(action);
    return std::nullopt;
  }
  if (action.type == Act::kRetryLater) {
    text_ = cat(text_.empty() ? "" : text_ + "; ", "still to do: ", said(action.text));
    ports_.board->set_text(slots_, text_);
    ports_.log.warning(cat("slots ", slots_.text(), ", still to do: ", said(action.text)));
    return std::nullopt;
  }
  CutEvent event;
  event.type = answer_type(action.type);
  event.epoch = attempt_.epoch;
  const bool audited = touches_servers(action.type);
  if (audited) note("step begins", action, nullptr, 0);
  const int64_t start = ports_.clock->mono_us();
  if (action.type <= Act::kPublish) {
    event = perform_setup(action, std::move(event));
  } else if (action.type <= Act::kCheckPermit) {
    event = perform_proof(action, std::move(event));
  } else if (action.type <= Act::kWriteOwner) {
    event = perform_switch(action, std::move(event));
  } else {
    event = perform_after(action, std::move(event));
  }
  const int64_t us = ports_.clock->mono_us() - start;
  if (audited) note("step done", action, &event, us);
  ports_.log.debug(cat("slots ", slots_.text(), " ", action_name(action.type), " took ", us, " us",
                       event.status ? "" : ": ", event.status.text()));
  return event;
}

CutEvent UnitRun::perform_setup(const CutAction& action, CutEvent event) {
  if (action.type == Act::kRecordIntent) {
    const PlanSide& from = back_ ? ports_.plan->new_side : ports_.plan->old_side;
    const PlanSide& to = back_ ? ports_.plan->old_side : ports_.plan->new_side;
    const Json entry = {{"what", name("cutover begins", "rollback begins")},
                        {"slots", slots_.text()},
                        {"epoch", attempt_.epoch},
                        {"from", from.master.text()},
                        {"to", to.master.text()},
                        {"max_pause_ms", max_pause_ms_}};
    event.status = ports_.store->record_intent(slots_, attempt_.epoch, entry, back_);
    if (event.status) {
      ports_.board->note_attempt(slots_, attempt_.epoch, name("being switched", "going back"));
    }
  } else if (action.type == Act::kAnnounce) {
    event.status = ports_.driver->announce(attempt_, kQuietMs);
    if (event.status && ports_.driver->traits().heals) event.status = forecast_heal();
  } else {
    event.status = publish(action.phase);
  }
  return event;
}

Status UnitRun::wait_for_turn() {
  const bool mine = gate_->take_turn([this] { return !interrupt_reason().empty(); }, &gap_us_);
  if (!mine) return Status::refused(interrupt_reason());
  if (gap_us_ >= 0) ports_.stats->idle(gap_us_);
  return Status::ok();
}

Status UnitRun::publish(SlotPhase phase) {
  if (phase == SlotPhase::kHold) {
    const Status turn = wait_for_turn();
    if (!turn) return turn;
    hold_start_us_ = ports_.clock->mono_us();
    deadline_us_ = hold_start_us_ + max_pause_ms_ * 1000;
  }
  if (phase == SlotPhase::kNew) {
    Status status = ports_.board->owe_marker(back_ ? PairSide::kOld : PairSide::kNew, slots_,
                                             machine_->mark_owed());
    if (!status) ports_.log.error(status.text());
  }
  const bool held = phase == SlotPhase::kHold || phase == SlotPhase::kPromote;
  Status status = ports_.board->publish(slots_, turned(phase, back_), held_too_,
                                        held ? SlotPhase::kHold : SlotPhase::kStay, back_);
  if (!status) {
    ports_.log.error(cat("publishing ", phase_name(turned(phase, back_)), ": ", status.text()));
  }
  if (phase == SlotPhase::kOld || phase == SlotPhase::kNew || phase == SlotPhase::kDoubt) {
    let_go(phase != SlotPhase::kNew);
  }
  return status;
}

void UnitRun::let_go(bool taken_back) {
  if (hold_start_us_ == 0) return;
  hold_us_ = ports_.clock->mono_us() - hold_start_us_;
  hold_start_us_ = 0;
  gate_->end_turn(taken_back);
  SlotSet let_go = slots_;
  let_go.add(held_too_);
  const HoldReport report = ports_.plane->take_hold_report(let_go);
  pause_us_ = report.pause_us;
  held_ = report.held_requests;
  ports_.board->note_pause(slots_, pause_us_, held_);
}

CutEvent UnitRun::perform_proof(const CutAction& action, CutEvent event) {
  switch (action.type) {
    case Act::kDrain:
      return drain(InFlight::kWrites, std::move(event));
    case Act::kDrainReads:
      return drain(InFlight::kAll, std::move(event));
    case Act::kFence:
      fill(&event, ports_.driver->fence(attempt_, left_ms() + kLeaseMarginMs, step_ms(kQuietMs)));
      return event;
    case Act::kWaitApplied:
      return wait_applied(action.position, std::move(event));
    default: {
      event.yes = ports_.permits->valid(slots_, &event.text);
      const Status alone =
          event.yes ? ports_.driver->check_writers(step_ms(kQuietMs)) : Status::ok();
      if (!alone) {
        event.yes = false;
        event.text = alone.text();
      }
      return event;
    }
  }
}

CutEvent UnitRun::drain(InFlight what, CutEvent event) {
  SlotSet drained_slots = slots_;
  if (what == InFlight::kWrites) drained_slots.add(held_too_);
  for (;;) {
    Result<DataPlane::Drained> drained =
        ports_.plane->drain(drained_slots, what, std::min(left_ms(), kSliceMs), left_side());
    event.status = drained.status();
    if (drained) event.unanswered = drained->unanswered;
    if (event.unanswered > 0 && !ports_.driver->traits().end_fenced) return seek_orphans(event);
    if (drained || drained.status().code() != Code::kTimeout) return event;
    if (!interrupt_reason().empty()) return event;
  }
}

// A write without an answer is executed before its connection is gone from the server, or never.
CutEvent UnitRun::seek_orphans(CutEvent event) {
  event.status = ports_.driver->check_orphans(step_ms(kQuietMs));
  if (!event.status) {
    event.status = event.status.with_context(
        cat(event.unanswered, " writes were never answered and may still execute"));
    return event;
  }
  event.unanswered = 0;
  return event;
}

CutEvent UnitRun::wait_applied(const ReplPosition& end, CutEvent event) {
  for (;;) {
    Result<bool> applied =
        ports_.driver->wait_applied(attempt_, end, std::min(left_ms(), kSliceMs));
    event.status = applied.status();
    event.yes = applied.is_ok() && *applied;
    if (!applied || event.yes) return event;
    if (!interrupt_reason().empty()) return event;
  }
}

CutEvent UnitRun::perform_switch(const CutAction& action, CutEvent event) {
  if (action.type == Act::kFencePermanent) {
    fill(&event, ports_.driver->fence_permanent(attempt_, step_ms(kQuietMs)));
  } else if (action.type == Act::kPromote) {
    fill(&event, ports_.driver->promote(attempt_, action.position, step_ms(kQuietMs)));
  } else if (action.type == Act::kReadEnds) {
    Result<Ends> ends = ports_.driver->read_ends(attempt_, action.position, step_ms(kQuietMs));
    event.status = ends.status();
    if (ends) event.old_end = ends->old_end;
    if (ends) event.new_end = ends->new_end;
  } else if (action.type == Act::kHeal) {
    return heal(std::move(event));
  } else {
    return write_owner(std::move(event));
  }
  return event;
}

CutEvent UnitRun::write_owner(CutEvent event) {
  SlotRecord record;
  record.phase = turned(SlotPhase::kNew, back_);
  record.back = back_;
  record.epoch = record.attempt = attempt_.epoch;
  record.proof = machine_->proof();
  record.promoted = machine_->promoted();
  record.owner = (back_ ? ports_.plan->old_side : ports_.plan->new_side).master.text();
  const Json entry = {{"what", "owner record"},
                      {"slots", slots_.text()},
                      {"epoch", attempt_.epoch},
                      {"owner", record.owner},
                      {name("old_end", "new_end"), record.proof.text()},
                      {name("new_position", "old_position"), record.promoted.text()}};
  const int64_t start = ports_.clock->mono_us();
  event.status = ports_.store->commit_owner(slots_, record, entry);
  sync_us_ = ports_.clock->mono_us() - start;
  return event;
}

CutEvent UnitRun::perform_after(const CutAction& action, CutEvent event) {
  // Taking back with requests held must end soon; what takes longer is owed and done later.
  const int64_t undo_ms = hold_start_us_ != 0 ? kUndoMs : kQuietMs;
  switch (action.type) {
    case Act::kMark:
      event.status = ports_.driver->mark(attempt_, hold_start_us_ != 0 ? kMarkMs : kQuietMs);
      if (event.status) event.status = ports_.store->set_marked(slots_);
      break;
    case Act::kRelease:
      event.status = ports_.driver->release(attempt_, kQuietMs);
      break;
    case Act::kLinkReverse:
      event.status = ports_.driver->link_reverse(attempt_, action.position, kQuietMs);
      if (event.status) event.status = ports_.store->set_linked(slots_, true);
      break;
    case Act::kFollowAgain:
      event.status = begin_undo();
      if (event.status) {
        event.status = ports_.driver->follow_again(undo_, action.position, undo_ms);
      }
      break;
    default:
      event.status = begin_undo();
      if (event.status) event.status = ports_.driver->unfence(undo_, undo_ms);
  }
  return event;
}

// A promote or a fence whose answer was not waited for may still arrive at its server after the
// take back. It carries the attempt's epoch, so the take back carries a higher one: the server
// refuses it.
Status UnitRun::begin_undo() {
  if (undo_.epoch != 0) return Status::ok();
  Result<uint64_t> epoch = ports_.store->next_epoch();
  if (!epoch) return epoch.status();
  undo_ = {slots_, *epoch};
  return Status::ok();
}

std::string UnitRun::said(const std::string& text) const {
  return back_ ? cat("on the way back, where old is the side it leaves: ", text) : text;
}

void UnitRun::finish(const CutAction& action) {
  text_ = action.phase == SlotPhase::kNew ? action.text : said(action.text);
  if (!healed_.empty()) text_ = cat(text_, "; ", healed_);
  ports_.board->set_text(slots_, text_);
  const bool switched = action.phase == SlotPhase::kNew;
  if (accepted_ && switched) {
    ports_.plane->forget_unanswered(slots_, left_side());
    if (ports_.heals != nullptr) ports_.heals->forget(slots_);
    ports_.stats->switched(pause_us_, sync_us_);
  }
  if (!switched && accepted_) ports_.stats->taken_back(cat("slots ", slots_.text(), ": ", text_));
  const SlotPhase phase = turned(action.phase, back_);
  ports_.store->audit({{"what", switched ? name("cutover done", "rollback done")
                                         : name("cutover ended", "rollback ended")},
                       {"slots", slots_.text()},
                       {"epoch", attempt_.epoch},
                       {"state", phase_name(phase)},
                       {"text", text_},
                       {"pause_us", pause_us_},
                       {"hold_us", hold_us_},
                       {"gap_us", gap_us_},
                       {"sync_us", sync_us_},
                       {"held", held_}});
  const std::string line = cat("slots ", slots_.text(), " ", phase_name(phase), ": ", text_,
                               " (pause ", pause_us_, " us, ", held_, " held)");
  if (switched || !accepted_) {
    ports_.log.info(line);
  } else {
    ports_.log.warning(line);
  }
}

}  // namespace sf
