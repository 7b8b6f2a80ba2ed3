#include "tests/sim/cutover/shim.h"

#include <algorithm>

namespace sf::cutsim {
namespace {

using Act = CutAction::Type;
using Event = CutEvent::Type;

constexpr int64_t kPauseUs = 200'000;
constexpr int64_t kQuietUs = 2'000'000;
constexpr int64_t kUndoUs = 60'000;
constexpr int64_t kLeaseMarginUs = 500'000;

CutTraits traits_of(Kind kind) {
  return kind == Kind::kNode ? CutTraits{} : CutTraits{true, false, false};
}

}  // namespace

Shim::Shim(Context& context, Groups& groups, Folder& folder, std::function<bool()> strangers,
           std::function<void()> begins)
    : context_(context),
      groups_(groups),
      folder_(folder),
      strangers_(std::move(strangers)),
      begins_(std::move(begins)),
      traits_(traits_of(groups.kind())),
      permits_(&context),
      units_(static_cast<size_t>(groups.units())) {
  for (int i = 0; i < kWorkers; ++i) workers_.push_back(std::make_unique<Worker>(context, groups));
  for (int i = 0; i < groups.units(); ++i) {
    Unit& u = units_[static_cast<size_t>(i)];
    u.number = i;
    u.slots = groups.units() == 1 ? SlotSet::range(0, kSlots - 1) : SlotSet::of(i);
  }
}

void Shim::each_slot(const Unit& u, const std::function<void(int)>& what) const {
  u.slots.for_each([&](int slot) { what(slot); });
}

void Shim::later(int64_t us, Fine what) {
  context_.after(us, [alive = alive_, what = std::move(what)] {
    if (*alive) what();
  });
}

bool Shim::start() {
  if (groups_.away(false) || groups_.away(true)) return false;
  const uint64_t epoch = ++folder_.epoch;
  for (Unit& u : units_) {
    if (!groups_.announce(u.number, epoch)) return false;
  }
  for (Unit& u : units_) {
    const uint64_t marker = traits_.exact_end ? 0 : groups_.new_side(u.number).marker;
    SlotRecord& record = folder_.records[static_cast<size_t>(u.number)];
    settle(u, judge_slot(u.slots.first(), record, groups_.report(false, u.number),
                         groups_.report(true, u.number), traits_, marker));
    each_slot(u, [&](int slot) {
      for (auto& worker : workers_) worker->set_phase(slot, u.machine->phase());
    });
  }
  const bool unmarked = std::any_of(units_.begin(), units_.end(),
                                    [](const Unit& u) { return u.machine->mark_owed(); });
  stop_writes(true, Reason::kMarker, unmarked);
  serving_ = true;
  later(1'000, [this] { tick(); });
  return true;
}

void Shim::settle(Unit& u, const SlotVerdict& verdict) {
  context_.say("unit ", u.number, " starts in ", phase_name(verdict.phase), " ", verdict.text);
  SlotVerdict v = verdict;
  if (v.debts.follow) v.debts.follow = !groups_.follow_again(u.number, folder_.epoch);
  if (v.phase == SlotPhase::kOld && v.debts.unfence) {
    v.debts.unfence = !groups_.unfence(u.number, folder_.epoch);
  }
  if (v.text == "the old side is not fenced" && traits_.exact_end) {
    (void)groups_.fence(u.number, folder_.epoch, kQuietUs);
    (void)groups_.fence_permanent(u.number, folder_.epoch);
  }
  u.machine = std::make_unique<CutoverMachine>(traits_, v.phase);
  u.machine->owe(v.debts, folder_.epoch);
}

void Shim::kill() {
  *alive_ = false;
  serving_ = false;
  for (auto& worker : workers_) worker->end();
}

void Shim::take(int proxy, const Request& request, Reply reply) {
  workers_[static_cast<size_t>(proxy % kWorkers)]->take(request, std::move(reply));
}

void Shim::permit(const SlotSet& slots) {
  permits_.grant(slots);
  permit_given_ = context_.now();
}

void Shim::interrupt(const std::string& why) {
  for (Unit& u : units_) {
    if (u.machine->busy() && u.interrupt.empty()) u.interrupt = why;
  }
}

void Shim::cut(int worker, bool new_side, bool server_gone) {
  workers_[static_cast<size_t>(worker)]->cut(new_side, server_gone);
}

void Shim::stop_writes(bool new_side, Reason reason, bool yes) {
  stopped_[new_side][reason == Reason::kMarker] = yes;
  const bool stopped = stopped_[new_side][0] || stopped_[new_side][1];
  for (auto& worker : workers_) worker->stop_writes(new_side, stopped);
}

bool Shim::past_the_permit() const {
  return std::any_of(units_.begin(), units_.end(),
                     [](const Unit& u) { return u.permitted && u.machine->busy(); });
}

bool Shim::make_final(int unit) {
  Unit& u = units_[static_cast<size_t>(unit)];
  if (u.machine->phase() != SlotPhase::kNew || u.machine->busy() || u.machine->mark_owed()) {
    return false;
  }
  folder_.records[static_cast<size_t>(unit)].phase = SlotPhase::kFinal;
  return true;
}

// Looks for a unit to begin with; one at a time, as the runner.
void Shim::tick() {
  later(10'000, [this] { tick(); });
  for (Unit& u : units_) {
    if (u.machine->busy()) return;
  }
  for (Unit& u : units_) {
    if (u.not_before > context_.now()) continue;
    std::string why;
    if (u.machine->owes()) {
      u.not_before = context_.now() + 100'000;
      u.attempt = u.machine->epoch();
      u.undo = 0;
      CutEvent again;
      again.type = Event::kRetry;
      step(u, again);
      return;
    }
    if (u.machine->phase() != SlotPhase::kOld || !permits_.valid(u.slots, &why)) continue;
    if (stopped_[0][0] || stopped_[1][0] || !groups_.following(u.number)) continue;
    const size_t lag =
        groups_.old_side(u.number).log.size() - groups_.new_side(u.number).log.size();
    if (lag > 5) continue;
    return begin(u);
  }
}

void Shim::begin(Unit& u) {
  u.attempt = folder_.epoch + 1;
  u.undo = 0;
  u.interrupt.clear();
  u.back_off = std::min<int64_t>(u.back_off * 2, 400'000);
  u.not_before = context_.now() + u.back_off;
  u.permitted = false;
  begins_();
  CutEvent start;
  start.type = Event::kStart;
  start.epoch = u.attempt;
  step(u, start);
}

bool Shim::over(const Unit& u) const {
  return u.hold_start != 0 && context_.now() >= u.deadline;
}

void Shim::step(Unit& u, const CutEvent& event) {
  std::vector<CutAction> next;
  if (event.type != Event::kStart && (!u.interrupt.empty() || over(u))) {
    CutEvent interrupt;
    interrupt.type = Event::kInterrupt;
    interrupt.epoch = u.attempt;
    interrupt.text = u.interrupt.empty() ? "not done within the bound" : u.interrupt;
    next = u.machine->step(interrupt);
  }
  if (next.empty()) next = u.machine->step(event);
  if (!next.empty()) u.todo.assign(next.begin(), next.end());
  drive(u);
}

void Shim::drive(Unit& u) {
  while (!u.todo.empty()) {
    const CutAction action = u.todo.front();
    u.todo.pop_front();
    if (action.type == Act::kRetryLater) continue;
    if (action.type == Act::kReport) {
      context_.say("unit ", u.number, " ", phase_name(action.phase), ": ", action.text);
      if (action.phase == SlotPhase::kNew) {
        each_slot(u, [&](int slot) {
          for (auto& worker : workers_) worker->forget_unanswered(slot);
        });
      }
      continue;
    }
    perform(u, action);
    return;  // goes on with the answer
  }
}

int64_t Shim::limit(const Unit& u, int64_t most_us) const {
  if (u.hold_start == 0 || u.machine->committed()) return most_us;
  return std::clamp<int64_t>(u.deadline - context_.now(), 1'000, most_us);
}

// The effect comes about whether or not this life, or its patience, lasts until then.
void Shim::call(Unit& u, Event type, int64_t timeout_us, Effect effect) {
  auto event = std::make_shared<CutEvent>();
  auto answered = std::make_shared<bool>(false);
  event->type = type;
  event->epoch = u.attempt;
  int64_t there = context_.between(150, 1'500);
  int64_t back = context_.between(150, 1'500);
  if (context_.strikes(Fault::kLateAnswer, type == Event::kPromoted ? 0.25 : 0.05)) {
    (groups_.kind() == Kind::kNode && context_.chance(0.6) ? there : back) =
        context_.between(40'000, context_.chance(0.6) ? 260'000 : 700'000);
  }
  Unit* unit = &u;
  context_.after(there, [=, this, alive = alive_] {
    effect(event.get());
    context_.after(back, [=, this] {
      if (!*alive || std::exchange(*answered, true)) return;
      step(*unit, *event);
    });
  });
  later(timeout_us, [=, this] {
    if (std::exchange(*answered, true)) return;
    CutEvent late;
    late.type = type;
    late.epoch = event->epoch;
    late.status = Status::timeout("no answer");
    step(*unit, late);
  });
}

bool Shim::changed(const Unit& u, bool new_side) const {
  return groups_.run(new_side) != u.runs[new_side];
}

void Shim::perform(Unit& u, const CutAction& action) {
  context_.say("unit ", u.number, " ", action_name(action.type),
               action.type == Act::kPublish ? cat(" ", phase_name(action.phase)) : "");
  switch (action.type) {
    case Act::kRecordIntent:
      later(context_.between(100, 2'000), [this, &u] {
        CutEvent event;
        event.type = Event::kRecorded;
        event.epoch = u.attempt;
        folder_.epoch = u.attempt;
        folder_.records[static_cast<size_t>(u.number)].attempt = u.attempt;
        step(u, event);
      });
      return;
    case Act::kAnnounce:
      u.runs[0] = groups_.run(false);
      u.runs[1] = groups_.run(true);
      return call(u, Event::kAnnounced, kQuietUs,
                  [this, n = u.number, e = u.attempt](CutEvent* out) {
                    out->status = groups_.announce(n, e);
                  });
    case Act::kPublish:
      return publish(u, action.phase);
    case Act::kDrain:
    case Act::kDrainReads:
      return drain(u, action.type == Act::kDrainReads);
    case Act::kFence:
      return groups_.kind() == Kind::kNode ? fence(u) : fence_by_keys(u);
    case Act::kWaitApplied:
      return wait_applied(u, action.position.seq);
    case Act::kCheckPermit:
      return check_permit(u);
    case Act::kWriteOwner:
      return write_owner(u);
    case Act::kFollowAgain:
    case Act::kUnfence:
      return go_back(u, action);
    default:
      return switch_over(u, action);
  }
}

void Shim::publish(Unit& u, SlotPhase phase) {
  if (phase == SlotPhase::kHold) {
    u.hold_start = context_.now();
    u.deadline = u.hold_start + kPauseUs;
  }
  if (phase == SlotPhase::kNew) stop_writes(true, Reason::kMarker, u.machine->mark_owed());
  if (phase != SlotPhase::kHold && phase != SlotPhase::kPromote) u.hold_start = 0;
  auto left = std::make_shared<int>(kWorkers);
  const uint64_t number = ++publications_;
  for (auto& worker : workers_) {
    int64_t delay = context_.between(20, 800);
    if (context_.strikes(Fault::kSlowWorker, 0.04)) delay = context_.between(20'000, 400'000);
    later(delay, [this, &u, phase, left, number, w = worker.get()] {
      each_slot(u, [&](int slot) { w->set_phase(slot, phase); });
      if (--*left > 0 || number != publications_) return;
      CutEvent event;
      event.type = Event::kPublished;
      event.epoch = u.attempt;
      step(u, event);
    });
  }
}

void Shim::drain(Unit& u, bool reads) {
  CutEvent event;
  event.type = Event::kDrained;
  event.epoch = u.attempt;
  int under_way = 0;
  each_slot(u, [&](int slot) {
    for (auto& worker : workers_) {
      under_way += worker->writes_in_flight(slot) + (reads ? worker->reads_in_flight(slot) : 0);
      event.unanswered += worker->unanswered(slot);
    }
  });
  if (under_way > 0 && u.interrupt.empty() && !over(u)) {
    later(1'000, [this, &u, reads] { drain(u, reads); });
    return;
  }
  if (under_way > 0) event.status = Status::timeout("writes are still under way");
  step(u, event);
}

void Shim::fence(Unit& u) {
  const int64_t lease = std::max<int64_t>(u.deadline - context_.now(), 0) + kLeaseMarginUs;
  call(u, Event::kFenced, limit(u, kQuietUs),
       [this, n = u.number, e = u.attempt, lease](CutEvent* out) {
         Result<ReplPosition> end = groups_.fence(n, e, lease);
         out->status = end.status();
         if (end) out->position = *end;
       });
}

// Accounting: the end before and after the driver's own records, which are all there may be
// between.
void Shim::fence_by_keys(Unit& u) {
  Unit* unit = &u;
  later(context_.between(150, 1'500), [=, this] {
    unit->end_before = groups_.old_side(unit->number).log.size();
    later(context_.between(150, 1'500), [=, this] {
      groups_.append(unit->number, {-1, Op::kSet, 0});
      groups_.append(unit->number, {-2, Op::kSet, 0});
    });
    later(context_.between(1'600, context_.chance(0.5) ? 3'000 : 40'000), [=, this] {
      CutEvent event;
      event.type = Event::kFenced;
      event.epoch = unit->attempt;
      Copy& copy = groups_.old_side(unit->number);
      event.position = groups_.end_of(copy);
      if (changed(*unit, false)) {
        event.status = Status::unavailable("another process is the old master");
      } else if (copy.log.size() != unit->end_before + 2) {
        event.status = Status::refused("records that are not ours came in between");
      }
      step(*unit, event);
    });
  });
}

void Shim::wait_applied(Unit& u, uint64_t end) {
  CutEvent event;
  event.type = Event::kApplied;
  event.epoch = u.attempt;
  event.yes = groups_.applied(u.number, end) && !changed(u, true);
  if (!event.yes && u.interrupt.empty() && !over(u)) {
    later(1'000, [this, &u, end] { wait_applied(u, end); });
    return;
  }
  step(u, event);
}

void Shim::check_permit(Unit& u) {
  call(u, Event::kPermit, limit(u, kQuietUs), [this, &u, alive = alive_](CutEvent* out) {
    if (!*alive) return;
    out->yes = permits_.valid(u.slots, &out->text);
    if (out->yes && context_.now() - permit_given_ > Permits::kValidMs * 1000) {
      throw Violation("6.2: a permit was believed after its time");
    }
    if (out->yes && groups_.kind() == Kind::kPika && strangers_()) {
      out->yes = false;
      out->text = "others are connected to the old side";
    }
    u.permitted = out->yes;
  });
}

void Shim::switch_over(Unit& u, const CutAction& action) {
  const int n = u.number;
  const uint64_t e = u.attempt;
  const int64_t runs[2] = {u.runs[0], u.runs[1]};
  const auto same = [this, old_run = runs[0], new_run = runs[1]] {
    return groups_.run(false) == old_run && groups_.run(true) == new_run
               ? Status::ok()
               : Status::unavailable("another process is a group's master");
  };
  if (action.type == Act::kFencePermanent || action.type == Act::kPromote) {
    const bool promote = action.type == Act::kPromote;
    const ReplPosition end = action.position;
    return call(u, promote ? Event::kPromoted : Event::kPermanent, limit(u, kQuietUs),
                [=, this](CutEvent* out) {
                  out->status = same();
                  if (!out->status) return;
                  Result<ReplPosition> at =
                      promote ? groups_.promote(n, e, end) : groups_.fence_permanent(n, e);
                  out->status = at.status();
                  if (at) out->position = *at;
                });
  }
  if (action.type == Act::kReadEnds) {
    return call(u, Event::kEnds, limit(u, kQuietUs), [=, this](CutEvent* out) {
      out->status = same();
      const Copy& left = groups_.new_side(n);
      out->old_end = groups_.end_of(groups_.old_side(n));
      out->new_end = {cat("h", left.left_history), left.left_at};
    });
  }
  if (action.type == Act::kMark) {
    return call(u, Event::kMarked, kQuietUs, [this, n, e, &u, alive = alive_](CutEvent* out) {
      if (groups_.away(true)) {
        out->status = Status::unavailable("away");
        return;
      }
      if (!traits_.exact_end) groups_.new_side(n).marker = e;
      if (*alive) folder_.records[static_cast<size_t>(u.number)].marked = true;
    });
  }
  if (action.type == Act::kRelease) {
    return call(u, Event::kReleased, kQuietUs, [](CutEvent*) {});
  }
  call(u, Event::kLinked, kQuietUs, [this, n, &u, alive = alive_](CutEvent* out) {
    if (groups_.away(false)) {
      out->status = Status::unavailable("away");
      return;
    }
    groups_.old_side(n).master = false;
    if (*alive) folder_.records[static_cast<size_t>(u.number)].linked = true;
  });
}

void Shim::write_owner(Unit& u) {
  later(context_.between(200, 4'000), [this, &u] {
    CutEvent event;
    event.type = Event::kOwnerSynced;
    event.epoch = u.attempt;
    const bool fails = context_.strikes(Fault::kRecordUnknown, 0.2);
    if (fails) event.status = Status::unavailable("disk error");
    if (!fails || context_.chance(0.5)) {
      SlotRecord& record = folder_.records[static_cast<size_t>(u.number)];
      record.phase = SlotPhase::kNew;
      record.epoch = record.attempt = u.attempt;
      record.proof = u.machine->proof();
      record.promoted = u.machine->promoted();
      each_slot(u, [&](int slot) { groups_.owner_is_new[static_cast<size_t>(slot)] = true; });
    }
    later(context_.between(10, 500), [this, &u, event] { step(u, event); });
  });
}

void Shim::go_back(Unit& u, const CutAction& action) {
  if (u.undo == 0)
    u.undo = ++folder_.epoch;  // what is late of this attempt is refused from here on
  const bool follow = action.type == Act::kFollowAgain;
  call(u, follow ? Event::kFollowing : Event::kUnfenced, u.hold_start != 0 ? kUndoUs : kQuietUs,
       [this, follow, n = u.number, e = u.undo](CutEvent* out) {
         out->status = follow ? groups_.follow_again(n, e) : groups_.unfence(n, e);
       });
}

}  // namespace sf::cutsim
