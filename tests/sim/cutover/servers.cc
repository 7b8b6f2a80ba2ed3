#include "tests/sim/cutover/servers.h"

#include <algorithm>

namespace sf::cutsim {
namespace {

// How far a replica's workers fall behind: what they have not done then, they do at once.
constexpr int64_t kBehindUs = 2'000'000;

}  // namespace

using Fence = SlotReport::Fence;

void Values::apply(const Record& record, bool replica) {
  if (record.key < 0) return;
  std::vector<int64_t>& list = lists[static_cast<size_t>(slot_of_key(record.key))];
  if (record.op == Op::kSet) {
    registers[static_cast<size_t>(record.key)] =
        replica && record.odd ? -record.value : record.value;
  } else if (record.op == Op::kPush) {
    list.push_back(record.value);
  } else if (!list.empty()) {
    list.erase(list.begin());
  }
}

bool Values::run(const Request& request, Answer* answer) {
  std::vector<int64_t>& list = lists[static_cast<size_t>(slot_of_key(request.key))];
  switch (request.op) {
    case Op::kGet:
      answer->value = registers[static_cast<size_t>(request.key)];
      return false;
    case Op::kRange:
      answer->list = list;
      return false;
    case Op::kPop:
      answer->value = list.empty() ? 0 : list.front();
      if (list.empty()) return false;
      break;
    default:
      answer->value = request.value;
  }
  apply({request.key, request.op, request.value, request.odd});
  return true;
}

bool Values::same(const Values& other, int key) const {
  const size_t at = static_cast<size_t>(key);
  const size_t slot = static_cast<size_t>(slot_of_key(key));
  return is_list(key) ? lists[slot] == other.lists[slot] : registers[at] == other.registers[at];
}

void Values::copy(const Values& from, int key) {
  const size_t slot = static_cast<size_t>(slot_of_key(key));
  if (is_list(key)) lists[slot] = from.lists[slot];
  if (!is_list(key)) registers[static_cast<size_t>(key)] = from.registers[static_cast<size_t>(key)];
}

Groups::Groups(Context& context, Kind kind, int units)
    : context_(context),
      kind_(kind),
      old_(static_cast<size_t>(units)),
      new_(static_cast<size_t>(units)),
      slow_apply_(context.chance(0.4) ? 0.3 : 0.02) {
  for (auto& pulling : pulling_) pulling.resize(static_cast<size_t>(units));
  for (int u = 0; u < units; ++u) {
    old_side(u).history = ++histories_;
    new_side(u).history = ++histories_;
    follow(u);
    new_side(u).copied_from = new_side(u).copied_by = 1;
  }
}

int64_t Groups::lease_clock() const {
  return context_.now();
}

void Groups::lose_queue() {
  loses_queue_ = true;
  slow_apply_ = 0.3;
}

bool Groups::fenced(Copy& copy) {
  if (copy.fence != Fence::kLeased) return copy.fence != Fence::kNo;
  if (copy.lease_until <= lease_clock()) copy.fence = Fence::kNo;
  if ((copy.fence == Fence::kNo) != (copy.lease_ends <= context_.now())) {
    throw Violation("a lease did not last as long as was said");
  }
  return copy.fence != Fence::kNo;
}

bool Groups::run(bool on_new, const Request& request, Answer* answer) {
  if (request.writes()) return write(on_new, request, answer);
  const int unit = unit_of_key(request.key);
  Copy& copy = side(on_new, unit);
  if (copy.fence == Fence::kPermanent) return false;
  copy.values.run(request, answer);
  return true;
}

bool Groups::write(bool on_new, const Request& request, Answer* answer) {
  const int unit = unit_of_key(request.key);
  const int slot = slot_of_key(request.key);
  Copy& copy = side(on_new, unit);
  if (!copy.master || fenced(copy)) return false;
  if (request.client >= 0 && owner_is_new[static_cast<size_t>(slot)] != on_new) {
    throw Violation(cat("I1 slot ", slot, ": a client's write reached the ", on_new ? "new" : "old",
                        " side, which does not own it"));
  }
  if (!executed_.insert(request.id).second) {
    throw Violation(cat("I4 request ", request.id, " was sent twice"));
  }
  copy.written = true;
  if (!copy.values.run(request, answer)) return true;
  copy.log.push_back({request.key, request.op, request.value, request.odd});
  if (request.odd && !on_new) context_.note(Fault::kReplicatedWrongly);
  pull_later(unit, !on_new);
  return true;
}

void Groups::append(int unit, const Record& record) {
  old_side(unit).log.push_back(record);
  pull_later(unit);
}

bool Groups::attached(int unit, bool back) {
  const Copy& copy = taken(unit, back);
  return !copy.master && (copy.copying || copy.history == left(unit, back).history);
}

bool Groups::following(int unit, bool back) {
  const Copy& copy = taken(unit, back);
  return attached(unit, back) && !copy.copying && copy.link_up_at <= context_.now();
}

bool Groups::trusted(int unit) {
  const Copy& copy = new_side(unit);
  return kind_ == Kind::kNode || (copy.copied_from == run_[0] && copy.copied_by == run_[1]);
}

void Groups::follow(int unit, bool back) {
  Copy& copy = taken(unit, back);
  if (copy.written) {
    throw Violation(cat("unit ", unit, ": the ", back ? "old" : "new",
                        " side took clients' writes and was made to follow"));
  }
  // Pika takes its time to be a replica again.
  const bool was_left = copy.master && kind_ == Kind::kPika && copy.left_at > 0;
  if (was_left) copy.link_up_at = context_.now() + context_.between(30'000, 200'000);
  copy.master = copy.stands = false;
  copy.promoted = 0;
  copy.history = left(unit, back).history;
  pull_later(unit, !back);
}

void Groups::copy_anew(int unit) {
  Copy& copy = new_side(unit);
  if (copy.copying || copy.written) return;
  copy.copying = true;
  copy.master = false;
  const int64_t from = run_[0];
  const int64_t by = run_[1];
  context_.after(context_.between(50'000, 300'000), [this, unit, from, by] {
    Copy& to = new_side(unit);
    to.copying = false;
    if (from != run_[0] || by != run_[1] || to.master) return;  // somebody tries again
    to.history = old_side(unit).history;
    to.log = old_side(unit).log;
    to.values = old_side(unit).values;
    to.applied[0] = to.applied[1] = to.log.size();
    to.healed = false;
    to.copied_from = from;
    to.copied_by = by;
    context_.say("unit ", unit, " is copied anew");
  });
}

void Groups::leave_by_hand(int unit, bool back) {
  Copy& copy = taken(unit, back);
  if (copy.master || copy.copying) return;
  context_.note(Fault::kLeftByHand);
  context_.matters(Fault::kLeftByHand, context_.in_pause());
  context_.say("unit ", unit, " leaves replication by hand");
  leave(copy);
  copy.stands = true;
}

void Groups::copy_by_hand(int unit) {
  Copy& copy = new_side(unit);
  if (!copy.master) return;
  context_.say("unit ", unit, " is copied anew by hand");
  copy.log = old_side(unit).log;
  copy.values = old_side(unit).values;
  copy.written = false;
  copy.fence = Fence::kNo;
  follow(unit);
}

void Groups::leave(Copy& copy) {
  copy.master = true;
  copy.left_history = copy.history;
  copy.left_at = copy.mark = copy.log.size();
  copy.history = ++histories_;
}

std::set<int> Groups::different(int unit) {
  std::set<int> out;
  for (int key = 0; key < kKeys; ++key) {
    if (unit_of_key(key) == unit && !old_side(unit).values.same(new_side(unit).values, key)) {
      out.insert(key);
    }
  }
  return out;
}

Result<ReplPosition> Groups::heal(int unit, const std::set<int>& keys, int* found) {
  if (away(false) || away(true)) return Status::unavailable("a side is away");
  Copy& to = new_side(unit);
  if (!to.master) return Status::refused("the new side is a replica");
  for (int key : keys) {
    if (old_side(unit).values.same(to.values, key)) continue;
    to.values.copy(old_side(unit).values, key);
    to.healed = true;
    ++*found;
  }
  return end_of(old_side(unit));
}

void Groups::pull_later(int unit, bool to_new) {
  int& pulling = pulling_[to_new][static_cast<size_t>(unit)];
  if (pulling) return;
  pulling = 1;
  context_.after(context_.between(300, 2'500), [this, unit, to_new] { pull(unit, to_new); });
}

void Groups::pull(int unit, bool to_new) {
  pulling_[to_new][static_cast<size_t>(unit)] = 0;
  Copy& from = side(!to_new, unit);
  Copy& to = side(to_new, unit);
  if (!following(unit, !to_new)) {
    if (attached(unit, !to_new)) pull_later(unit, to_new);
    return;
  }
  while (to.log.size() < from.log.size()) {
    const Record record = from.log[to.log.size()];
    to.log.push_back(record);
    if (kind_ == Kind::kNode) {
      to.values.apply(record);
    } else {
      apply_later(unit, worker_of(record));
    }
  }
}

// The worker goes on with its queue whatever the server's role has become.
void Groups::apply_later(int unit, int worker) {
  int64_t took = context_.between(50, 900);
  if (context_.strikes(Fault::kSlowApply, slow_apply_)) took = context_.between(20'000, 250'000);
  int64_t& busy = busy_until_[unit][worker];
  busy = std::min(std::max(busy, context_.now()) + took, context_.now() + kBehindUs);
  context_.after(busy - context_.now(), [this, unit, worker] {
    Copy& copy = new_side(unit);
    size_t& at = copy.applied[worker];
    const size_t end = copy.master ? copy.left_at : copy.log.size();  // what was received
    while (at < end && worker_of(copy.log[at]) != worker) ++at;
    if (at >= end) return;
    copy.values.apply(copy.log[at++], true);
  });
}

bool Groups::applied(int unit, uint64_t end, bool back) {
  Copy& copy = taken(unit, back);
  if (!following(unit, back) || copy.log.size() < end) return false;
  if (kind_ == Kind::kNode) return true;
  for (int worker = 0; worker < 2; ++worker) {  // as its fence key tells
    for (size_t i = copy.applied[worker]; i < end; ++i) {
      if (copy.log[i].key == -1 - worker) return false;
    }
  }
  return true;
}

// Not only what the fence keys tell.
bool Groups::all_applied(const Copy& copy, uint64_t end) const {
  if (copy.log.size() < end) return false;
  for (int worker = 0; worker < 2; ++worker) {
    for (size_t i = copy.applied[worker]; i < end; ++i) {
      if (worker_of(copy.log[i]) == worker) return false;
    }
  }
  return true;
}

bool Groups::too_low(Copy& copy, uint64_t epoch) {
  if (kind_ != Kind::kNode) return false;
  if (epoch < copy.epoch) return true;
  copy.epoch = epoch;
  return false;
}

Status Groups::announce(int unit, uint64_t epoch) {
  if (too_low(old_side(unit), epoch) || too_low(new_side(unit), epoch)) {
    return Status::refused("a higher epoch is known");
  }
  return Status::ok();
}

Result<ReplPosition> Groups::fence(int unit, uint64_t epoch, int64_t lease_us, bool back) {
  Copy& copy = left(unit, back);
  if (away(back)) return Status::unavailable("the side that is left is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (kind_ == Kind::kNode) {
    if (!copy.master) return Status::refused("it follows");
    if (copy.fence == Fence::kPermanent) return Status::refused("it is fenced for good");
    copy.fence = Fence::kLeased;
    copy.lease_until = lease_clock() + lease_us;
    copy.lease_ends = context_.now() + lease_us;
  }
  return end_of(copy);
}

Result<ReplPosition> Groups::fence_permanent(int unit, uint64_t epoch, bool back) {
  Copy& copy = left(unit, back);
  if (away(back)) return Status::unavailable("the side that is left is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (kind_ == Kind::kNode) {
    if (!fenced(copy)) return Status::refused("the lease has run out");
    copy.fence = Fence::kPermanent;
    copy.stands = copy.stands && copy.mark == copy.log.size();
    copy.mark = copy.log.size();
  }
  return end_of(copy);
}

Result<ReplPosition> Groups::promote(int unit, uint64_t epoch, const ReplPosition& end, bool back) {
  Copy& copy = taken(unit, back);
  if (away(!back)) return Status::unavailable("the side that takes over is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (!attached(unit, back) || copy.copying) return Status::refused("it does not follow");
  if (kind_ == Kind::kNode && !(end_of(copy) == end)) {
    return Status::refused("it is not at the position named");
  }
  // A late one of an attempt that was taken back meanwhile hurts nobody: nothing is sent there, and
  // it is owed that the side follows again.
  const bool over = left(unit, back).epoch > epoch;
  if (kind_ == Kind::kNode && left(unit, back).fence != Fence::kPermanent && !over) {
    throw Violation(cat("I1 unit ", unit, ": two sides take writes"));
  }
  if (kind_ == Kind::kPika && !all_applied(copy, end.seq)) {
    throw Violation(cat("I2 unit ", unit, ": promoted before ", end.text(), " was applied"));
  }
  leave(copy);
  copy.stands = false;
  copy.promoted = epoch;
  copy.written = false;
  return end_of(copy);
}

// Where it was left before, it is closed until it is the owner by the record.
Status Groups::open(int unit, uint64_t epoch, bool back) {
  Copy& copy = taken(unit, back);
  if (away(!back)) return Status::unavailable("the side that took over is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  copy.fence = Fence::kNo;
  return Status::ok();
}

Status Groups::follow_again(int unit, uint64_t epoch, bool known, bool back) {
  Copy& copy = taken(unit, back);
  if (away(!back)) return Status::unavailable("the side that took over is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (!copy.master) return Status::ok();
  if (copy.healed) return Status::refused("it was written to and must be copied anew");
  if (kind_ == Kind::kNode && copy.written) return Status::refused("it took writes of its own");
  if (kind_ == Kind::kNode && !known && left(unit, back).fence != Fence::kPermanent) {
    return Status::refused("where to follow from is unknown");
  }
  follow(unit, back);
  return Status::ok();
}

Status Groups::unfence(int unit, uint64_t epoch, bool back) {
  Copy& copy = left(unit, back);
  if (away(back)) return Status::unavailable("the side that is left is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  copy.fence = Fence::kNo;
  return Status::ok();
}

// A node takes the position for granted, unless it left by hand: then it knows where it stands.
Status Groups::link_reverse(int unit, uint64_t epoch, const ReplPosition& from, bool back) {
  Copy& copy = left(unit, back);
  if (away(back)) return Status::unavailable("the side that was left is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (!copy.master) return Status::ok();
  if (copy.log.size() != copy.mark) return Status::refused("it took writes");
  if (!copy.stands && copy.log.size() != from.seq) {
    throw Violation(cat("unit ", unit, ": the ", back ? "new" : "old", " side at ",
                        end_of(copy).text(), " was made to follow from ", from.text()));
  }
  copy.written = false;
  follow(unit, !back);
  return Status::ok();
}

SlotReport Groups::report(bool on_new, int unit) {
  Copy& copy = side(on_new, unit);
  fenced(copy);
  SlotReport out;
  out.master = copy.master;
  out.at = end_of(copy);
  out.link = copy.master ? SlotReport::Link::kNone : SlotReport::Link::kUp;
  out.fence = copy.fence;
  if (kind_ == Kind::kNode) out.promoted = copy.master ? copy.promoted : 0;
  return out;
}

// What it had received and not applied is applied, or lost for ever.
void Groups::end_queue(Copy& copy) {
  for (size_t i = 0; i < copy.left_at; ++i) {
    if (i < copy.applied[worker_of(copy.log[i])]) continue;
    if (!loses_queue_) copy.values.apply(copy.log[i], true);
    if (loses_queue_) context_.matters(Fault::kQueueLost);
  }
  copy.applied[0] = copy.applied[1] = copy.log.size();
}

void Groups::fail_over(bool on_new) {
  ++run_[on_new];
  away_[on_new] = true;
  for (Copy& copy : on_new ? new_ : old_) {
    if (!copy.master) copy.left_at = copy.log.size();
    if (!copy.master) copy.mark = kNoMark;  // the successor knows no position of what was followed
    copy.history = ++histories_;
    copy.master = true;
    copy.copying = false;
    if (copy.fence == Fence::kLeased) copy.fence = Fence::kNo;
    if (on_new && kind_ == Kind::kPika) end_queue(copy);
  }
}

}  // namespace sf::cutsim
