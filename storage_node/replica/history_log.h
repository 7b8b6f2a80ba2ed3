// The histories of this node's log, durable. Loaded at start; extended at each start and promote.
// Thread-safe: read by master sessions while verbs extend it.
//
// Order that readers rely on: a new history is in memory before the first batch after its fork can
// be committed. So whoever reads batches first and histories second knows the history of each
// batch.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "replication/history.h"
#include "storage_node/engine/engine.h"
#include "storage_node/replica/slot_record.h"

namespace sf {

class HistoryLog {
 public:
  explicit HistoryLog(uint64_t seed) : random_(seed) {}

  Status load(Engine& engine);

  struct Snapshot {
    HistoryChain chain;
    uint64_t total = 0;       // histories ever added in this generation
    uint64_t generation = 0;  // changes when a full replica takes over its master's chain
  };
  Snapshot snapshot() const;
  std::string current() const;
  uint64_t generation() const;
  // Histories after the first `total` ones of that generation; *total moves on.
  std::vector<History> since(uint64_t generation, uint64_t* total) const;

  // A new random history that forks from the current one; its record goes to `records`. The caller
  // writes them, synced, inside the gate, and then calls add() still inside it.
  History make(uint64_t fork, SysRecords& records);
  void add(const History& history);
  // The same without a parent, in place of all that were: then replace().
  HistoryChain make_alone(uint64_t fork, SysRecords& records);
  // The record of a history that the master began; then add().
  void record(const History& history, SysRecords& records) const;
  // A full replica takes its master's chain: records first, then replace().
  void records_of(const HistoryChain& chain, SysRecords& records) const;
  void replace(HistoryChain chain);
  // The log goes on under numbers that are no longer its master's (a full replica copies anew): who
  // reads it must stop, or positions of a log that is nobody's get about.
  void end_generation();

 private:
  void record_next(const History& history, SysRecords& records) const;

  mutable std::mutex mutex_;
  HistoryChain chain_;
  uint64_t total_ = 0;  // also the number of the next record
  uint64_t generation_ = 1;
  Random random_;
};

}  // namespace sf
