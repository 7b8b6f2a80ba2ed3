#include "storage_node/replica/replica_state.h"

namespace sf {

const char* link_name(Source::Link link) {
  switch (link) {
    case Source::Link::kUp:
      return "up";
    case Source::Link::kCopying:
      return "copying";
    default:
      return "down";
  }
}

std::shared_ptr<Source> ReplicaState::source_of(int slot) const {
  const SlotRecord& record = records[static_cast<size_t>(slot)];
  if (!full && !record.followed) return nullptr;
  auto it = sources.find(full ? full->master.text() : record.master.text());
  return it == sources.end() ? nullptr : it->second;
}

std::optional<Position> ReplicaState::applied(int slot) const {
  if (auto source = source_of(slot)) return source->positions.position(slot);
  return Position{histories.current(), engine.last_seq()};
}

bool ReplicaState::has_applied(int slot, const Position& want) const {
  auto source = source_of(slot);
  if (!source) {
    return histories.snapshot().chain.covers({histories.current(), engine.last_seq()}, want);
  }
  auto at = source->positions.position(slot);
  return at && source->chain.covers(*at, want);
}

void ReplicaState::positions_moved() {
  if (waits.empty()) return;
  waits.moved([this](int slot, const Position& want) { return has_applied(slot, want); });
}

}  // namespace sf
