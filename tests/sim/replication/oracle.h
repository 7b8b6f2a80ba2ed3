// Knows every state any node ever wrote: a tree of histories, and in each the traces of all slots
// after each batch. A position (history, seq) names a state exactly, so a claim to stand there is
// checked against it. Nothing is ever taken back: what a crash tore off stays known here under its
// old history.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replication/history.h"
#include "tests/sim/replication/data.h"

namespace sf::sim {

// A history by its number here; -1: none.
struct Pos {
  int history = -1;
  uint64_t seq = 0;
  bool operator==(const Pos&) const = default;
};

class Oracle {
 public:
  // A history begun by `owner` whose first state is `state` at seq `fork`.
  int begin(int owner, int parent, uint64_t fork, const Traces& state);
  // The owner wrote one batch more.
  void append(int history, const Traces& state);
  uint64_t end(int history) const;
  int owner(int history) const { return at(history).owner; }

  // Null: nobody ever was there.
  const Traces* state(const Pos& pos) const;

  const std::string& id(int history) const { return at(history).id; }
  History full(int history) const;
  static int number(const std::string& id);  // -1 for ""; Violation if it is none of ours
  Position named(const Pos& pos) const;
  static Pos numbered(const Position& position);
  HistoryChain chain(const std::vector<int>& histories) const;
  std::string text(const Pos& pos) const;  // "h3:42"

 private:
  struct Branch {
    int owner;
    int parent;
    uint64_t fork;
    std::string id;
    Traces first;
    std::vector<Traces> after;
  };
  const Branch& at(int history) const { return branches_.at(static_cast<size_t>(history)); }
  std::vector<Branch> branches_;
};

}  // namespace sf::sim
