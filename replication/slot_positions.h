// Where a replica stands with one master: one position of the joined stream, and one of its own for
// each slot that is ahead of it (a fresh copy) or has none yet (copy still to come). Model
// copyjoin.pml: with one position for everything, an older batch lands on a newer copy.
//
// The rule a batch is applied by: slot s takes batch n only if n > position(s). In sync is judged
// by the slot's own position alone.
//
// A value; no I/O; callers serialise.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/slots/slot_set.h"
#include "replication/history.h"

namespace sf {

// What a replica tells a master when it connects: slots at one position, or without one (copy).
struct SlotGroup {
  SlotSet slots;
  std::optional<Position> position;
};

class SlotPositions {
 public:
  const SlotSet& slots() const { return slots_; }
  bool follows(int slot) const { return slots_.contains(slot); }

  void follow(int slot, std::optional<Position> position);
  void drop(const SlotSet& slots);
  std::optional<Position> position(int slot) const;  // nullopt: not followed, or not copied yet
  SlotSet without_position() const;

  // All slots, grouped by equal position; those without one last.
  std::vector<SlotGroup> groups() const;

  // ---- during a session: every position is in the master's current history
  // The master takes `keep` on where they are and wants `copy` copied: their positions are
  // forgotten.
  void accept(const std::string& history, const SlotSet& keep, const SlotSet& copy);
  void set_copied(int slot, const Position& position);
  void need_copy(const SlotSet& slots);
  // Where the stream has to begin: the lowest position. nullopt: a slot has none, or there are no
  // slots.
  std::optional<uint64_t> lowest() const;
  // From now on batches up to `seq` are known to be applied to every slot that was not ahead.
  void begin_stream(uint64_t seq);
  bool wants(int slot, uint64_t seq) const;
  std::optional<uint64_t> own(
      int slot) const;  // of a slot that has a position apart from the stream's
  // The stream reached `to`; the slots whose own position it caught up with.
  SlotSet advance(uint64_t to);
  void relabel(const std::string& from, const std::string& to);
  uint64_t stream() const { return stream_; }
  bool streaming() const { return streaming_; }
  const std::string& history() const { return history_; }
  void end_session();  // each slot keeps its position

 private:
  SlotSet slots_;
  SlotSet placed_;               // have a position
  std::map<int, Position> own_;  // ahead of the stream; all placed slots while no stream runs
  std::string history_;          // of the stream
  uint64_t stream_ = 0;
  bool streaming_ = false;
};

}  // namespace sf
