#include "tests/sim/cutover/world.h"

#include <algorithm>

namespace sf::cutsim {

World::World(uint64_t seed, const SimOptions& options)
    : context_(seed, options.trace),
      kind_(context_.chance(0.5) ? Kind::kNode : Kind::kPika),
      groups_(context_, kind_, kind_ == Kind::kNode ? kSlots : 1) {
  peaceful_ = context_.chance(0.08);
  for (size_t i = 0; i < kFaults; ++i) {
    context_.allow(static_cast<Fault>(i), !peaceful_ && context_.chance(0.45));
  }
  const bool goes_back = context_.chance(0.85);
  context_.allow(Fault::kRollback, goes_back);  // not a fault: nobody may see it
  if (goes_back) soak_us_ = context_.between(20'000, 300'000);
  think_us_ = context_.chance(0.25) ? 40'000 : context_.between(1'500, 8'000);
  read_think_us_ = context_.between(1'000, 3'000);
  write_share_ = 0.1 * static_cast<double>(context_.between(2, 6));
  fault_rate_ = 0.02 + 0.01 * static_cast<double>(context_.random.below(8));
  if (kind_ == Kind::kPika && context_.strikes(Fault::kReplicatedWrongly, 1)) {
    odd_share_ = context_.chance(0.5) ? 0.25 : 0.03;
  }
  if (kind_ == Kind::kPika && context_.strikes(Fault::kQueueLost, 0.6)) {
    context_.allow(Fault::kSlowApply, true);
    context_.allow(Fault::kFailoverNew, true);
    groups_.lose_queue();
  }
  folder_.records.resize(static_cast<size_t>(groups_.units()));
  folder_.heal.resize(static_cast<size_t>(groups_.units()));
  passing_since_.resize(static_cast<size_t>(groups_.units()));
  owing_looks_.resize(static_cast<size_t>(groups_.units()));
  final_.resize(static_cast<size_t>(groups_.units()));
  wishes_.resize(static_cast<size_t>(groups_.units()));
  const bool unknown_proxy = kind_ == Kind::kNode && context_.strikes(Fault::kWrongMapping, 0.4);
  const int proxies = unknown_proxy ? 3 : 2;
  for (int i = 0; i < proxies; ++i) {
    Proxy& p = proxies_.emplace_back();
    p.number = i;
    p.registered = i < 2;
    p.old_line = std::make_unique<Line>(context_, groups_, false);
    p.new_line = std::make_unique<Line>(context_, groups_, true);
  }
  const bool together = context_.chance(0.5);              // who writes, on one proxy
  for (int i = 0; i < 4 + (unknown_proxy ? 1 : 0); ++i) {  // 2 and 3 only read
    clients_.push_back({i, i == 4 ? 2 : together ? i / 3 : i % 2, 0});
  }
}

void World::issue(Client& client) {
  if (ended_) return;
  const bool reader = client.number == 2 || client.number == 3;
  const int64_t think = busy_ && reader ? read_think_us_ : think_us_;
  context_.after(context_.between(think / 4, think * 2), [this, &client] { issue(client); });
  if (client.under_way >= 2) return;
  ++client.under_way;
  const Request request = next_request(client, reader);
  const uint64_t stamp = context_.stamp();
  called(request, stamp);
  Client* owner = &client;
  forward(proxies_[static_cast<size_t>(client.proxy)], request,
          [this, owner, request, stamp](Outcome outcome, const Answer& answer) {
            --owner->under_way;
            if (peaceful_ && outcome != Outcome::kOk) {
              throw Violation(cat("an error for client ", request.client, " without any fault"));
            }
            answered(request, stamp, outcome, answer);
          });
}

Request World::next_request(const Client& client, bool reader) {
  Request out;
  out.id = next_request_++;
  out.client = client.number;
  out.key = static_cast<int>(std::min(context_.random.below(kKeys), context_.random.below(kKeys)));
  const bool write = !reader && context_.chance(write_share_);
  if (!is_list(out.key)) {
    out.op = write ? Op::kSet : Op::kGet;
  } else {
    out.op = !write ? Op::kRange : context_.chance(0.5) ? Op::kPush : Op::kPop;
  }
  if (out.op == Op::kSet || out.op == Op::kPush) out.value = next_value_++;
  out.odd = out.op == Op::kSet && context_.chance(odd_share_);
  return out;
}

// What is not answered may happen at any time from now on.
void World::called(const Request& request, uint64_t stamp) {
  if (request.op == Op::kSet) {
    registers_[static_cast<size_t>(request.key)].write_unknown(request.value, stamp);
  } else if (request.op == Op::kPush) {
    lists_[static_cast<size_t>(slot_of_key(request.key))].push_unknown(request.value, stamp);
  }
}

void World::answered(const Request& request, uint64_t called, Outcome outcome,
                     const Answer& answer) {
  RegisterCheck& value = registers_[static_cast<size_t>(request.key)];
  ListCheck& list = lists_[static_cast<size_t>(slot_of_key(request.key))];
  const uint64_t now = context_.stamp();
  const bool ok = outcome == Outcome::kOk;
  const bool refused = outcome == Outcome::kRefused;
  switch (request.op) {
    case Op::kGet:
      if (ok) value.read_done(answer.value, called, now);
      return;
    case Op::kSet:
      if (ok) value.write_done(request.value, called, now);
      if (refused) value.write_refused(request.value);
      return;
    case Op::kPush:
      if (ok) list.push_done(request.value, called, now);
      if (refused) list.push_refused(request.value);
      return;
    case Op::kPop:
      if (ok) list.pop_done(answer.value, called, now);
      if (outcome == Outcome::kUnknown) list.pop_unknown(called);
      return;
    case Op::kRange:
      if (ok) list.range_done(answer.list, called, now);
  }
}

void World::forward(Proxy& proxy, const Request& request, Reply reply) {
  const size_t slot = static_cast<size_t>(slot_of_key(request.key));
  if (proxy.wanted[slot] != proxy.to[slot]) {
    proxy.waiting.emplace_back(request, std::move(reply));
    return;
  }
  ++proxy.under_way[slot];
  Proxy* p = &proxy;
  Reply done = [this, p, slot, reply = std::move(reply)](Outcome outcome, const Answer& answer) {
    --p->under_way[slot];
    reply(outcome, answer);
    if (p->wanted[slot] != p->to[slot]) context_.after(10, [this, p] { try_remap(*p); });
  };
  if (proxy.to[slot] == To::kShim) return forward_to_shim(proxy, request, std::move(done));
  context_.matters(proxy.because[slot], context_.in_pause());
  Request direct = request;  // nobody notes what is odd here
  if (odd_share_ > 0 && request.op == Op::kSet) direct.odd = context_.chance(0.8);
  (proxy.to[slot] == To::kOld ? proxy.old_line : proxy.new_line)->send(direct, std::move(done));
}

void World::forward_to_shim(Proxy& proxy, const Request& request, Reply reply) {
  proxy.last_there = std::max(proxy.last_there, context_.now() + context_.between(50, 500));
  Proxy* p = &proxy;
  context_.after(proxy.last_there - context_.now(), [this, p, request, reply = std::move(reply)] {
    if (!shim_ || !shim_->serving()) return reply(Outcome::kRefused, {});
    p->asked.push_back(request.id);
    shim_->take(p->number, request, [p, request, reply](Outcome outcome, const Answer& answer) {
      if (p->asked.front() != request.id) {
        throw Violation(
            cat("I5 the answer to request ", request.id, " overtook that to ", p->asked.front()));
      }
      p->asked.pop_front();
      reply(outcome, answer);
    });
  });
}

void World::remap(Proxy& proxy, int slot, To to) {
  proxy.wanted[static_cast<size_t>(slot)] = to;
  try_remap(proxy);
}

void World::try_remap(Proxy& proxy) {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (proxy.under_way[slot] == 0) proxy.to[slot] = proxy.wanted[slot];
  }
  std::deque<std::pair<Request, Reply>> waiting;
  waiting.swap(proxy.waiting);
  for (auto& [request, reply] : waiting) forward(proxy, request, std::move(reply));
}

