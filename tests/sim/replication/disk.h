// What a model node keeps on disk: data, log and records, and the write-ahead log they went
// through. Batches are atomic; a killed process loses none, a power loss takes any number of the
// newest that were not synced.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tests/sim/replication/data.h"
#include "tests/sim/replication/oracle.h"

namespace sf::sim {

inline constexpr int kNodes = 5;

struct SlotState {  // as SlotRecord
  bool followed = false;
  bool placed = false;
  bool fenced = false;
  int master = -1;
  uint64_t fence_epoch = 0;
  std::optional<uint64_t> mark;
  uint64_t promote_epoch = 0;
  Pos promote_own;
};

struct FullState {  // as FullRecord
  int master = -1;
  bool mirror = true;
};

struct Image {
  Slots slots;
  uint64_t first = 1;          // seq of log[0]
  std::vector<uint32_t> log;   // numbers of entries
  std::vector<int> histories;  // oldest first
  std::array<SlotState, kSlots> record;
  std::array<uint64_t, kSlots> epoch{};
  std::array<std::optional<Pos>, kSlots> ahead;
  std::array<std::optional<Pos>, kNodes> stream;  // by master
  std::optional<FullState> full;
  uint64_t floor = 0;

  uint64_t last() const { return first + log.size() - 1; }
  int history() const { return histories.empty() ? -1 : histories.back(); }
};

class Disk {
 public:
  using Batch = std::function<void(Image&)>;
  const Image& image() const { return image_; }
  const Image& durable() const { return durable_; }
  size_t unsynced() const { return tail_.size(); }
  void write(Batch batch, bool synced);
  void sync();
  void lose(size_t batches);   // power loss: the newest ones are gone, the others are there
  void purge(uint64_t first);  // log files are removed for good

 private:
  Image image_;
  Image durable_;
  std::vector<Batch> tail_;
};

}  // namespace sf::sim
