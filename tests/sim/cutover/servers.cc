#include "tests/sim/cutover/servers.h"

#include <algorithm>

namespace sf::cutsim {

using Fence = SlotReport::Fence;

void Values::apply(const Record& record) {
  if (record.key < 0) return;
  std::vector<int64_t>& list = lists[static_cast<size_t>(slot_of_key(record.key))];
  if (record.op == Op::kSet) {
    registers[static_cast<size_t>(record.key)] = record.value;
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
  apply({request.key, request.op, request.value});
  return true;
}

bool Values::same(const Values& other, int key) const {
  const size_t at = static_cast<size_t>(key);
  const size_t slot = static_cast<size_t>(slot_of_key(key));
  return is_list(key) ? lists[slot] == other.lists[slot] : registers[at] == other.registers[at];
}

Groups::Groups(Context& context, Kind kind, int units)
    : context_(context),
      kind_(kind),
      old_(static_cast<size_t>(units)),
      new_(static_cast<size_t>(units)),
      slow_apply_(context.chance(0.2) ? 0.3 : 0.02),
      pulling_(static_cast<size_t>(units)) {
  for (int u = 0; u < units; ++u) {
    old_side(u).history = ++histories_;
    new_side(u).history = ++histories_;
    follow(u);
  }
}

bool Groups::fenced(Copy& copy) {
  if (copy.fence == Fence::kLeased && copy.lease_until <= context_.now()) copy.fence = Fence::kNo;
  return copy.fence != Fence::kNo;
}

bool Groups::run(bool on_new, const Request& request, Answer* answer) {
  if (request.writes()) return write(on_new, request, answer);
  const int unit = unit_of_key(request.key);
  Copy& copy = on_new ? new_side(unit) : old_side(unit);
  if (!on_new && copy.fence == Fence::kPermanent) return false;
  copy.values.run(request, answer);
  return true;
}

bool Groups::write(bool on_new, const Request& request, Answer* answer) {
  const int unit = unit_of_key(request.key);
  const int slot = slot_of_key(request.key);
  Copy& copy = on_new ? new_side(unit) : old_side(unit);
  if (!copy.master || fenced(copy)) return false;
  if (request.client >= 0 && owner_is_new[static_cast<size_t>(slot)] != on_new) {
    throw Violation(cat("I1 slot ", slot, ": a client's write reached the ", on_new ? "new" : "old",
                        " side, which does not own it"));
  }
  if (!executed_.insert(request.id).second) {
    throw Violation(cat("I4 request ", request.id, " was sent twice"));
  }
  if (on_new) copy.written = true;
  if (!copy.values.run(request, answer)) return true;
  copy.log.push_back({request.key, request.op, request.value});
  if (!on_new) pull_later(unit);
  return true;
}

void Groups::append(int unit, const Record& record) {
  old_side(unit).log.push_back(record);
  pull_later(unit);
}

bool Groups::following(int unit) {
  const Copy& copy = new_side(unit);
  return !copy.master && copy.history == old_side(unit).history;
}

void Groups::follow(int unit) {
  Copy& copy = new_side(unit);
  if (copy.written) {
    throw Violation(
        cat("unit ", unit, ": a new side that took clients' writes was made to follow"));
  }
  copy.master = false;
  copy.history = old_side(unit).history;
  pull_later(unit);
}

void Groups::pull_later(int unit) {
  if (pulling_[static_cast<size_t>(unit)]) return;
  pulling_[static_cast<size_t>(unit)] = 1;
  context_.after(context_.between(300, 2'500), [this, unit] { pull(unit); });
}

void Groups::pull(int unit) {
  pulling_[static_cast<size_t>(unit)] = 0;
  Copy& from = old_side(unit);
  Copy& to = new_side(unit);
  if (!following(unit)) return;
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
  busy = std::max(busy, context_.now()) + took;
  context_.after(busy - context_.now(), [this, unit, worker] {
    Copy& copy = new_side(unit);
    size_t& at = copy.applied[worker];
    const size_t end = copy.master ? copy.left_at : copy.log.size();  // what was received
    while (at < end && worker_of(copy.log[at]) != worker) ++at;
    if (at >= end) return;
    copy.values.apply(copy.log[at++]);
  });
}

bool Groups::applied(int unit, uint64_t end) {
  Copy& copy = new_side(unit);
  if (!following(unit) || copy.log.size() < end) return false;
  if (kind_ == Kind::kNode) return true;
  for (int worker = 0; worker < 2; ++worker) {  // as its fence key tells
    for (size_t i = copy.applied[worker]; i < end; ++i) {
      if (copy.log[i].key == -1 - worker) return false;
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

Result<ReplPosition> Groups::fence(int unit, uint64_t epoch, int64_t lease_us) {
  Copy& copy = old_side(unit);
  if (away(false)) return Status::unavailable("the old side is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (kind_ == Kind::kNode) {
    if (copy.fence != Fence::kPermanent) copy.fence = Fence::kLeased;
    copy.lease_until = context_.now() + lease_us;
    return end_of(copy);
  }
  return end_of(copy);
}

Result<ReplPosition> Groups::fence_permanent(int unit, uint64_t epoch) {
  Copy& copy = old_side(unit);
  if (away(false)) return Status::unavailable("the old side is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (kind_ == Kind::kNode) {
    if (!fenced(copy)) return Status::refused("the lease has run out");
    copy.fence = Fence::kPermanent;
  }
  return end_of(copy);
}

Result<ReplPosition> Groups::promote(int unit, uint64_t epoch, const ReplPosition& end) {
  Copy& copy = new_side(unit);
  if (away(true)) return Status::unavailable("the new side is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  if (copy.master) return Status::refused("it follows nobody");
  if (kind_ == Kind::kNode && !(end_of(copy) == end)) {
    return Status::refused("it is not at the position named");
  }
  // A late one of an attempt that was taken back meanwhile hurts nobody: nothing is sent there, and
  // it is owed that the new side follows again.
  const bool over = old_side(unit).epoch > epoch;
  if (kind_ == Kind::kNode && old_side(unit).fence != Fence::kPermanent && !over) {
    throw Violation(cat("I1 unit ", unit, ": two sides take writes"));
  }
  copy.master = true;
  copy.left_history = copy.history;
  copy.left_at = copy.log.size();
  copy.history = ++histories_;
  return end_of(copy);
}

Status Groups::follow_again(int unit, uint64_t epoch) {
  Copy& copy = new_side(unit);
  if (away(true)) return Status::unavailable("the new side is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  follow(unit);
  return Status::ok();
}

Status Groups::unfence(int unit, uint64_t epoch) {
  Copy& copy = old_side(unit);
  if (away(false)) return Status::unavailable("the old side is away");
  if (too_low(copy, epoch)) return Status::refused("a higher epoch is known");
  copy.fence = Fence::kNo;
  return Status::ok();
}

SlotReport Groups::report(bool on_new, int unit) {
  Copy& copy = on_new ? new_side(unit) : old_side(unit);
  fenced(copy);
  SlotReport out;
  out.master = copy.master;
  out.at = end_of(copy);
  out.link = copy.master ? SlotReport::Link::kNone : SlotReport::Link::kUp;
  out.fence = copy.fence;
  return out;
}

void Groups::fail_over(bool on_new) {
  ++run_[on_new];
  away_[on_new] = true;
  for (Copy& copy : on_new ? new_ : old_) {
    if (!copy.master) copy.left_at = copy.log.size();
    const size_t received = copy.left_at;
    copy.history = ++histories_;
    copy.master = true;
    if (copy.fence == Fence::kLeased) copy.fence = Fence::kNo;
    for (size_t i = 0; on_new && kind_ == Kind::kPika && i < received;
         ++i) {  // it had applied what it received
      if (i >= copy.applied[worker_of(copy.log[i])]) copy.values.apply(copy.log[i]);
    }
    if (on_new) copy.applied[0] = copy.applied[1] = copy.log.size();
  }
}

}  // namespace sf::cutsim
