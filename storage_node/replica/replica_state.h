// What verbs, links and reports share: the slots' records, the masters followed, who waits. One
// mutex.
//
// Lock order: mutex, then the engine's gate. Links apply batches under the mutex, so that a verb
// which holds it knows no batch of these slots is on its way, and after it has changed `sources`
// none comes (DESIGN 5.3: promote stops the apply). Ingesting a slot's files is the one long step;
// it runs outside, marked by Source::storing.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/ops/log.h"
#include "storage_node/engine/engine.h"
#include "storage_node/replica/history_log.h"
#include "storage_node/replica/slot_record.h"
#include "storage_node/replica/source.h"
#include "storage_node/replica/wait_table.h"

namespace sf {

// A fence that lifts itself; not durable.
struct Lease {
  std::string plan;
  uint64_t epoch = 0;
  int64_t until_us = 0;  // mono
  uint64_t seq = 0;      // slot_seq when it was taken
};

struct ReplicaState {
  ReplicaState(Engine& eng, const Clock& clk, Log lg, uint64_t seed)
      : engine(eng), clock(clk), log(std::move(lg)), histories(seed) {}

  Engine& engine;
  const Clock& clock;
  const Log log;
  HistoryLog histories;  // has its own lock

  mutable std::mutex mutex;
  std::array<SlotRecord, kSlotCount> records;
  std::array<std::map<std::string, uint64_t>, kSlotCount> epochs;
  std::map<int, Lease> leases;
  std::map<std::string, std::shared_ptr<Source>> sources;  // by host:port
  std::optional<FullRecord> full;
  uint64_t floor = 0;          // of the log here, for replicas of this node
  uint64_t start_seq = 0;      // last_seq when the node started
  SlotSet untouched_at_start;  // slots with a mark and no write of ours between it and the start
  SlotSet opening;             // own on record, but not on disk yet: no client writes
  SlotSet settling;            // fenced for good, but not on disk yet
  std::map<int, int64_t> expiry_held;  // promoted lately: until when own expiry waits (mono)
  WaitTable waits;
  // Called under the mutex when sources appeared, went or want a new session; must only post.
  std::function<void()> sources_changed = [] {};

  bool lease_alive(int slot) const {
    auto it = leases.find(slot);
    return it != leases.end() && clock.mono_us() < it->second.until_us;
  }
  void set_flags(Gate& gate, int slot);  // as the records, leases and masters say
  // The master's word, on a full replica: changes of shared records that were applied.
  Status take_shared(const std::vector<std::pair<std::string, std::optional<std::string>>>& changes,
                     SlotSet* slots);
  std::shared_ptr<Source> source_of(int slot) const;  // null: followed by nobody
  // Where the slot stands: the followed position, or this node's own. nullopt: not copied yet.
  std::optional<Position> applied(int slot) const;
  bool has_applied(int slot, const Position& want) const;
  void positions_moved();  // wakes who waits
};

}  // namespace sf
