#include "replication/slot_positions.h"

#include <algorithm>

#include "common/base/check.h"

namespace sf {

void SlotPositions::follow(int slot, std::optional<Position> position) {
  slots_.add(slot);
  unanswered_.add(slot);
  placed_.remove(slot);
  own_.erase(slot);
  if (position) {
    placed_.add(slot);
    own_[slot] = std::move(*position);
  }
}

void SlotPositions::drop(const SlotSet& slots) {
  slots_.remove(slots);
  placed_.remove(slots);
  unanswered_.remove(slots);
  slots.for_each([&](int slot) { own_.erase(slot); });
}

std::optional<Position> SlotPositions::position(int slot) const {
  if (!placed_.contains(slot)) return std::nullopt;
  auto it = own_.find(slot);
  if (it != own_.end()) return it->second;
  return Position{history_, stream_};
}

SlotSet SlotPositions::without_position() const {
  SlotSet missing = slots_;
  missing.remove(placed_);
  return missing;
}

std::vector<SlotGroup> SlotPositions::groups(const SlotSet& of) const {
  std::vector<SlotGroup> groups;
  std::map<std::string, size_t> by_position;
  SlotSet missing;
  of.for_each([&](int slot) {
    if (!slots_.contains(slot)) return;
    auto at = position(slot);
    if (!at) return missing.add(slot);
    auto [it, fresh] = by_position.try_emplace(at->text(), groups.size());
    if (fresh) groups.push_back({{}, std::move(at)});
    groups[it->second].slots.add(slot);
  });
  if (!missing.empty()) groups.push_back({missing, {}});
  return groups;
}

void SlotPositions::accept(const std::string& history, const SlotSet& keep, const SlotSet& copy) {
  end_session();
  history_ = history;
  take_on(keep, copy);
}

void SlotPositions::take_on(const SlotSet& keep, const SlotSet& copy) {
  keep.for_each([&](int slot) {
    if (auto it = own_.find(slot); it != own_.end()) it->second.history = history_;
  });
  unanswered_.remove(keep);
  unanswered_.remove(copy);
  need_copy(copy);
}

// The own entry stays even where it equals the stream's position: the shell has it on record, and
// advance() tells it when to forget it.
void SlotPositions::set_copied(int slot, const Position& position) {
  if (!slots_.contains(slot)) return;
  placed_.add(slot);
  own_[slot] = position;
}

void SlotPositions::need_copy(const SlotSet& slots) {
  placed_.remove(slots);
  slots.for_each([&](int slot) { own_.erase(slot); });
}

std::optional<uint64_t> SlotPositions::lowest() const {
  SlotSet counted = placed_;
  counted.remove(unanswered_);
  return lowest_of(counted);
}

std::optional<uint64_t> SlotPositions::lowest_known() const {
  return lowest_of(placed_);
}

std::optional<uint64_t> SlotPositions::lowest_of(const SlotSet& counted) const {
  if (counted.empty()) return std::nullopt;
  uint64_t low = UINT64_MAX;
  counted.for_each([&](int slot) {
    auto it = own_.find(slot);
    low = std::min(low, it == own_.end() ? stream_ : it->second.seq);
  });
  return low;
}

void SlotPositions::begin_stream(uint64_t seq) {
  SF_CHECK(!streaming_ && lowest() && seq <= *lowest());
  streaming_ = true;
  stream_ = cursor_ = seq;
  std::erase_if(own_, [&](const auto& item) {
    return item.second.seq == seq && !unanswered_.contains(item.first);
  });
}

bool SlotPositions::wants(int slot, uint64_t seq) const {
  if (!placed_.contains(slot) || unanswered_.contains(slot)) return false;
  auto it = own_.find(slot);
  return it == own_.end() ? seq > stream_ : seq > it->second.seq;
}

std::optional<uint64_t> SlotPositions::own(int slot) const {
  auto it = own_.find(slot);
  return it == own_.end() ? std::nullopt : std::optional(it->second.seq);
}

bool SlotPositions::rewind() {
  auto low = lowest();
  if (!streaming_ || !low || *low >= cursor_) return false;
  cursor_ = *low;
  return true;
}

SlotPositions::Moves SlotPositions::moves(uint64_t to) const {
  Moves out;
  uint64_t end = std::max(stream_, to);
  for (const auto& [slot, position] : own_) {
    if (unanswered_.contains(slot)) continue;
    if (std::max(position.seq, to) == end) {
      out.joined.add(slot);
    } else if (position.seq < to) {
      out.moved.add(slot);
    }
  }
  return out;
}

SlotSet SlotPositions::advance(uint64_t to) {
  Moves moves = this->moves(to);
  cursor_ = std::max(cursor_, to);
  stream_ = std::max(stream_, to);
  moves.joined.for_each([&](int slot) { own_.erase(slot); });
  moves.moved.for_each([&](int slot) { own_[slot] = {history_, to}; });
  return moves.joined;
}

void SlotPositions::relabel(const std::string& from, const std::string& to) {
  if (history_ == from) history_ = to;
  for (auto& [slot, position] : own_) {
    if (position.history == from && !unanswered_.contains(slot)) position.history = to;
  }
}

void SlotPositions::raise(uint64_t seq) {
  for (auto& [slot, position] : own_) position.seq = std::max(position.seq, seq);
}

void SlotPositions::end_session() {
  unanswered_ = slots_;
  if (!streaming_) return;
  placed_.for_each([&](int slot) { own_.try_emplace(slot, Position{history_, stream_}); });
  streaming_ = false;
}

}  // namespace sf
