// Numbers of user keys per db and slot, exact: DBSIZE, SLOTSINFO. Written inside the gate, read
// anywhere.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "storage_node/engine/write_txn.h"

namespace sf {

class KeyCounts {
 public:
  int64_t get(int db, int slot) const { return cell(db, slot).load(std::memory_order_relaxed); }
  int64_t of_db(int db) const {
    return totals_[static_cast<size_t>(db)].load(std::memory_order_relaxed);
  }
  void set(int db, int slot, int64_t count) { add(db, slot, count - get(db, slot)); }
  void add(int db, int slot, int64_t delta) {
    cell(db, slot).fetch_add(delta, std::memory_order_relaxed);
    totals_[static_cast<size_t>(db)].fetch_add(delta, std::memory_order_relaxed);
  }
  void add(const WriteTxn::KeyCount& count) {
    if (count.cleared) set(count.db, count.slot, 0);
    if (count.delta != 0) add(count.db, count.slot, count.delta);
  }

 private:
  std::atomic<int64_t>& cell(int db, int slot) {
    return cells_[static_cast<size_t>(db) * kSlotCount + static_cast<size_t>(slot)];
  }
  const std::atomic<int64_t>& cell(int db, int slot) const {
    return cells_[static_cast<size_t>(db) * kSlotCount + static_cast<size_t>(slot)];
  }

  std::array<std::atomic<int64_t>, static_cast<size_t>(kDbCount) * kSlotCount> cells_{};
  std::array<std::atomic<int64_t>, kDbCount> totals_{};
};

}  // namespace sf
