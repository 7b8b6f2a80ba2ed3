#include "storage_node/replica/replica_state.h"

#include <algorithm>

namespace sf {
namespace {

// Only the engine's expiry looks at it: a slot just promoted may be taken back and must not have
// changed.
constexpr uint8_t kSlotExpiryHeld = 8;

}  // namespace

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

void ReplicaState::set_flags(Gate& gate, int slot) {
  const SlotRecord& record = records[static_cast<size_t>(slot)];
  uint8_t flags = 0;
  int64_t until = 0;
  std::string write_text;
  std::string read_text;
  if (full || record.followed || opening.contains(slot)) flags |= kSlotFollowed;
  if (record.fenced) {
    flags |= kSlotFenced | kSlotReadsRefused;
    write_text = cat("TRYAGAIN slot ", slot, " is fenced by plan ", record.fence_plan,
                     "; it now lives on ", record.new_owner);
    read_text = cat("MOVEDSLOT slot ", slot, " now lives on ", record.new_owner, " (plan ",
                    record.fence_plan, ")");
  } else if (lease_alive(slot)) {
    flags |= kSlotFenced;
    until = leases[slot].until_us;
    write_text = cat("TRYAGAIN slot ", slot, " is fenced by plan ", leases[slot].plan);
  }
  if (expiry_held.contains(slot)) flags |= kSlotExpiryHeld;
  gate.set_refusal(slot, write_text, read_text);
  gate.set_fence_until(slot, until);
  gate.set_flags(slot, flags);
}

Status ReplicaState::take_shared(const SysRecords& changes, SlotSet* slots) {
  for (const auto& [name, value] : changes) {
    bool epoch = name.starts_with(kSharedEpochs);
    if (!epoch && !name.starts_with(kSharedSlots)) continue;  // of a newer master
    const int slot = slot_of_name(name, epoch ? kSharedEpochs : kSharedSlots);
    slots->add(slot);
    if (!epoch) {
      auto record = value ? decode_slot_record(*value) : SlotRecord();
      if (!record) return record.status();
      records[static_cast<size_t>(slot)] = std::move(*record);
      continue;
    }
    auto seen = decode_epochs(value.value_or(""));
    if (!seen) continue;
    for (const auto& [plan, number] : *seen) {
      uint64_t& known = epochs[static_cast<size_t>(slot)][plan];
      known = std::max(known, number);  // this node may have been told more itself
    }
  }
  return Status::ok();
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
