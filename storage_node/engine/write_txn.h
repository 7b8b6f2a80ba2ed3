// What one command wants to change. Filled by types/, committed by Engine::commit, which is the one
// way to change data. A value: no I/O, one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/slots/slot_set.h"
#include "storage_node/engine/key_format.h"

namespace sf {

// One change. Keys of kMeta, kData and kScore only (the prefix says db and slot); ranges stay
// within one slot of one db.
struct WriteOp {
  enum class Kind : uint8_t { kPut = 1, kDelete = 2, kDeleteRange = 3 };
  Kind kind;
  Cf cf;
  std::string key;    // kDeleteRange: first key
  std::string value;  // kPut: value; kDeleteRange: end key, exclusive
};

class WriteTxn {
 public:
  void put(Cf cf, std::string key, std::string value);
  void erase(Cf cf, std::string key);
  void erase_range(Cf cf, std::string begin, std::string end);  // both of one slot and db

  // Keeps DBSIZE and SLOTSINFO exact: the command made (+1) or removed (-1) a user key. Calls add
  // up.
  void count_keys(int db, int slot, int64_t delta);
  // FLUSHDB, SLOTSDEL: the slot of that db is empty afterwards.
  void count_slot_cleared(int db, int slot);

  bool empty() const { return ops_.empty(); }
  const std::vector<WriteOp>& ops() const { return ops_; }
  const SlotSet& slots() const { return slots_; }  // slots touched
  int only_slot() const {
    return one_slot_ ? last_slot_ : -1;
  }  // the slot if exactly one was touched
  void clear();

  struct KeyCount {
    int db;
    int slot;
    int64_t delta;
    bool cleared;
  };
  const std::vector<KeyCount>& key_counts() const { return key_counts_; }
  std::vector<WriteOp> take_ops() {
    return std::move(ops_);
  }  // leaves the txn fit for clear() only

 private:
  void touch(std::string_view key);
  std::vector<WriteOp> ops_;
  std::vector<KeyCount> key_counts_;
  SlotSet slots_;
  int last_slot_ = -1;
  bool one_slot_ = false;
};

}  // namespace sf
