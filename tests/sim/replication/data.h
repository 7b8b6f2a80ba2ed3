// What the model nodes store: eight slots of six keys, and in each slot a trace: a running hash of
// every change the slot took, in order. Equal traces mean the same changes in the same order, so a
// batch skipped, doubled or applied late shows at once, even where the values happen to agree. A
// copy carries the trace with it.
//
// Keys and changes have the form replication/ knows: db | slot | key, put, delete, delete range.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/slots/slot_set.h"
#include "replication/wire.h"

namespace sf::sim {

inline constexpr int kSlots = 8;
inline constexpr int kKeys = 6;

struct SlotData {
  uint64_t trace = 0;
  std::array<uint64_t, kKeys> value{};  // 0: no such key
  bool operator==(const SlotData&) const = default;
};
using Slots = std::array<SlotData, kSlots>;
using Traces = std::array<uint64_t, kSlots>;

Traces traces_of(const Slots& slots);

// A change with its bytes inside, so that a log of them needs no memory of its own.
class Op {
 public:
  static Op put(int slot, int key, uint64_t value);
  static Op erase(int slot, int key);
  static Op erase_range(int slot, int key, int end_slot, int end_key);  // [begin, end)
  static Op flush_db();                                                 // db 0 as one range
  explicit Op(const wire::StreamOp& op);
  wire::StreamOp view() const;

 private:
  Op() = default;
  void set_key(int slot, int key);
  void set_end(int slot, int key);
  uint8_t kind_ = 0;
  uint8_t key_size_ = 0;
  uint8_t value_size_ = 0;
  std::array<char, 4> key_{};
  std::array<char, 8> value_{};
};

// Returns the slots touched. Throws Violation on anything that is no change of this model.
SlotSet apply_op(Slots& slots, const wire::StreamOp& op);

// One batch of a log.
struct Entry {
  bool reload = false;
  SlotSet slots;  // touched
  std::vector<Op> ops;
  int64_t time_ms = 0;
};

// A slot as the bytes of a copy, in pieces of at most `values` values.
std::vector<std::string> pack_slot(const SlotData& slot, size_t values);
bool unpack_slot(std::string_view pieces, SlotData* slot);

uint64_t mix(uint64_t a, uint64_t b);

}  // namespace sf::sim