bool World::strangers() const {
  return std::any_of(proxies_.begin(), proxies_.end(), [](const Proxy& p) {
    return p.old_line->busy() || p.to[0] == To::kOld || p.to[1] == To::kOld ||
           p.wanted[0] == To::kOld || p.wanted[1] == To::kOld;
  });
}

bool World::mapped(int slot, To to) const {
  const size_t at = static_cast<size_t>(slot);
  return std::all_of(proxies_.begin(), proxies_.end(), [&](const Proxy& p) {
    return !p.registered || (p.to[at] == to && p.wanted[at] == to);
  });
}

// Attaches what is not, reads back, gives the permit; hands back what is switched.
void World::migrate() {
  context_.after(context_.between(60'000, 140'000), [this] { migrate(); });
  if (context_.strikes(Fault::kMigratorAway, 0.1)) {
    migrator_back_ = context_.now() + context_.between(300'000, 900'000);
    if (context_.strikes(Fault::kClockJump, 0.5))
      context_.jump_wall(context_.between(-5'000, 5'000));
  }
  if (context_.now() < migrator_back_ && busy_) return;
  if (!shim_ || !shim_->serving()) return;
  SlotSet attached;
  for (int slot = 0; slot < kSlots; ++slot) {
    const int unit = groups_.unit_of_slot(slot);
    const size_t at = static_cast<size_t>(unit);
    Wish& wish = wishes_[at];
    if (!wish.migrator_stopped) shim_->set_auto(unit, true);
    if (shim_->phase(unit) == SlotPhase::kNew && wish.soak_until == 0) {
      wish.soak_until = context_.now() + soak_us_;
    }
    const bool soaked = !wish.migrator_stopped && context_.now() >= wish.soak_until;
    if (!final_[at] && soaked) final_[at] = shim_->make_final(unit);
    const To to = final_[at] ? To::kNew : wish.released ? To::kOld : To::kShim;
    for (Proxy& p : proxies_) {
      if (!p.registered || p.wanted[static_cast<size_t>(slot)] == to) continue;
      shim_->forget_pass(unit);  // the shim has not seen all that was written
      passing_since_[at] = 0;
      if (context_.strikes(Fault::kWrongMapping, 0.3)) {  // it said it was done
        p.because[static_cast<size_t>(slot)] = Fault::kWrongMapping;
        continue;
      }
      remap(p, slot, to);
    }
    if (mapped(slot, To::kShim)) attached.add(slot);
  }
  for (int unit = 0; unit < groups_.units(); ++unit) pass(unit);
  if (attached.empty()) return;
  Shim* asked = shim_.get();
  context_.after(context_.between(200, 2'000), [this, asked, attached] {
    if (shim_.get() == asked && asked->serving()) asked->permit(attached);
  });
}

