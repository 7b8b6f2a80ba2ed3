// The verbs of a model node, as storage_node/replica/slot_control.
#include <algorithm>

#include "tests/sim/replication/node.h"
#include "tests/sim/replication/violation.h"

namespace sf::sim {
namespace {

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

template <class Fn>
bool all_of(const SlotSet& slots, Fn&& fn) {
  for (int s = 0; s < kSlots; ++s) {
    if (slots.contains(s) && !fn(s)) return false;
  }
  return true;
}

template <class Fn>
void each(const SlotSet& slots, Fn&& fn) {
  for (int s = 0; s < kSlots; ++s) {
    if (slots.contains(s)) fn(s);
  }
}

}  // namespace

// ---- what is asked before

bool Node::leased(int slot) const {
  return context_.now < leases_[at(slot)].until;
}

bool Node::check_own(int slot, uint64_t epoch) const {
  if (image().full || image().record[at(slot)].followed) return false;
  return !leased(slot) || leases_[at(slot)].epoch == epoch;
}

bool Node::check_epoch(const SlotSet& slots, uint64_t epoch) const {
  return all_of(slots, [&](int s) { return image().epoch[at(s)] <= epoch; });
}

bool Node::untouched(int slot) const {
  const SlotState& record = image().record[at(slot)];
  uint64_t seq = slot_seq_[at(slot)];
  if (leased(slot) && seq <= leases_[at(slot)].seq) return true;
  if (!record.mark) return false;
  return seq <= *record.mark || (seq <= start_seq_ && untouched_at_start_.contains(slot));
}

bool Node::storing(int slot) const {
  auto source = source_of(slot);
  return source && source->storing.contains(slot);
}

std::shared_ptr<Source> Node::source_of(int slot) const {
  const SlotState& record = image().record[at(slot)];
  if (!image().full && !record.followed) return nullptr;
  auto it = sources_.find(image().full ? image().full->master : record.master);
  return it == sources_.end() ? nullptr : it->second;
}

std::optional<Pos> Node::applied(int slot) const {
  if (auto source = source_of(slot)) {
    auto position = source->positions.position(slot);
    if (!position) return std::nullopt;
    return Oracle::numbered(*position);
  }
  return Pos{image().history(), image().last()};
}

bool Node::has_applied(int slot, const Pos& want) const {
  auto source = source_of(slot);
  if (!source) return false;
  auto have = source->positions.position(slot);
  return have && source->chain.covers(*have, context_.oracle.named(want));
}

std::shared_ptr<Source> Node::source_for(int master) {
  auto& source = sources_[master];
  if (!source) {
    source = std::make_shared<Source>();
    source->master = master;
  }
  return source;
}

void Node::leave(const SlotSet& slots, Image& image) const {
  for (const auto& [master, source] : sources_) {
    SlotSet left = source->positions.slots();
    each(slots, [&](int s) {
      if (!source->positions.follows(s)) return;
      image.ahead[at(s)].reset();
      left.remove(s);
    });
    if (left.empty()) image.stream[at(master)].reset();
  }
}

void Node::leave(const SlotSet& slots) {
  for (auto it = sources_.begin(); it != sources_.end();) {
    Source& source = *it->second;
    SlotSet mine;
    each(slots, [&](int s) {
      if (source.positions.follows(s)) mine.add(s);
    });
    source.positions.drop(mine);
    source.dropped.add(mine);
    source.gone = source.positions.slots().empty();
    it = source.gone ? sources_.erase(it) : std::next(it);
  }
  match_ = true;
}

// ---- slots

bool Node::slots_slave_of(int master, const SlotSet& slots) {
  if (image().full) return false;
  std::map<int, std::optional<Position>> fresh;
  bool fine = all_of(slots, [&](int s) {
    const SlotState& record = image().record[at(s)];
    if (record.followed && record.master == master) return true;
    if (storing(s)) return false;
    if (!record.followed) {
      fresh[s] = std::nullopt;
      return check_own(s, 0);
    }
    auto position = applied(s);
    fresh[s] = std::nullopt;
    if (position) fresh[s] = context_.oracle.named(*position);
    return true;
  });
  if (!fine) return false;
  if (fresh.empty()) return true;
  SlotSet set;
  for (const auto& [slot, position] : fresh) set.add(slot);
  Image left = image();
  leave(set, left);
  disk_.write(
      [fresh, master, ahead = left.ahead, stream = left.stream](Image& image) {
        image.ahead = ahead;
        image.stream = stream;
        for (const auto& [slot, position] : fresh) {
          SlotState record;
          record.followed = true;
          record.master = master;
          record.placed = position.has_value();
          image.record[at(slot)] = record;
          if (position) image.ahead[at(slot)] = Oracle::numbered(*position);
        }
      },
      true);
  each(set, [&](int s) { leases_[at(s)] = {}; });
  leave(set);
  auto source = source_for(master);
  for (auto& [slot, position] : fresh) source->positions.follow(slot, position);
  return true;
}

bool Node::slots_no_one(const SlotSet& slots) {
  if (image().full) return false;
  SlotSet mine;
  bool fine = all_of(slots, [&](int s) {
    if (!image().record[at(s)].followed) return true;
    mine.add(s);
    return !storing(s);
  });
  if (!fine) return false;
  if (mine.empty()) return true;
  Image left = image();
  leave(mine, left);
  begin_history(
      [mine, last = image().last(), ahead = left.ahead, stream = left.stream](Image& image) {
        image.ahead = ahead;
        image.stream = stream;
        each(mine, [&](int s) {
          SlotState& record = image.record[at(s)];
          if (record.placed) record.mark = last;
          record.followed = record.placed = false;
          record.master = -1;
        });
      });
  leave(mine);
  return true;
}

// ---- the whole node

bool Node::slave_of(int master) {
  if (image().full && image().full->master == master) return true;
  for (int s = 0; s < kSlots; ++s) {
    if (storing(s) || image().record[at(s)].followed) return false;
  }
  FullState full{master, !image().full || image().full->mirror};
  auto before = image().full ? source_of(0) : nullptr;
  disk_.write([full](Image& image) { image.full = full; }, true);
  leases_ = {};
  for (auto& [name, source] : sources_) source->gone = true;
  sources_.clear();
  auto source = source_for(master);
  source->full = true;
  source->mirror = full.mirror;
  Position own = context_.oracle.named(normalized_end());
  for (int s = 0; s < kSlots; ++s) {
    std::optional<Position> position = own;
    if (before) position = before->positions.position(s);
    source->positions.follow(s, std::move(position));
  }
  match_ = true;
  return true;
}

bool Node::slave_of_no_one(bool force) {
  if (!image().full) return true;
  for (int s = 0; s < kSlots; ++s) {
    if (storing(s)) return false;
  }
  auto source = source_of(0);
  if (source && !source->mirror && !force) return false;
  bool torn = false;
  for (const auto& ahead : image().ahead) torn = torn || (ahead && ahead->history < 0);
  if (torn && !force) return false;
  Image left = image();
  leave(SlotSet::all(), left);
  const bool apart = !image().full->mirror || image().last() < image().floor;
  begin_history(
      [ahead = left.ahead, stream = left.stream](Image& image) {
        image.ahead = ahead;
        image.stream = stream;
        image.full.reset();
      },
      apart);
  leave(SlotSet::all());
  return true;
}

// ---- fence, promote, follow

std::optional<Pos> Node::fence(const SlotSet& slots, uint64_t epoch, int64_t lease) {
  if (!check_epoch(slots, epoch)) return std::nullopt;
  bool fine =
      all_of(slots, [&](int s) { return check_own(s, epoch) && !image().record[at(s)].fenced; });
  if (!fine) return std::nullopt;
  disk_.write([slots, epoch](Image& i) { each(slots, [&](int s) { i.epoch[at(s)] = epoch; }); },
              true);
  Pos end{image().history(), 0};
  each(slots, [&](int s) {
    leases_[at(s)] = {epoch, context_.now + lease, slot_seq_[at(s)]};
    end.seq = std::max(end.seq, slot_seq_[at(s)]);
  });
  return end;
}

bool Node::fence_permanently(const SlotSet& slots, uint64_t epoch) {
  if (!check_epoch(slots, epoch)) return false;
  bool fine = all_of(slots, [&](int s) {
    const SlotState& record = image().record[at(s)];
    if (record.fenced && record.fence_epoch == epoch) return true;
    return leased(s) && leases_[at(s)].epoch == epoch;
  });
  if (!fine) return false;
  disk_.write(
      [slots, epoch, seqs = slot_seq_](Image& image) {
        each(slots, [&](int s) {
          SlotState& record = image.record[at(s)];
          record.fenced = true;
          record.fence_epoch = epoch;
          record.mark = seqs[at(s)];
        });
      },
      true);
  each(slots, [&](int s) { leases_[at(s)] = {}; });
  return true;
}

bool Node::unfence(const SlotSet& slots, uint64_t epoch) {
  if (!check_epoch(slots, epoch)) return false;
  if (!all_of(slots, [&](int s) { return !image().record[at(s)].fenced || !storing(s); })) {
    return false;
  }
  disk_.write(
      [slots, epoch](Image& image) {
        each(slots, [&](int s) {
          image.epoch[at(s)] = epoch;
          image.record[at(s)].fenced = false;
        });
      },
      true);
  each(slots, [&](int s) { leases_[at(s)] = {}; });
  return true;
}

std::optional<Pos> Node::promote(const SlotSet& slots, uint64_t epoch, const Pos& from) {
  if (!check_epoch(slots, epoch) || image().full) return std::nullopt;
  bool fine = all_of(slots, [&](int s) {
    return image().record[at(s)].followed && !storing(s) && has_applied(s, from);
  });
  if (!fine) return std::nullopt;
  Image left = image();
  leave(slots, left);
  begin_history([slots, epoch, last = image().last(), ahead = left.ahead,
                 stream = left.stream](Image& image) {
    image.ahead = ahead;
    image.stream = stream;
    each(slots, [&](int s) {
      SlotState record;
      record.mark = last;
      record.promote_epoch = epoch;
      image.record[at(s)] = record;
      image.epoch[at(s)] = epoch;
    });
  });
  leave(slots);
  return Pos{image().history(), image().last()};
}

bool Node::follow(const SlotSet& slots, uint64_t epoch, int master, const Pos& from) {
  if (!check_epoch(slots, epoch) || image().full) return false;
  SlotSet fresh;
  bool fine = all_of(slots, [&](int s) {
    const SlotState& record = image().record[at(s)];
    if (record.followed && record.master == master) return true;
    fresh.add(s);
    return check_own(s, epoch) && untouched(s);
  });
  if (!fine) return false;
  disk_.write(
      [slots, fresh, epoch, master, from](Image& image) {
        each(slots, [&](int s) { image.epoch[at(s)] = epoch; });
        each(fresh, [&](int s) {
          SlotState& record = image.record[at(s)];
          record.followed = record.placed = true;
          record.master = master;
          record.promote_epoch = 0;
          image.ahead[at(s)] = from;
        });
      },
      true);
  if (fresh.empty()) return true;
  each(fresh, [&](int s) { leases_[at(s)] = {}; });
  auto source = source_for(master);
  each(fresh, [&](int s) { source->positions.follow(s, context_.oracle.named(from)); });
  match_ = true;
  return true;
}

}  // namespace sf::sim
