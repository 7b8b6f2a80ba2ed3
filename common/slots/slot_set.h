// A set of slots 0..1023 and its text form "5,801-1023" (ranges ascending, ends inclusive).
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/slots/slot_hash.h"

namespace sf {

class SlotSet {
 public:
  SlotSet() = default;
  static SlotSet all();
  static SlotSet of(int slot);              // 0 <= slot < 1024
  static SlotSet range(int first, int last);  // 0 <= first <= last < 1024

  // "7", "901-1023", "1,5-9", "all". Refuses, with a sentence naming the part: an empty text,
  // anything outside 0-1023, a reversed range, a slot named twice, other characters.
  static Result<SlotSet> parse(std::string_view text);

  std::string text() const;  // "" for the empty set
  bool contains(int slot) const { return bits_.test(static_cast<size_t>(slot)); }
  bool contains(const SlotSet& other) const { return (other.bits_ & ~bits_).none(); }
  bool intersects(const SlotSet& other) const { return (other.bits_ & bits_).any(); }
  void add(int slot) { bits_.set(static_cast<size_t>(slot)); }
  void add(const SlotSet& other) { bits_ |= other.bits_; }
  void remove(int slot) { bits_.reset(static_cast<size_t>(slot)); }
  void remove(const SlotSet& other) { bits_ &= ~other.bits_; }
  int size() const { return static_cast<int>(bits_.count()); }
  bool empty() const { return bits_.none(); }
  int first() const;                    // -1 for the empty set
  std::vector<int> to_vector() const;   // ascending
  bool operator==(const SlotSet&) const = default;

  // Calls fn(slot) for each slot, ascending.
  template <class Fn>
  void for_each(Fn&& fn) const {
    for (int slot = 0; slot < kSlotCount; ++slot) {
      if (contains(slot)) fn(slot);
    }
  }

 private:
  std::bitset<kSlotCount> bits_;
};

}  // namespace sf
