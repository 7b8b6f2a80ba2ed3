// Life of a model node: start and end, its log, its clients, and the check of what it claims.
#include "tests/sim/replication/node.h"

#include <algorithm>

#include "tests/sim/replication/violation.h"

namespace sf::sim {
namespace {

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

}  // namespace

// ---- the log

// A node writes in its own history, or takes over its master's numbers; only the first makes new
// truth.
void Node::append(bool reload, const SlotSet& slots, std::vector<Op> ops, const Disk::Batch& with,
                  std::optional<uint64_t> as_seq) {
  const uint64_t seq = as_seq.value_or(image().last() + 1);
  if (seq != image().last() + 1) {
    throw Violation(cat("node ", id_, " wrote batch ", seq, " after ", image().last()));
  }
  Entry entry{reload, slots, std::move(ops), context_.now / 1000};
  const auto number = static_cast<uint32_t>(context_.entries.size());
  context_.entries.push_back(std::move(entry));
  const Entry* stored = &context_.entries.back();
  disk_.write(
      [stored, number, with](Image& image) {
        for (const Op& op : stored->ops) apply_op(image.slots, op.view());
        image.log.push_back(number);
        if (with) with(image);
      },
      false);
  for (int s = 0; s < kSlots; ++s) {
    if (slots.contains(s)) slot_seq_[at(s)] = seq;
  }
  const int history = image().history();
  if (!as_seq && history >= 0 && context_.oracle.owner(history) == id_ &&
      context_.oracle.end(history) + 1 == seq) {
    context_.oracle.append(history, traces_of(image().slots));
  }
  publish();
}

void Node::publish() {
  for (auto& feed : feeds_) feed->woken = true;
}

void Node::purge(uint64_t first, bool forced) {
  first = std::min(first, image().last() + 1);
  for (auto& feed : feeds_) {
    if (feed->over || feed->claim == 0 || feed->claim >= first) continue;
    if (forced) feed->kept = false;
    if (forced && context_.random.chance(0.5)) feed->cut = true;
    if (!forced) first = feed->claim;
  }
  disk_.purge(first);
}

// ---- clients

bool Node::writable(int slot) const {
  const SlotState& record = image().record[at(slot)];
  return up_ && !image().full && !record.followed && !record.fenced && !leased(slot);
}

void Node::commit(std::vector<Op> ops) {
  Slots after = image().slots;
  SlotSet touched;
  for (const Op& op : ops) touched.add(apply_op(after, op.view()));
  append(false, touched, std::move(ops), nullptr, std::nullopt);
}

// ---- start and end

// A large slot is put in place in steps; the end may come in their middle.
void Node::tear_store(Link& link) {
  for (const Link::Store& store : link.stores) {
    if (store.run) continue;
    const int slot = store.action.done.slot;
    const bool mirror = link.source->full && link.source->mirror;
    if (!mirror) return;  // others have no position on disk while they are copied
    mark_torn(slot);
    disk_.write(
        [slot](Image& image) {
          image.slots[at(slot)] = {};
          image.slots[at(slot)].trace = 1;
        },
        true);
    context_.say("node ", id_, " was storing slot ", slot);
    return;
  }
}

void Node::mark_torn(int slot) {
  disk_.write([slot](Image& image) { image.ahead[at(slot)] = Pos{-1, 0}; }, true);
}

void Node::stop() {
  up_ = false;
  for (auto& link : links_) {
    if (context_.random.chance(0.5)) tear_store(*link);
  }
  for (auto& link : links_) end_stream(*link);
  for (auto& conn : context_.conns) {
    if (conn->master == id_ && !conn->dialing) conn->master_gone = true;
  }
  links_.clear();
  feeds_.clear();
  sources_.clear();
  leases_ = {};
  write_errors_ = 0;
  match_ = false;
}

void Node::start() {
  up_ = true;
  ++life_;
  ++generation_;
  start_seq_ = image().last();
  slot_seq_.fill(start_seq_);
  load_sources();
  find_untouched();
  disk_.write(
      [untouched = untouched_at_start_](Image& image) {
        for (int s = 0; s < kSlots; ++s) {
          if (!untouched.contains(s)) image.record[at(s)].mark.reset();
        }
      },
      false);
  if (!image().full) begin_history(nullptr);
  match_ = true;
}

void Node::begin_history(const Disk::Batch& with, bool apart) {
  const int history = context_.oracle.begin(id_, apart ? -1 : image().history(), image().last(),
                                            traces_of(image().slots));
  if (apart) ++generation_;
  context_.say("node ", id_, " begins h", history, " at ", image().last());
  disk_.write(
      [history, with, apart](Image& image) {
        if (apart) {
          image.histories.clear();
          image.floor = image.last();
        }
        image.histories.push_back(history);
        if (with) with(image);
      },
      true);
  publish();
}

Pos Node::normalized_end() const {
  HistoryChain chain = context_.oracle.chain(image().histories);
  return Oracle::numbered(chain.normalize({chain.current(), image().last()}));
}

void Node::load_sources() {
  if (image().full) {
    auto source = source_for(image().full->master);
    source->full = true;
    source->mirror = image().full->mirror;
    Pos own = normalized_end();
    for (int slot = 0; slot < kSlots; ++slot) {
      std::optional<Pos> position;
      if (source->mirror && own.history >= 0) position = own;
      if (image().ahead[at(slot)]) position = image().ahead[at(slot)];
      if (position && position->history < 0) position.reset();
      std::optional<Position> named;
      if (position) named = context_.oracle.named(*position);
      source->positions.follow(slot, named);
    }
    return;
  }
  for (int slot = 0; slot < kSlots; ++slot) {
    const SlotState& record = image().record[at(slot)];
    if (!record.followed) continue;
    std::optional<Pos> position;
    if (record.placed) {
      position = image().ahead[at(slot)];
      if (!position) position = image().stream[at(record.master)];
    }
    std::optional<Position> named;
    if (position) named = context_.oracle.named(*position);
    source_for(record.master)->positions.follow(slot, named);
  }
}

void Node::find_untouched() {
  untouched_at_start_ = {};
  uint64_t lowest = UINT64_MAX;
  for (int s = 0; s < kSlots; ++s) {
    const SlotState& record = image().record[at(s)];
    if (!record.mark) continue;
    untouched_at_start_.add(s);
    if (!record.fenced && !record.followed) lowest = std::min(lowest, *record.mark);
  }
  for (int s = 0; s < kSlots; ++s) {
    const SlotState& record = image().record[at(s)];
    if (!record.mark || record.fenced || record.followed) continue;
    if (lowest + 1 < image().first) untouched_at_start_.remove(s);  // the log is gone
    for (uint64_t seq = std::max(*record.mark + 1, image().first); seq <= start_seq_; ++seq) {
      const Entry& entry = context_.entries[image().log[seq - image().first]];
      if (entry.slots.contains(s)) untouched_at_start_.remove(s);
    }
  }
}

// ---- the truth

void Node::check() const {
  if (!up_) return;
  for (const auto& [master, source] : sources_) {
    for (int slot = 0; slot < kSlots; ++slot) {
      auto position = source->positions.position(slot);
      if (!position || source->storing.contains(slot)) continue;  // verbs leave it alone too
      Pos pos = Oracle::numbered(*position);
      const Traces* state = context_.oracle.state(pos);
      if (state == nullptr) {
        throw Violation(cat("node ", id_, " says slot ", slot, " is at ", context_.oracle.text(pos),
                            ", where nobody ever was"));
      }
      if ((*state)[at(slot)] != image().slots[at(slot)].trace) {
        throw Violation(cat("node ", id_, " says slot ", slot, " is at ", context_.oracle.text(pos),
                            " of node ", context_.oracle.owner(pos.history),
                            ", but its data is not that"));
      }
    }
  }
}

}  // namespace sf::sim
