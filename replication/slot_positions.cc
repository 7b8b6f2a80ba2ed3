#include "replication/slot_positions.h"

#include <algorithm>

#include "common/base/check.h"

namespace sf {

void SlotPositions::follow(int slot, std::optional<Position> position) {
  slots_.add(slot);
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

std::vector<SlotGroup> SlotPositions::groups() const {
  std::vector<SlotGroup> groups;
  std::map<std::string, size_t> by_position;
  placed_.for_each([&](int slot) {
    Position at = *position(slot);
    auto [it, fresh] = by_position.try_emplace(at.text(), groups.size());
    if (fresh) groups.push_back({{}, at});
    groups[it->second].slots.add(slot);
  });
  if (SlotSet missing = without_position(); !missing.empty()) groups.push_back({missing, {}});
  return groups;
}

void SlotPositions::accept(const std::string& history, const SlotSet& keep, const SlotSet& copy) {
  end_session();
  history_ = history;
  keep.for_each([&](int slot) {
    if (auto it = own_.find(slot); it != own_.end()) it->second.history = history;
  });
  need_copy(copy);
}

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
  if (slots_.empty() || placed_ != slots_) return std::nullopt;
  uint64_t low = UINT64_MAX;
  if (streaming_ && own_.size() < static_cast<size_t>(placed_.size())) low = stream_;
  for (const auto& [slot, position] : own_) low = std::min(low, position.seq);
  return low;
}

void SlotPositions::begin_stream(uint64_t seq) {
  SF_CHECK(lowest() && seq <= *lowest());
  end_session();
  streaming_ = true;
  stream_ = seq;
  std::erase_if(own_, [&](const auto& item) { return item.second.seq == seq; });
}

bool SlotPositions::wants(int slot, uint64_t seq) const {
  if (!placed_.contains(slot)) return false;
  auto it = own_.find(slot);
  return it == own_.end() ? seq > stream_ : seq > it->second.seq;
}

std::optional<uint64_t> SlotPositions::own(int slot) const {
  auto it = own_.find(slot);
  return it == own_.end() ? std::nullopt : std::optional(it->second.seq);
}

SlotSet SlotPositions::advance(uint64_t to) {
  SlotSet joined;
  stream_ = std::max(stream_, to);
  for (auto it = own_.begin(); it != own_.end();) {
    if (it->second.seq <= stream_) {
      joined.add(it->first);
      it = own_.erase(it);
    } else {
      ++it;
    }
  }
  return joined;
}

void SlotPositions::relabel(const std::string& from, const std::string& to) {
  if (history_ == from) history_ = to;
  for (auto& [slot, position] : own_) {
    if (position.history == from) position.history = to;
  }
}

void SlotPositions::end_session() {
  if (!streaming_) return;
  placed_.for_each([&](int slot) { own_.try_emplace(slot, Position{history_, stream_}); });
  streaming_ = false;
}

}  // namespace sf
