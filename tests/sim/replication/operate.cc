// What the operator of a world does: who follows whom, and slots moved while clients write.
#include <algorithm>

#include "tests/sim/replication/violation.h"
#include "tests/sim/replication/world.h"

namespace sf::sim {
namespace {

constexpr int64_t kLease = 400'000;

}  // namespace

bool World::would_loop(int id, int master, const SlotSet& slots) {
  for (int s = 0; s < kSlots; ++s) {
    if (!slots.contains(s)) continue;
    int at = master;
    for (int hops = 0; at >= 0; ++hops) {
      if (at == id || hops > kNodes) return true;
      const Image& image = node(at).image();
      const SlotState& record = image.record[static_cast<size_t>(s)];
      at = image.full ? image.full->master : record.followed ? record.master : -1;
    }
  }
  return false;
}

void World::operate() {
  switch (context_.random.below(10)) {
    case 0:
    case 1:
      return add_slots();
    case 2:
      return drop_slots();
    case 3:
      return fail_over();
    case 4:
      return repoint();
    default:
      if (!move_) begin_move();
  }
}

void World::add_slots() {
  Node& n = node(chance(0.7) ? 2 : any_node());
  int master = any_node();
  SlotSet slots = any_slots(0.2);
  if (!n.up() || master == n.id() || would_loop(n.id(), master, slots)) return;
  bool running = false;
  for (auto& link : n.links()) {
    running = running || (link->source->master == master && link->session && link->session->up());
  }
  if (move_ && (move_->from == n.id() || move_->to == n.id())) slots.remove(move_->slots);
  if (slots.empty() || !n.slots_slave_of(master, slots)) return;
  if (running) context_.note(Fault::kSlotsAdded);
  context_.say("node ", n.id(), " follows slots ", slots.text(), " of ", master);
}

void World::drop_slots() {
  Node& n = node(chance(0.7) ? 2 : any_node());
  SlotSet slots = any_slots(0.2);
  SlotSet followed;
  for (int s = 0; s < kSlots; ++s) {
    if (n.image().record[static_cast<size_t>(s)].followed) followed.add(s);
  }
  if (!n.up() || !slots.intersects(followed) || !n.slots_no_one(slots)) return;
  context_.note(Fault::kSlotsDropped);
  context_.say("node ", n.id(), " owns slots ", slots.text());
}

// A full replica takes over; the others and the old master follow it, or some of them do.
void World::fail_over() {
  std::vector<int> ready;
  for (auto& n : nodes_) {
    if (n->up() && n->image().full) ready.push_back(n->id());
  }
  if (ready.empty()) return;
  Node& next = node(ready[context_.random.below(ready.size())]);
  const int old = next.image().full->master;
  if (!next.slave_of_no_one(chance(0.2))) return;
  context_.note(Fault::kRoleChange);
  context_.say("node ", next.id(), " takes over from ", old);
  for (auto& n : nodes_) {
    if (!n->up() || n->id() == next.id() || !chance(0.7)) continue;
    SlotSet from_old;
    for (int s = 0; s < kSlots; ++s) {
      auto source = n->source_of(s);
      if (source && source->master == old) from_old.add(s);
    }
    if (would_loop(n->id(), next.id(), SlotSet::range(0, kSlots - 1))) continue;
    if (n->id() == old || (n->image().full && n->image().full->master == old)) {
      n->slave_of(next.id());
    } else if (!from_old.empty()) {
      n->slots_slave_of(next.id(), from_old);
    }
  }
}

void World::repoint() {
  Node& n = node(any_node());
  const int master = any_node();
  if (!n.up() || master == n.id()) return;
  if (would_loop(n.id(), master, SlotSet::range(0, kSlots - 1))) return;
  if (!n.image().full && !chance(0.3)) return;
  if (!n.slave_of(master)) return;
  context_.note(Fault::kRoleChange);
  context_.say("node ", n.id(), " follows ", master);
}

// ---- slots moved

void World::begin_move() {
  Move move;
  move.phase = Move::Phase::kFollowing;
  move.to = chance(0.6) ? 2 : any_node();
  Node& to = node(move.to);
  if (!to.up() || to.image().full) return;
  std::array<SlotSet, kNodes> of;
  for (int s = 0; s < kSlots; ++s) {
    const SlotState& record = to.image().record[static_cast<size_t>(s)];
    if (record.followed) of[static_cast<size_t>(record.master)].add(s);
  }
  std::vector<int> masters;
  for (int m = 0; m < kNodes; ++m) {
    if (!of[static_cast<size_t>(m)].empty()) masters.push_back(m);
  }
  if (masters.empty()) return;
  move.from = masters[context_.random.below(masters.size())];
  const SlotSet& all = of[static_cast<size_t>(move.from)];
  for (int s = 0; s < kSlots; ++s) {
    if (all.contains(s) && chance(0.6)) move.slots.add(s);
  }
  if (move.slots.empty()) return;
  move.epoch = next_epoch_++;
  move.deadline = context_.now + 1'500'000;
  move_ = move;
}

void World::go_on_moving() {
  Move& move = *move_;
  Node& from = node(move.from);
  const bool late = context_.now > move.deadline || chance(0.03);
  switch (move.phase) {
    case Move::Phase::kFollowing:
      move.phase = Move::Phase::kFence;
      break;
    case Move::Phase::kFence: {
      std::optional<Pos> end;
      if (from.up()) end = from.fence(move.slots, move.epoch, kLease);
      if (!end) {
        move_.reset();
        return;
      }
      move.end = *end;
      move.phase = Move::Phase::kWait;
      move.deadline = context_.now + kLease;
      break;
    }
    case Move::Phase::kWait:
      promote(move);
      if (!move.own && late) move.phase = Move::Phase::kTakeBack;
      break;
    case Move::Phase::kPermanent:
      if (!late && from.up() && from.fence_permanently(move.slots, move.epoch)) {
        check_moved(move);
        context_.note(Fault::kMoved);
        context_.say("slots ", move.slots.text(), " are moved from ", move.from, " to ", move.to);
        held_[static_cast<size_t>(move.to)] = {};
        move.phase = Move::Phase::kReverse;
      } else if (late) {
        move.phase = Move::Phase::kTakeBack;
      }
      break;
    case Move::Phase::kReverse:
      if (from.up() && !would_loop(move.from, move.to, move.slots) &&
          from.follow(move.slots, move.epoch, move.to, *move.own)) {
        context_.note(Fault::kReversed);
        move_.reset();
      } else if (late) {
        move_.reset();
      }
      break;
    case Move::Phase::kTakeBack:
      if (take_back(move)) move_.reset();
      break;
  }
}

void World::promote(Move& move) {
  Node& to = node(move.to);
  bool ready = to.up();
  for (int s = 0; s < kSlots && ready; ++s) {
    if (!move.slots.contains(s)) continue;
    auto source = to.source_of(s);  // another master of the same data may have gone on by itself
    ready = source && source->master == move.from && to.has_applied(s, move.end);
  }
  if (!ready) return;
  for (int s = 0; s < kSlots; ++s) {
    if (move.slots.contains(s)) move.applied[static_cast<size_t>(s)] = *to.applied(s);
  }
  move.own = to.promote(move.slots, move.epoch, move.end);
  if (!move.own) return;
  context_.say("slots ", move.slots.text(), " are promoted on ", move.to, " at ",
               context_.oracle.text(*move.own));
  held_[static_cast<size_t>(move.to)] = move.slots;
  move.phase = Move::Phase::kPermanent;
}

// What I2 is about: fenced for good, the old side's end is final, and the new side has all of it.
void World::check_moved(const Move& move) {
  for (int s = 0; s < kSlots; ++s) {
    const auto i = static_cast<size_t>(s);
    if (move.slots.contains(s) &&
        node(move.from).image().slots[i] != node(move.to).image().slots[i]) {
      throw Violation(cat("slot ", s, " was moved from ", move.from, " to ", move.to,
                          " without all up to ", context_.oracle.text(move.end)));
    }
  }
}

// Before the commit point: no client wrote on the new side, so it follows again.
bool World::take_back(Move& move) {
  Node& to = node(move.to);
  Node& from = node(move.from);
  if (move.own) {
    if (!to.up()) return false;
    if (!would_loop(move.to, move.from, move.slots)) {
      for (int s = 0; s < kSlots; ++s) {
        if (!move.slots.contains(s)) continue;
        to.follow(SlotSet::of(s), move.epoch, move.from, move.applied[static_cast<size_t>(s)]);
      }
    }
    held_[static_cast<size_t>(move.to)] = {};
  }
  if (from.up()) from.unfence(move.slots, move.epoch);
  context_.note(Fault::kTakenBack);
  context_.say("slots ", move.slots.text(), " are taken back");
  return true;
}

}  // namespace sf::sim
