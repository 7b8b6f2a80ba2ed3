#include "storage_node/engine/write_txn.h"

namespace sf {

void WriteTxn::touch(std::string_view key) {
  const int slot = slot_of_stored(key);
  if (slot == last_slot_) return;
  one_slot_ = last_slot_ < 0;
  last_slot_ = slot;
  slots_.add(slot);
}

void WriteTxn::put(Cf cf, std::string key, std::string value) {
  touch(key);
  ops_.push_back({WriteOp::Kind::kPut, cf, std::move(key), std::move(value)});
}

void WriteTxn::erase(Cf cf, std::string key) {
  touch(key);
  ops_.push_back({WriteOp::Kind::kDelete, cf, std::move(key), {}});
}

void WriteTxn::erase_range(Cf cf, std::string begin, std::string end) {
  touch(begin);
  ops_.push_back({WriteOp::Kind::kDeleteRange, cf, std::move(begin), std::move(end)});
}

void WriteTxn::count_keys(int db, int slot, int64_t delta) {
  if (delta == 0) return;
  for (KeyCount& count : key_counts_) {
    if (count.db == db && count.slot == slot) {
      count.delta += delta;
      return;
    }
  }
  key_counts_.push_back({db, slot, delta, false});
}

void WriteTxn::count_slot_cleared(int db, int slot) {
  for (KeyCount& count : key_counts_) {
    if (count.db == db && count.slot == slot) {
      count.delta = 0;
      count.cleared = true;
      return;
    }
  }
  key_counts_.push_back({db, slot, 0, true});
}

void WriteTxn::clear() {
  ops_.clear();
  key_counts_.clear();
  slots_ = SlotSet();
  last_slot_ = -1;
  one_slot_ = false;
}

}  // namespace sf
