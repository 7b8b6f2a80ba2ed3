// The standing data of the demonstration: keys of all five types, some with a TTL, whose content
// follows from their number alone, so that it can be written and later compared without keeping it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/resp/reply_parser.h"
#include "common/slots/slot_set.h"

namespace sf::check {

// A key name with this prefix whose hash tag lies in one of `slots` (tried numbers until one fits).
std::string key_in_slots(std::string_view prefix, uint64_t number,
                         const std::vector<std::string>& tags);
// One short tag per slot of `slots`: hashing it gives the slot.
std::vector<std::string> tags_of(const SlotSet& slots);

class Dataset {
 public:
  Dataset(const SlotSet& slots, uint64_t seed) : tags_(tags_of(slots)), seed_(seed) {}

  // RESP requests that make key `number`; append to `out`, returns how many replies they give.
  int make(uint64_t number, std::string& out) const;
  // Requests that read it back (value and PEXPIRETIME).
  int read(uint64_t number, std::string& out) const;
  // Whether the replies to read() are right; else a sentence.
  std::string compare(uint64_t number, const std::vector<Reply>& replies) const;
  std::string key(uint64_t number) const;

 private:
  enum class Type { kString, kHash, kList, kSet, kZset };
  Type type(uint64_t number) const { return static_cast<Type>(number % 5); }
  int elements(uint64_t number) const {
    return 2 + static_cast<int>((number * 2654435761U + seed_) % 7);
  }
  std::string element(uint64_t number, int i) const;
  int64_t expire_at_ms(uint64_t number) const;  // 0: none

  std::vector<std::string> tags_;
  uint64_t seed_;
};

}  // namespace sf::check