// A pass over both sides takes longer than anything that was under way when it began.
void World::pass(int unit) {
  int64_t& since = passing_since_[static_cast<size_t>(unit)];
  bool attached =
      shim_->phase(unit) == SlotPhase::kOld && shim_->needs_pass(unit) && groups_.following(unit);
  for (int slot = 0; slot < kSlots; ++slot) {
    if (groups_.unit_of_slot(slot) == unit) attached = attached && mapped(slot, To::kShim);
  }
  if (!attached) {
    since = 0;
  } else if (since == 0) {
    since = context_.now();
  } else if (context_.now() - since > 160'000) {
    since = 0;
    shim_->passed(unit, groups_.different(unit));
    if (context_.strikes(Fault::kByHand, 0.7)) soon(5'000, &World::by_hand);
    if (context_.strikes(Fault::kCrash, 0.3)) soon(20'000, &World::kill_shim);
  }
}

// Slots go back to the old group, by a hand that asks nobody. Where no fence stops a direct write
// this is survived only before the permit is asked for the last time (DESIGN 7 says so to the
// operator).
void World::by_hand() {
  const bool down = !shim_ || !shim_->serving();
  for (int slot = 0; slot < kSlots; ++slot) {
    const size_t at = static_cast<size_t>(slot);
    if (kind_ == Kind::kPika && (groups_.owner_is_new[at] || (!down && shim_->past_the_permit()))) {
      continue;
    }
    for (Proxy& p : proxies_) {
      if (p.registered && p.wanted[at] == To::kShim && context_.chance(0.7)) {
        remap(p, slot, To::kOld);
        p.because[at] = Fault::kByHand;
        context_.note(Fault::kByHand);
      }
    }
  }
}

void World::leave_by_hand() {
  for (int unit = 0; unit < groups_.units(); ++unit) {
    const bool back = groups_.owner_is_new[static_cast<size_t>(unit)];
    const bool follows_for_a_reason = !shim_ || (shim_->serving() && shim_->going_back(unit));
    if (!back || follows_for_a_reason) groups_.leave_by_hand(unit, back);
  }
}

// An operator who wants switched slots back, and then decides anew. The permit goes on: by hand, if
// the migrator is stopped.
void World::operate() {
  context_.after(context_.between(15'000, 50'000), [this] { operate(); });
  if (!shim_ || !shim_->serving()) return;
  for (int unit = 0; unit < groups_.units(); ++unit) {
    const size_t at = static_cast<size_t>(unit);
    if (final_[at] || wishes_[at].released) continue;
    if (shim_->phase(unit) == SlotPhase::kNew && context_.strikes(Fault::kRollback, 0.4)) {
      order_back(unit);
    } else if (wishes_[at].migrator_stopped && (!busy_ || context_.chance(0.1))) {
      decide(unit);
    }
  }
}

void World::order_back(int unit) {
  Wish& wish = wishes_[static_cast<size_t>(unit)];
  const Status ordered = shim_->roll_back(unit);
  if (kind_ == Kind::kPika && ordered) throw Violation("a Pika was let go back");
  if (!ordered) return;
  context_.say("unit ", unit, " shall go back");
  context_.note(Fault::kRollback);
  wish.migrator_stopped = context_.chance(0.7);
  wish.wants_old = context_.chance(0.5);
  wish.looks = 0;
}

void World::decide(int unit) {
  Wish& wish = wishes_[static_cast<size_t>(unit)];
  const SlotPhase phase = shim_->phase(unit);
  // As long as it helps: a side that does not follow any more leaves one way only.
  if (!busy_ && phase == SlotPhase::kNew && ++wish.looks > 40) wish.wants_old = false;
  if (!wish.wants_old) {
    wish.migrator_stopped = false;
  } else if (!shim_->going_back(unit) && shim_->idle(unit)) {
    if (phase == SlotPhase::kNew) (void)shim_->roll_back(unit);
    if (phase == SlotPhase::kOld && !busy_) release(unit);
  }
}

// The migrator, at a bad moment.
void World::hand_back() {
  for (int unit = 0; shim_ && shim_->serving() && unit < groups_.units(); ++unit) {
    const size_t at = static_cast<size_t>(unit);
    if (!final_[at] && !wishes_[at].migrator_stopped) final_[at] = shim_->make_final(unit);
  }
}

// The move is given up: its slots are the old group's again, in the dashboard too.
void World::release(int unit) {
  wishes_[static_cast<size_t>(unit)].released = true;
  shim_->set_auto(unit, false);
  for (int slot = 0; slot < kSlots; ++slot) {
    if (groups_.unit_of_slot(slot) != unit) continue;
    for (Proxy& p : proxies_) {
      if (p.registered) remap(p, slot, To::kOld);
    }
  }
}

std::unique_ptr<Shim> World::new_shim() {
  std::fill(passing_since_.begin(), passing_since_.end(), 0);
  auto out = std::make_unique<Shim>(
      context_, groups_, folder_, [this] { return strangers(); },
      [this](bool back) { attempt_begins(back); }, [this] { hold_begins(); },
      [this] { link_begins(); });
  for (int unit = 0; unit < groups_.units(); ++unit) {
    out->set_auto(unit, !wishes_[static_cast<size_t>(unit)].migrator_stopped);
  }
  return out;
}

void World::soon(int64_t us, void (World::*what)()) {
  Shim* now = shim_.get();
  context_.after(context_.between(500, us), [this, now, what] {
    if (shim_.get() == now) (this->*what)();
  });
}

// What is on its way now is executed when it may not be any more.
void World::hold_begins() {
  if (!context_.strikes(Fault::kBroken, 0.7)) return;
  context_.after(context_.between(0, 600), [this, now = shim_.get()] {
    if (shim_.get() != now) return;
    for (int worker = 0; worker < kWorkers; ++worker) shim_->cut(worker, false, false);
  });
}

// The link may be made, and writes be replicated over it, before the shim has noted it.
void World::link_begins() {
  if (context_.strikes(Fault::kCrash, 0.3)) soon(60'000, &World::kill_shim);
}

// Faults that must meet an attempt to mean anything.
void World::attempt_begins(bool back) {
  if (back && !context_.chance(0.7)) soon(3'000, &World::hand_back);
  if (context_.strikes(Fault::kCalledOff, 0.2)) soon(60'000, &World::call_off);
  if (context_.strikes(Fault::kBroken, 0.7)) soon(5'000, &World::cut_worker);
  if (context_.strikes(Fault::kCrash, back ? 0.9 : 0.3)) {
    soon(back || context_.chance(0.5) ? 15'000 : 60'000, &World::kill_shim);
  }
  if (context_.strikes(Fault::kByHand, 0.2)) soon(12'000, &World::by_hand);
  if (context_.strikes(Fault::kLeftByHand, 0.1)) soon(15'000, &World::leave_by_hand);
  if (context_.strikes(Fault::kCutoverTwice, 0.3)) soon(30'000, &World::cutover_twice);
  if (context_.strikes(Fault::kReload, 0.1)) soon(30'000, &World::reload);
  if (context_.strikes(Fault::kFailoverOld, 0.08)) soon(20'000, &World::fail_old);
  if (context_.strikes(Fault::kFailoverNew, 0.08)) soon(20'000, &World::fail_new);
}

void World::cutover_twice() {
  shim_->order_again();
}

void World::reload() {
  shim_->reload();
}

void World::call_off() {
  shim_->abort();
}

void World::cut_worker() {
  shim_->cut(static_cast<int>(context_.random.below(kWorkers)), false, false);
}

void World::start_shim() {
  if (context_.strikes(Fault::kOlderCopy, 0.5) && older_) {
    const Folder right = folder_;
    context_.matters(Fault::kOlderCopy, older_->epoch != folder_.epoch);
    folder_ = *older_;
    context_.say("started on an older copy");
    shim_ = new_shim();
    const bool serves = shim_->start();
    if (!serves || shim_->phase(0) == SlotPhase::kDoubt) {  // the operator finds the right one
      kill_shim();
      folder_ = right;
      return;
    }
    for (int slot = 0; slot < kSlots; ++slot) {  // a record nobody has acted on yet is forgotten
      if (folder_.records[static_cast<size_t>(groups_.unit_of_slot(slot))].phase ==
          SlotPhase::kOld) {
        groups_.owner_is_new[static_cast<size_t>(slot)] = false;
      }
    }
    return;
  }
  shim_ = new_shim();
  if (!shim_->start()) kill_shim();
}

void World::kill_shim() {
  if (!shim_) return;
  context_.say("the shim is killed");
  context_.matters(Fault::kCrash, context_.in_pause());
  for (int unit = 0; shim_->serving() && unit < groups_.units(); ++unit) {
    if (!shim_->attempting(unit) || !shim_->on_the_way_back(unit)) continue;
    context_.note(Fault::kKilledGoingBack);
    context_.matters(Fault::kKilledGoingBack, context_.in_pause());
  }
  shim_->kill();
  dead_.push_back(std::move(shim_));
  if (context_.strikes(Fault::kLeftByHand, 0.3)) soon(10'000, &World::leave_by_hand);
  context_.after(
      context_.chance(0.5) ? context_.between(500, 20'000) : context_.between(20'000, 150'000),
      [this] { start_shim(); });
}

void World::fail_over(bool new_side) {
  if (groups_.away(false) || groups_.away(true)) return;
  context_.matters(new_side ? Fault::kFailoverNew : Fault::kFailoverOld, context_.in_pause());
  context_.say(new_side ? "new" : "old", " group fails over");
  groups_.fail_over(new_side);
  for (Proxy& p : proxies_) (new_side ? p.new_line : p.old_line)->cut(true);
  if (shim_) {
    for (int w = 0; w < kWorkers; ++w) shim_->cut(w, new_side, true);
  }
  context_.after(context_.between(1'000, 100'000), [this, new_side] {
    if (!shim_) return;
    shim_->interrupt("a group's master has changed");
    shim_->stop_writes(new_side, Shim::Reason::kIdentity, true);
  });
  context_.after(context_.between(100'000, 300'000), [this, new_side] {
    groups_.taken_on(new_side);
    if (!shim_) return;
    shim_->stop_writes(new_side, Shim::Reason::kIdentity, false);
    shim_->reload();
  });
}

void World::fault() {
  context_.after(context_.between(2'000, 18'000), [this] { fault(); });
  if (!busy_) return;
  const double p = fault_rate_;
  if (context_.strikes(Fault::kBroken, p * 3)) {
    const bool new_side = context_.chance(0.2);
    const size_t which = static_cast<size_t>(context_.random.below(proxies_.size()));
    if (shim_ && context_.chance(0.7)) {
      shim_->cut(static_cast<int>(which) % kWorkers, new_side, false);
    } else {
      (new_side ? proxies_[which].new_line : proxies_[which].old_line)->cut(false);
    }
  }
  if (shim_ && context_.strikes(Fault::kCrash, p)) {
    if (!older_ && context_.chance(0.5)) older_ = folder_;
    kill_shim();
  }
  if (context_.strikes(Fault::kFailoverOld, p / 3)) fail_over(false);
  if (context_.strikes(Fault::kFailoverNew, p / 3)) fail_over(true);
  if (context_.strikes(Fault::kLeftByHand, p / 2)) leave_by_hand();
  if (shim_ && context_.strikes(Fault::kCutoverTwice, p)) cutover_twice();
  if (shim_ && context_.strikes(Fault::kReload, p / 3)) reload();
  if (context_.strikes(Fault::kClockJump, p)) context_.jump_wall(context_.between(-5'000, 5'000));
  if (context_.strikes(Fault::kByHand, p)) by_hand();
}

// What the monitor and the migrator do each so often: a new side that lost its master follows
// again, a shim in DOUBT is started anew by the operator.
void World::watch() {
  context_.after(50'000, [this] { watch(); });
  if (!shim_ || !shim_->serving()) return;
  for (int unit = 0; unit < groups_.units(); ++unit) {
    const SlotPhase phase = shim_->phase(unit);
    if (phase == SlotPhase::kDoubt) {
      if (doubt_since_ == 0) doubt_since_ = context_.now();
      if (context_.now() - doubt_since_ > 150'000) {
        doubt_since_ = 0;
        // Another start does not help: the operator knows who owns it, and has the other side
        // copied.
        const bool old_owns = !groups_.owner_is_new[static_cast<size_t>(unit)];
        if (++doubts_ > 3 && kind_ == Kind::kNode && old_owns) groups_.copy_by_hand(unit);
        kill_shim();
        return;
      }
    }
    int& looks = owing_looks_[static_cast<size_t>(unit)];
    if (shim_->idle(unit)) looks = 0;
    if (phase != SlotPhase::kOld || shim_->attempting(unit)) continue;
    if (groups_.away(true) || groups_.away(false)) continue;
    if (groups_.new_side(unit).healed || !groups_.trusted(unit)) {
      groups_.copy_anew(unit);
    } else if (shim_->idle(unit) && !groups_.attached(unit)) {
      groups_.follow(unit);
    } else if (kind_ == Kind::kNode && !groups_.attached(unit) && ++looks > 4) {
      groups_.copy_by_hand(unit);  // as SHIM STATUS says
    }
  }
}

void World::run() {
  older_ = folder_;
  start_shim();
  for (Client& client : clients_) issue(client);
  context_.after(context_.between(10'000, 60'000), [this] { migrate(); });
  context_.after(5'000, [this] { fault(); });
  operate();
  watch();
  context_.run_until(context_.now() + 600'000 + context_.between(0, 600'000));
  busy_ = false;
  context_.calm();
  context_.say("the faults stop");
  settle();
  read_all();
  ended_ = true;
  context_.run_until(context_.now() + 500'000);
  for (const Client& client : clients_) {
    if (client.under_way > 0) throw Violation(cat("client ", client.number, " waits for ever"));
  }
  for (int key = 0; key < kKeys; ++key) {
    const auto broken = is_list(key) ? lists_[static_cast<size_t>(slot_of_key(key))].broken()
                                     : registers_[static_cast<size_t>(key)].broken();
    if (broken) throw Violation(cat(is_list(key) ? "list " : "key ", key, ": ", *broken));
  }
}

void World::settle() {
  think_us_ = 60'000;
  for (int second = 0; second < 30; ++second) {
    context_.run_until(context_.now() + 500'000);
    bool done = true;
    for (int slot = 0; slot < kSlots; ++slot) {
      const size_t unit = static_cast<size_t>(groups_.unit_of_slot(slot));
      const bool released = wishes_[unit].released;
      done = done && (final_[unit] || released) && mapped(slot, released ? To::kOld : To::kNew);
    }
    if (done) return;
  }
  std::string why;
  for (int unit = 0; unit < groups_.units(); ++unit) {
    why += cat(" unit ", unit, " ", shim_ ? phase_name(shim_->phase(unit)) : "no shim",
               groups_.following(unit) ? "" : " not following");
  }
  throw Violation(
      cat("not switched and handed back, nor given up, 15 s after the last fault:", why));
}

void World::read_all() {
  int left = 0;
  for (Proxy& p : proxies_) {
    for (int key = 0; p.registered && key < kKeys; ++key) {
      Request request;
      request.id = next_request_++;
      request.client = 9 + p.number;
      request.key = key;
      request.op = is_list(key) ? Op::kRange : Op::kGet;
      const uint64_t called = context_.stamp();
      ++left;
      forward(p, request, [this, request, called, &left](Outcome outcome, const Answer& answer) {
        if (outcome != Outcome::kOk) {
          throw Violation(cat("key ", request.key, " cannot be read at the end"));
        }
        answered(request, called, outcome, answer);
        --left;
      });
    }
  }
  context_.run_until(context_.now() + 100'000);
  if (left > 0) throw Violation("a read at the end was not answered");
}

}  // namespace sf::cutsim
