// Where a replica stands with one master: one position of the joined stream, and one of its own for
// each slot that is ahead of it (a fresh copy), behind it (taken on while the stream ran), or has
// none yet (copy still to come). Model copyjoin.pml: with one position for everything, an older
// batch lands on a newer copy.
//
// The rule a batch is applied by: slot s takes batch n only if n > position(s). In sync is judged
// by the slot's own position alone. The next frame has to begin at cursor(), the lowest of all
// positions: a slot that is behind brings the frames back to where it stands, and the others skip
// what they have.
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

  // In a session the slot takes part from the master's answer on (take_on).
  void follow(int slot, std::optional<Position> position);
  void drop(const SlotSet& slots);
  std::optional<Position> position(int slot) const;  // nullopt: not followed, or not copied yet
  SlotSet without_position() const;

  // These slots, grouped by equal position; those without one last.
  std::vector<SlotGroup> groups(const SlotSet& of) const;
  std::vector<SlotGroup> groups() const { return groups(slots_); }

  // ---- during a session: every position of an answered slot is in the master's current history
  // The master takes `keep` on where they are and wants `copy` copied: their positions are
  // forgotten. accept() begins a session, take_on() is for slots added to it.
  void accept(const std::string& history, const SlotSet& keep, const SlotSet& copy);
  void take_on(const SlotSet& keep, const SlotSet& copy);
  const SlotSet& unanswered() const { return unanswered_; }  // take no batch yet
  void set_copied(int slot, const Position& position);
  void need_copy(const SlotSet& slots);
  // The lowest position of the answered slots that have one: where frames have to begin. nullopt:
  // none has.
  std::optional<uint64_t> lowest() const;
  // The lowest position of any slot that has one, session or not: for people to read.
  std::optional<uint64_t> lowest_known() const;
  // From now on batches up to `seq` are known to be applied to every slot that was not ahead.
  void begin_stream(uint64_t seq);
  bool wants(int slot, uint64_t seq) const;
  std::optional<uint64_t> own(
      int slot) const;  // of a slot that has a position apart from the stream's
  // The next frame begins here. rewind() puts it back to lowest(); true: it was further.
  uint64_t cursor() const { return cursor_; }
  bool rewind();
  // What advance(to) is going to do: slots that join the stream, and slots whose own position
  // becomes `to`.
  struct Moves {
    SlotSet joined;
    SlotSet moved;
  };
  Moves moves(uint64_t to) const;
  // Everything up to `to` is applied; the slots whose own position the stream caught up with.
  SlotSet advance(uint64_t to);
  void relabel(const std::string& from, const std::string& to);
  uint64_t stream() const { return stream_; }
  bool streaming() const { return streaming_; }
  const std::string& history() const { return history_; }
  void end_session();        // each slot keeps its position
  void raise(uint64_t seq);  // no session runs: everything up to `seq` is here after all

 private:
  SlotSet slots_;
  SlotSet placed_;               // have a position
  SlotSet unanswered_;           // followed; the master of this session has not said how
  std::map<int, Position> own_;  // apart from the stream; all placed slots while no stream runs
  std::string history_;          // of the stream
  uint64_t stream_ = 0;          // of the joined slots
  uint64_t cursor_ = 0;          // <= stream_ and <= each answered slot's own
  bool streaming_ = false;

  std::optional<uint64_t> lowest_of(const SlotSet& counted) const;
};

}  // namespace sf
