#include "tests/sim/replication/data.h"

#include <algorithm>
#include <cstring>

#include "common/base/coding.h"
#include "common/base/strings.h"
#include "tests/sim/replication/violation.h"

namespace sf::sim {
namespace {

constexpr uint32_t kKeySpace = 256;  // of a slot
constexpr uint8_t kTraceField = 255;

// "db|slot|key" as one number in key order; what is missing counts as zero.
uint32_t place(std::string_view key) {
  uint32_t n = 0;
  for (size_t i = 0; i < 4; ++i) {
    n = n << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0U);
  }
  return n;
}

uint64_t number(std::string_view value) {
  if (value.size() != 8) throw Violation("a value of a wrong size");
  return big64(value.data());
}

void erase_part(SlotData& slot, uint32_t first, uint32_t end) {
  for (uint32_t k = first; k < std::min<uint32_t>(end, kKeys); ++k) slot.value[k] = 0;
  slot.trace = mix(slot.trace, mix(3, first << 16 | end));
}

}  // namespace

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9ULL;
  return x ^ (x >> 29);
}

Traces traces_of(const Slots& slots) {
  Traces out{};
  for (size_t s = 0; s < kSlots; ++s) out[s] = slots[s].trace;
  return out;
}

void Op::set_key(int slot, int key) {
  key_ = {0, 0, static_cast<char>(slot), static_cast<char>(key)};
  key_size_ = 4;
}

void Op::set_end(int slot, int key) {
  value_ = {0, 0, static_cast<char>(slot), static_cast<char>(key)};
  value_size_ = key == 0 ? 3 : 4;
}

Op Op::put(int slot, int key, uint64_t value) {
  Op op;
  op.kind_ = 1;
  op.set_key(slot, key);
  std::string bytes;
  put_big64(bytes, value);
  std::memcpy(op.value_.data(), bytes.data(), 8);
  op.value_size_ = 8;
  return op;
}

Op Op::erase(int slot, int key) {
  Op op;
  op.kind_ = 2;
  op.set_key(slot, key);
  return op;
}

Op Op::erase_range(int slot, int key, int end_slot, int end_key) {
  Op op;
  op.kind_ = 3;
  op.set_key(slot, key);
  if (key == 0) op.key_size_ = 3;
  op.set_end(end_slot, end_key);
  return op;
}

Op Op::flush_db() {
  Op op;
  op.kind_ = 3;
  op.key_size_ = 1;
  op.value_[0] = 1;
  op.value_size_ = 1;
  return op;
}

Op::Op(const wire::StreamOp& op) : kind_(op.kind) {
  if (op.family != 0 || op.key.size() > key_.size() || op.value.size() > value_.size()) {
    throw Violation("a change nobody made");
  }
  key_size_ = static_cast<uint8_t>(op.key.size());
  value_size_ = static_cast<uint8_t>(op.value.size());
  std::memcpy(key_.data(), op.key.data(), op.key.size());
  if (!op.value.empty()) std::memcpy(value_.data(), op.value.data(), op.value.size());
}

wire::StreamOp Op::view() const {
  return {kind_, 0, {key_.data(), key_size_}, {value_.data(), value_size_}};
}

SlotSet apply_op(Slots& slots, const wire::StreamOp& op) {
  SlotSet touched;
  uint32_t at = place(op.key);
  if (op.kind != 3) {
    uint32_t s = at / kKeySpace;
    uint32_t k = at % kKeySpace;
    if (s >= kSlots || k >= kKeys) throw Violation("a key nobody wrote");
    SlotData& slot = slots[s];
    slot.value[k] = op.kind == 1 ? number(op.value) : 0;
    slot.trace = mix(slot.trace, mix(op.kind << 8 | k, slot.value[k]));
    touched.add(static_cast<int>(s));
    return touched;
  }
  uint32_t end = place(op.value);
  for (uint32_t s = 0; s < kSlots; ++s) {
    uint32_t first = std::max(at, s * kKeySpace);
    uint32_t last = std::min(end, (s + 1) * kKeySpace);
    if (first >= last) continue;
    erase_part(slots[s], first - s * kKeySpace, last - s * kKeySpace);
    touched.add(static_cast<int>(s));
  }
  return touched;
}

std::vector<std::string> pack_slot(const SlotData& slot, size_t values) {
  std::vector<std::string> pieces(1);
  size_t in_piece = 0;
  auto add = [&](uint8_t field, uint64_t value) {
    if (in_piece == values) {
      pieces.emplace_back();
      in_piece = 0;
    }
    pieces.back().push_back(static_cast<char>(field));
    put_big64(pieces.back(), value);
    ++in_piece;
  };
  add(kTraceField, slot.trace);
  for (size_t k = 0; k < kKeys; ++k) {
    if (slot.value[k] != 0) add(static_cast<uint8_t>(k), slot.value[k]);
  }
  return pieces;
}

bool unpack_slot(std::string_view pieces, SlotData* slot) {
  *slot = {};
  bool traced = false;
  while (!pieces.empty()) {
    uint8_t field = 0;
    uint64_t value = 0;
    if (!take_byte(pieces, &field) || !take_big64(pieces, &value)) return false;
    if (field == kTraceField) {
      slot->trace = value;
      traced = true;
    } else if (field < kKeys) {
      slot->value[field] = value;
    } else {
      return false;
    }
  }
  return traced;
}

}  // namespace sf::sim
