// Histories: who wrote a log, and from where on (DESIGN 5.3; model history.pml shows what is lost
// without).
//
// A log is a line of batches numbered 1, 2, 3 ... . Each start of a master and each promote begins
// a new history: a random id, the id before it, and the fork: the last batch both have in common. A
// position (history, seq) names a state exactly: two nodes at one position hold the same data, even
// when a crash took a tail off somebody's log in between.
//
// Values; no I/O; one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace sf {

struct Position {
  std::string history;  // 40 hex digits, or empty: nothing yet
  uint64_t seq = 0;
  bool operator==(const Position&) const = default;
  std::string text() const;  // "1f0c...:42", "-:0"
};

struct History {
  std::string id;
  std::string parent;  // empty for the first
  uint64_t fork = 0;   // last seq shared with the parent
  bool operator==(const History&) const = default;
};

// The histories of one log, oldest first; each one's parent is the one before it.
class HistoryChain {
 public:
  // Histories older than this many are forgotten: positions in them are unknown, so they are
  // copied.
  static constexpr size_t kRemembered = 8192;

  bool empty() const { return entries_.empty(); }
  const std::string& current() const;  // "" when empty
  const std::vector<History>& entries() const { return entries_; }
  // Appends a history whose parent is current(). kInvalid otherwise, or if its id is known already.
  Status add(History history);

  // Is `position` a state this log went through on its way to `end`? The limit is the lowest fork
  // between that history and now: what was written after it belongs to somebody else's log.
  bool is_prefix(const Position& position, uint64_t end) const;
  // Does a state at `have` contain everything up to `want`? Both in this chain.
  bool covers(const Position& have, const Position& want) const;
  // The oldest name of the same state: nothing was written yet in a history whose fork is `seq`.
  Position normalize(Position position) const;

  // "id:parent:fork" joined by blanks; "-" for no parent.
  std::string encode() const;
  static Result<HistoryChain> decode(std::string_view text);

 private:
  int find(std::string_view id) const;  // -1: unknown
  std::vector<History> entries_;
};

std::string encode_history(const History& history);
Result<History> decode_history(std::string_view text);
bool is_history_id(std::string_view text);  // 40 lower-case hex digits

}  // namespace sf
