#include "tests/sim/cutover/shim.h"

#include <algorithm>

namespace sf::cutsim {
namespace {

using Act = CutAction::Type;
using Event = CutEvent::Type;

constexpr int64_t kPauseUs = 200'000;
constexpr int64_t kQuietUs = 2'000'000;
constexpr int64_t kUndoUs = 30'000;
constexpr int64_t kMarkUs = 240'000;
constexpr int kTries = 6;
constexpr int64_t kLeaseMarginUs = 500'000;

CutTraits traits_of(Kind kind) {
  CutTraits out;
  if (kind == Kind::kNode) return out;
  out.reverse_link = out.exact_end = false;
  out.heals = true;
  return out;
}

}  // namespace

int64_t PermitClock::mono_us() const {
  return context_.mono_us() * kPermitSpeed;
}

Shim::Shim(Context& context, Groups& groups, Folder& folder, std::function<bool()> strangers,
           std::function<void(bool)> begins, std::function<void()> holds,
           std::function<void()> links)
    : context_(context),
      groups_(groups),
      folder_(folder),
      strangers_(std::move(strangers)),
      begins_(std::move(begins)),
      holds_(std::move(holds)),
      links_(std::move(links)),
      traits_(traits_of(groups.kind())),
      permit_clock_(context),
      permits_(std::make_unique<Permits>(&permit_clock_)),
      units_(static_cast<size_t>(groups.units())),
      turns_(HoldPacing{context.chance(0.5) ? 2 : 1, 5, 40'000}) {
  const auto note = [this](int key) {
    folder_.heal[static_cast<size_t>(groups_.unit_of_key(key))].keys.insert(key);
  };
  for (int i = 0; i < kWorkers; ++i) {
    workers_.push_back(std::make_unique<Worker>(context, groups, note));
  }
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
  for (HealList& list : folder_.heal) list = {};  // the process was killed
  if (!judge_all()) return false;
  for (Unit& u : units_) {
    each_slot(u, [&](int slot) {
      for (auto& worker : workers_) worker->set_phase(slot, phase(u));
    });
  }
  serving_ = true;
  later(1'000, [this] { tick(); });
  return true;
}

bool Shim::judge_all() {
  if (groups_.away(false) || groups_.away(true)) return false;
  const uint64_t epoch = ++folder_.epoch;
  reserved_ = std::max(reserved_, epoch);
  for (Unit& u : units_) {
    if (!groups_.announce(u.number, epoch)) return false;
  }
  for (Unit& u : units_) {
    const uint64_t marker = traits_.exact_end ? 0 : groups_.new_side(u.number).marker;
    SlotRecord& record = folder_.records[static_cast<size_t>(u.number)];
    settle(u, judge_slot(u.slots.first(), record, groups_.report(false, u.number),
                         groups_.report(true, u.number), traits_, marker));
  }
  stop_writes_unmarked();
  return true;
}

void Shim::reload() {
  if (!serving_ || reloading_) return;
  reloading_ = true;
  context_.note(Fault::kReload);
  context_.matters(Fault::kReload, context_.in_pause());
  interrupt("the shim takes a changed plan over");
  take_over();
}

// When the running attempts are at their ends. A server that is away leaves the former control in
// charge.
void Shim::take_over() {
  const bool busy =
      std::any_of(units_.begin(), units_.end(), [](const Unit& u) { return u.machine->busy(); });
  if (busy) return later(1'000, [this] { take_over(); });
  reloading_ = false;
  if (groups_.away(false) || groups_.away(true)) return;
  context_.say("the plan is read again");
  permits_ = std::make_unique<Permits>(&permit_clock_);
  if (!judge_all()) return;
  for (Unit& u : units_) u.back_ordered = false;  // answered: not begun
  for (auto& worker : workers_) {
    later(context_.between(20, 800), [this, w = worker.get()] {
      for (Unit& u : units_) {
        if (u.machine->busy()) continue;
        each_slot(u, [&](int slot) { w->set_phase(slot, phase(u)); });
      }
    });
  }
}

void Shim::settle(Unit& u, const SlotVerdict& verdict) {
  context_.say("unit ", u.number, " starts in ", phase_name(verdict.phase), " ", verdict.text);
  SlotVerdict v = verdict;
  if (v.debts.follow) {
    const Status status = groups_.follow_again(u.number, folder_.epoch, false, v.back);
    v.debts.follow = !status && status.code() != Code::kRefused;
    if (status.code() == Code::kRefused && traits_.exact_end) v.phase = SlotPhase::kDoubt;
  }
  if (v.phase == turned(SlotPhase::kOld, v.back) && v.debts.unfence) {
    v.debts.unfence = !groups_.unfence(u.number, folder_.epoch, v.back);
  }
  if (v.text.starts_with("the old side is not fenced") && traits_.exact_end) {
    (void)groups_.fence(u.number, folder_.epoch, kQuietUs, v.back);
    (void)groups_.fence_permanent(u.number, folder_.epoch, v.back);
  }
  if (v.debts.mark && traits_.exact_end) {
    v.debts.mark = !groups_.open(u.number, folder_.epoch, v.back);
  }
  u.back = v.back;
  u.machine = std::make_unique<CutoverMachine>(traits_, turned(v.phase, v.back));
  u.machine->owe(v.debts, folder_.epoch);
}

void Shim::kill() {
  *alive_ = false;
  serving_ = false;
  for (Unit& u : units_) {
    if (u.hold_start != 0) context_.paused(-1);
  }
  for (auto& worker : workers_) worker->end();
}

void Shim::take(int proxy, const Request& request, Reply reply) {
  workers_[static_cast<size_t>(proxy % kWorkers)]->take(request, std::move(reply));
}

void Shim::permit(const SlotSet& slots) {
  permits_->grant(slots);
  permit_given_ = context_.now();
}

Status Shim::roll_back(int unit) {
  Unit& u = at(unit);
  std::string why;
  if (!traits_.reverse_link) return Status::refused("there is no way back");
  if (!permits_->valid(u.slots, &why)) return Status::refused(why);
  u.automatic = false;
  if (!std::exchange(u.back_ordered, true)) u.not_before = context_.now();
  u.tries = 0;
  return Status::ok();
}

void Shim::abort() {
  interrupt("aborted by the operator");
  for (Unit& u : units_) u.back_ordered = false;
}

void Shim::interrupt(const std::string& why) {
  for (Unit& u : units_) {
    if (u.machine->busy() && u.interrupt.empty()) u.interrupt = why;
  }
}

// What the forecast says is asked anew each time; an attempt under way, or over, must not be begun
// again.
void Shim::order_again() {
  for (Unit& u : units_) {
    context_.note(Fault::kCutoverTwice);
    context_.matters(Fault::kCutoverTwice, u.machine->busy());
    if (!u.machine->busy()) {
      if (phase(u) == SlotPhase::kOld) u.not_before = 0;
      continue;
    }
    CutEvent start;
    start.type = Event::kStart;
    start.epoch = ++reserved_;
    const std::vector<CutAction> next = u.machine->step(start);
    if (next.empty()) continue;
    u.attempt = start.epoch;
    u.todo.assign(next.begin(), next.end());
    drive(u);
  }
}

void Shim::passed(int unit, const std::set<int>& different) {
  HealList& list = folder_.heal[static_cast<size_t>(unit)];
  list.keys.insert(different.begin(), different.end());
  list.complete = true;
}

void Shim::forget_pass(int unit) {
  folder_.heal[static_cast<size_t>(unit)].complete = false;
}

bool Shim::needs_pass(int unit) const {
  return traits_.heals && !folder_.heal[static_cast<size_t>(unit)].complete;
}

void Shim::cut(int worker, bool new_side, bool server_gone) {
  workers_[static_cast<size_t>(worker)]->cut(new_side, server_gone);
}

void Shim::stop_writes(bool new_side, Reason reason, bool yes) {
  stopped_[new_side][reason == Reason::kMarker] = yes;
  const bool stopped = stopped_[new_side][0] || stopped_[new_side][1];
  for (auto& worker : workers_) worker->stop_writes(new_side, stopped);
}

void Shim::stop_writes_unmarked() {
  for (const bool on_new : {false, true}) {
    const bool unmarked = std::any_of(units_.begin(), units_.end(), [on_new](const Unit& u) {
      return u.machine->mark_owed() && u.back != on_new;
    });
    stop_writes(on_new, Reason::kMarker, unmarked);
  }
}

bool Shim::past_the_permit() const {
  return std::any_of(units_.begin(), units_.end(),
                     [](const Unit& u) { return u.permitted && u.machine->busy(); });
}

bool Shim::make_final(int unit) {
  Unit& u = at(unit);
  // It may be prepared for going back at this moment, or not yet be taken back.
  if (u.back_ordered || (u.back && u.machine->owes())) return false;
  if (phase(u) != SlotPhase::kNew || u.machine->mark_owed()) return false;
  folder_.records[static_cast<size_t>(unit)].phase = SlotPhase::kFinal;
  folder_.records[static_cast<size_t>(unit)].back = false;
  return true;
}

// Looks for units to begin with.
void Shim::tick() {
  later(10'000, [this] { tick(); });
  if (reloading_) return;
  for (Unit& u : units_) {
    if (u.machine->busy() || u.not_before > context_.now()) continue;
    if (folder_.records[static_cast<size_t>(u.number)].phase == SlotPhase::kFinal) {
      u.machine->forgive_link();
    }
    if (u.machine->owes()) {
      u.not_before = context_.now() + 100'000;
      if (u.back_ordered && ++u.tries >= kTries) u.back_ordered = false;
      u.attempt = u.machine->epoch();
      u.undo = 0;
      CutEvent again;
      again.type = Event::kRetry;
      step(u, again);
    } else if (u.back_ordered) {
      try_back(u);
    } else if (u.automatic && turns_.may_prepare() && may_begin(u, false)) {
      begin(u, false);
    }
  }
}

// One attempt at what was ordered.
void Shim::try_back(Unit& u) {
  std::string why;
  const bool hopeless = phase(u) != SlotPhase::kNew || !permits_->valid(u.slots, &why) ||
                        u.tries == kTries ||
                        folder_.records[static_cast<size_t>(u.number)].phase == SlotPhase::kFinal;
  if (hopeless) {
    u.back_ordered = false;
    return;
  }
  if (!turns_.may_prepare()) return;
  ++u.tries;
  if (may_begin(u, true)) return begin(u, true);
  u.not_before = context_.now() + 20'000;
}

bool Shim::may_begin(Unit& u, bool back) {
  std::string why;
  if (phase(u) != turned(SlotPhase::kOld, back)) return false;
  if (!permits_->valid(u.slots, &why)) {
    context_.matters(Fault::kMigratorAway);
    return false;
  }
  if (stopped_[0][0] || stopped_[1][0]) return false;
  if (!groups_.following(u.number, back)) return false;
  if (!back && (!groups_.trusted(u.number) || needs_pass(u.number))) return false;
  return groups_.left(u.number, back).log.size() - groups_.taken(u.number, back).log.size() <= 5;
}

void Shim::begin(Unit& u, bool back) {
  if (u.back != back) {
    u.back = back;
    u.machine = std::make_unique<CutoverMachine>(traits_, SlotPhase::kOld);
  }
  if (!back && folder_.records[static_cast<size_t>(u.number)].epoch != 0) {
    context_.note(Fault::kForwardAgain);
  }
  u.attempt = reserved_ = std::max(reserved_, folder_.epoch) + 1;
  u.undo = 0;
  u.interrupt.clear();
  u.back_off = std::min<int64_t>(u.back_off * 2, 400'000);
  u.not_before = context_.now() + u.back_off;
  u.ready = context_.now();
  u.permitted = false;
  u.prepared = true;
  turns_.prepare();
  begins_(back);
  CutEvent start;
  start.type = Event::kStart;
  start.epoch = u.attempt;
  step(u, start);
}

void Shim::leave_turn(Unit& u) {
  if (std::exchange(u.prepared, false)) turns_.withdraw();
}

void Shim::let_go(Unit& u) {
  if (u.hold_start == 0) return;
  u.hold_start = 0;
  u.prepared = false;
  turns_.end(context_.now());
  context_.paused(-1);
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
    context_.matters(Fault::kCalledOff, !next.empty() && u.hold_start != 0);
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
      let_go(u);
      leave_turn(u);
      if (action.phase == SlotPhase::kNew) {
        each_slot(u, [&](int slot) {
          for (auto& worker : workers_) worker->forget_unanswered(slot, u.back);
        });
      }
      if (phase(u) != SlotPhase::kNew) u.back_ordered = false;
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
  const double lateness = type == Event::kPromoted ? 0.6 : type == Event::kLinked ? 0.5 : 0.05;
  if (context_.strikes(Fault::kLateAnswer, lateness)) {
    const double before = type == Event::kLinked ? 0.2 : 0.6;
    (groups_.kind() == Kind::kNode && context_.chance(before) ? there : back) =
        context_.between(40'000, context_.chance(0.6) ? 260'000 : 700'000);
  }
  Unit* unit = &u;
  context_.after(there, [=, this, alive = alive_] {
    effect(event.get());
    context_.after(back, [=, this] {
      if (!*alive) return;
      if (!std::exchange(*answered, true)) {
        note(*unit, *event);
        return step(*unit, *event);
      }
      // Too late: it carries the number of its attempt, and the machine knows whether it still
      // waits for that.
      context_.matters(Fault::kLateAnswer);
      const std::vector<CutAction> next = unit->machine->step(*event);
      if (next.empty()) return;
      unit->todo.assign(next.begin(), next.end());
      drive(*unit);
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

// On record when the answer is there: until then it may have come about, and writes have followed.
void Shim::note(const Unit& u, const CutEvent& event) {
  SlotRecord& record = folder_.records[static_cast<size_t>(u.number)];
  if (event.type == Event::kMarked && event.status) record.marked = true;
  if (event.type == Event::kLinked && event.status) record.linked = true;
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
        folder_.epoch = std::max(folder_.epoch, u.attempt);
        folder_.records[static_cast<size_t>(u.number)].attempt = u.attempt;
        folder_.records[static_cast<size_t>(u.number)].back = u.back;
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
      return action.phase == SlotPhase::kHold ? hold_in_turn(u) : publish(u, action.phase);
    case Act::kDrain:
    case Act::kDrainReads:
      return drain(u, action.type == Act::kDrainReads);
    case Act::kFence:
      return groups_.kind() == Kind::kNode ? fence(u) : fence_by_keys(u);
    case Act::kWaitApplied:
      return wait_applied(u, action.position.seq);
    case Act::kCheckPermit:
      return check_permit(u);
    case Act::kHeal:
      return heal(u);
    case Act::kWriteOwner:
      return write_owner(u);
    case Act::kFollowAgain:
    case Act::kUnfence:
      return go_back(u, action);
    default:
      return switch_over(u, action);
  }
}

void Shim::hold_in_turn(Unit& u) {
  if (!u.interrupt.empty()) {
    CutEvent event;
    event.type = Event::kPublished;
    event.epoch = u.attempt;
    event.status = Status::refused(u.interrupt);
    return step(u, event);
  }
  if (turns_.wait_us(context_.now()) != 0) return later(500, [this, &u] { hold_in_turn(u); });
  (void)turns_.begin(context_.now(), u.ready);
  context_.paused(1);
  u.hold_start = context_.now();
  u.deadline = u.hold_start + kPauseUs;
  holds_();
  publish(u, SlotPhase::kHold);
}

void Shim::publish(Unit& u, SlotPhase phase) {
  if (phase == SlotPhase::kNew) stop_writes_unmarked();
  if (phase != SlotPhase::kHold && phase != SlotPhase::kPromote) let_go(u);
  auto left = std::make_shared<int>(kWorkers);
  const uint64_t number = ++u.publication;
  for (auto& worker : workers_) {
    int64_t delay = context_.between(20, 800);
    if (context_.strikes(Fault::kSlowWorker, 0.04)) {
      delay = context_.between(20'000, 400'000);
      context_.matters(Fault::kSlowWorker, u.hold_start != 0);
    }
    later(delay, [this, &u, phase, left, number, w = worker.get()] {
      each_slot(u, [&](int slot) { w->set_phase(slot, turned(phase, u.back), u.back); });
      if (--*left > 0 || number != u.publication) return;
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
      under_way += worker->writes_in_flight(slot, u.back);
      if (reads) under_way += worker->reads_in_flight(slot, u.back);
      event.unanswered += worker->unanswered(slot, u.back);
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
       [this, n = u.number, e = u.attempt, lease, back = u.back](CutEvent* out) {
         Result<ReplPosition> end = groups_.fence(n, e, lease, back);
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
      context_.fenced();
      step(*unit, event);
    });
  });
}

void Shim::wait_applied(Unit& u, uint64_t end) {
  CutEvent event;
  event.type = Event::kApplied;
  event.epoch = u.attempt;
  event.yes = groups_.applied(u.number, end, u.back) && !changed(u, !u.back);
  if (!event.yes && u.interrupt.empty() && !over(u)) {
    context_.matters(Fault::kSlowApply, u.hold_start != 0);
    later(1'000, [this, &u, end] { wait_applied(u, end); });
    return;
  }
  step(u, event);
}

void Shim::check_permit(Unit& u) {
  call(u, Event::kPermit, limit(u, kQuietUs), [this, &u, alive = alive_](CutEvent* out) {
    if (!*alive) return;
    out->yes = permits_->valid(u.slots, &out->text);
    context_.matters(Fault::kMigratorAway, !out->yes);
    context_.matters(Fault::kClockJump);
    if (out->yes && context_.now() - permit_given_ > Permits::kValidMs * 1000 / kPermitSpeed) {
      throw Violation("6.2: a permit was believed after its time");
    }
    if (out->yes && groups_.kind() == Kind::kPika && strangers_()) {
      out->yes = false;
      out->text = "others are connected to the old side";
    }
    if (out->yes && needs_pass(u.number)) {  // a proxy was found elsewhere meanwhile
      out->yes = false;
      out->text = "writes that were not seen here may have been replicated wrongly";
    }
    u.permitted = out->yes;
  });
}

void Shim::switch_over(Unit& u, const CutAction& action) {
  const int n = u.number;
  const uint64_t e = u.attempt;
  const bool back = u.back;
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
                  Result<ReplPosition> at = promote ? groups_.promote(n, e, end, back)
                                                    : groups_.fence_permanent(n, e, back);
                  out->status = at.status();
                  if (at) out->position = *at;
                });
  }
  if (action.type == Act::kReadEnds) {
    return call(u, Event::kEnds, limit(u, kQuietUs), [=, this](CutEvent* out) {
      out->status = same();
      const Copy& taken = groups_.taken(n, back);
      out->old_end = groups_.end_of(groups_.left(n, back));
      out->new_end = {cat("h", taken.left_history), taken.left_at};
    });
  }
  tie_up(u, action);
}

// Of what is switched.
void Shim::tie_up(Unit& u, const CutAction& action) {
  const int n = u.number;
  const uint64_t e = u.attempt;
  if (action.type == Act::kMark) {
    const int64_t timeout = u.hold_start != 0 ? kMarkUs : kQuietUs;
    return call(u, Event::kMarked, timeout, [=, this, back = u.back](CutEvent* out) {
      out->status = groups_.open(n, e, back);
      if (out->status && !traits_.exact_end) groups_.new_side(n).marker = e;
    });
  }
  if (action.type == Act::kRelease) {
    return call(u, Event::kReleased, kQuietUs, [](CutEvent*) {});
  }
  links_();
  call(u, Event::kLinked, kQuietUs,
       [this, n, e, from = action.position, back = u.back](CutEvent* out) {
         out->status = groups_.link_reverse(n, e, from, back);
       });
}

void Shim::heal(Unit& u) {
  const std::set<int>& keys = folder_.heal[static_cast<size_t>(u.number)].keys;
  call(u, Event::kHealed, limit(u, kQuietUs), [this, n = u.number, keys](CutEvent* out) {
    int found = 0;
    Result<ReplPosition> end = groups_.heal(n, keys, &found);
    context_.matters(Fault::kReplicatedWrongly, found > 0);
    context_.say("unit ", n, " heals ", found, " of ", keys.size());
    out->status = end.status();
    if (end) out->old_end = *end;
  });
}

// I2, I2b: what the new side takes over is what the old side held at the proof.
void Shim::check_equal(const Unit& u) {
  const Copy& left = groups_.left(u.number, u.back);
  std::set<int> later_written;  // by whom nobody waits for
  for (size_t i = u.machine->proof().seq; i < left.log.size(); ++i) {
    later_written.insert(left.log[i].key);
  }
  for (int key : groups_.different(u.number)) {
    if (later_written.contains(key)) continue;
    throw Violation(cat("I2 unit ", u.number, ": key ", key, " differs at the owner record"));
  }
}

void Shim::write_owner(Unit& u) {
  later(context_.between(200, 4'000), [this, &u] {
    CutEvent event;
    event.type = Event::kOwnerSynced;
    event.epoch = u.attempt;
    const bool fails = context_.strikes(Fault::kRecordUnknown, 0.2);
    context_.matters(Fault::kRecordUnknown, fails);
    if (fails) event.status = Status::unavailable("disk error");
    if (!fails || context_.chance(0.5)) {
      check_equal(u);
      SlotRecord& record = folder_.records[static_cast<size_t>(u.number)];
      record.phase = turned(SlotPhase::kNew, u.back);
      record.back = u.back;
      record.marked = record.linked = false;
      if (!u.back && record.epoch != 0) context_.matters(Fault::kForwardAgain);
      context_.matters(Fault::kRollback, u.back);
      record.epoch = record.attempt = u.attempt;
      record.proof = u.machine->proof();
      record.promoted = u.machine->promoted();
      each_slot(u, [&](int slot) { groups_.owner_is_new[static_cast<size_t>(slot)] = !u.back; });
    }
    later(context_.between(10, 500), [this, &u, event] { step(u, event); });
  });
}

void Shim::go_back(Unit& u, const CutAction& action) {
  if (u.undo == 0)
    // What is late of this attempt is refused from here on.
    u.undo = folder_.epoch = reserved_ = std::max(reserved_, folder_.epoch) + 1;
  const bool follow = action.type == Act::kFollowAgain;
  call(u, follow ? Event::kFollowing : Event::kUnfenced, u.hold_start != 0 ? kUndoUs : kQuietUs,
       [this, follow, n = u.number, e = u.undo, back = u.back,
        known = !action.position.history.empty()](CutEvent* out) {
         out->status =
             follow ? groups_.follow_again(n, e, known, back) : groups_.unfence(n, e, back);
       });
}

}  // namespace sf::cutsim
