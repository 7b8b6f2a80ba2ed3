// Fence keys and accounting for Pika (DESIGN 6.3), as pure logic.
//
// A Pika replica appends a binlog record to its own binlog, acknowledges it, and applies it later
// on one of sync_thread_num first-in first-out workers, chosen by std::hash(key) % sync_thread_num.
// So keys written to the old side after its last write, at least one a worker, are readable on the
// new side only after everything before them was applied. And a binlog moves by exactly the size of
// its records: an end that is where our own records alone lead to proves that nobody else wrote.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/pika/pika_status.h"

namespace sf {

// What a fence is made of. Every name is new for each attempt: the nonce is 128 random bits.
struct PikaFence {
  std::string value;              // of every key: the nonce
  std::vector<std::string> keys;  // {tag}__slotferry:<plan>:<nonce>:<n>, n = 0, 1, 2, ...

  bool empty() const { return keys.empty(); }
  std::vector<std::string> get_command() const;  // MGET of all of them
  std::vector<std::string> set_command(size_t i) const { return {"SET", keys[i], value}; }
};

// As many keys as it takes for each of `workers` to get 3, by std::hash of libstdc++, and for
// random choice, should another hash be used, to miss a worker with a chance below 1e-12.
PikaFence choose_fence(std::string_view tag, std::string_view plan, std::string_view nonce,
                       int workers);
// The keys again, from what was journalled: a name's parts and their number.
PikaFence same_fence(std::string_view tag, std::string_view plan, std::string_view nonce,
                     size_t count);
// Random keys needed: chance that one of `workers` gets none < 1e-12. 0 for no workers.
size_t keys_for_chance(int workers);

// A binlog's growth, record by record: files of 64 KiB blocks, 8 bytes before each fragment, blocks
// with fewer than 8 bytes left zero-filled, 34 bytes before the content of an item; a file larger
// than `file_size` is left at the next append.
class BinlogMeter {
 public:
  BinlogMeter(BinlogOffset at, uint64_t file_size) : at_(at), file_size_(file_size) {}

  // One command, as Pika logs it: a RESP array of bulks.
  void append(const std::vector<std::string>& argv);
  void append_content(size_t bytes);
  const BinlogOffset& at() const { return at_; }

 private:
  BinlogOffset at_;
  uint64_t file_size_;
};

// Where the end must be after nothing but SET of the fence's keys, in order, from `start` on.
BinlogOffset end_after(const PikaFence& fence, BinlogOffset start, uint64_t file_size);

}  // namespace sf
