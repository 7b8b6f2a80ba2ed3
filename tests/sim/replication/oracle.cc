#include "tests/sim/replication/oracle.h"

#include <cstdio>

#include "common/base/strings.h"
#include "tests/sim/replication/violation.h"

namespace sf::sim {

int Oracle::begin(int owner, int parent, uint64_t fork, const Traces& state) {
  char id[41];
  uint64_t n = branches_.size();
  std::snprintf(id, sizeof id, "%016llx%024llx", static_cast<unsigned long long>(mix(n, 77)),
                static_cast<unsigned long long>(n));
  branches_.push_back({owner, parent, fork, id, state, {}});
  return static_cast<int>(n);
}

void Oracle::append(int history, const Traces& state) {
  branches_.at(static_cast<size_t>(history)).after.push_back(state);
}

uint64_t Oracle::end(int history) const {
  return at(history).fork + at(history).after.size();
}

const Traces* Oracle::state(const Pos& pos) const {
  int history = pos.history;
  while (history >= 0) {
    const Branch& branch = at(history);
    if (pos.seq == branch.fork) return &branch.first;
    if (pos.seq > branch.fork) {
      uint64_t i = pos.seq - branch.fork - 1;
      return i < branch.after.size() ? &branch.after[i] : nullptr;
    }
    history = branch.parent;
  }
  return nullptr;
}

History Oracle::full(int history) const {
  const Branch& branch = at(history);
  return {branch.id, branch.parent < 0 ? "" : id(branch.parent), branch.fork};
}

int Oracle::number(const std::string& id) {
  if (id.empty()) return -1;
  int n = 0;
  for (size_t i = 32; i < 40 && id.size() == 40; ++i) {
    char c = id[i];
    n = n << 4 | (c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return n;
}

Position Oracle::named(const Pos& pos) const {
  return {pos.history < 0 ? "" : id(pos.history), pos.seq};
}

Pos Oracle::numbered(const Position& position) {
  return {number(position.history), position.seq};
}

HistoryChain Oracle::chain(const std::vector<int>& histories) const {
  HistoryChain out;
  for (int h : histories) {
    if (Status s = out.add(full(h)); !s) throw Violation(cat("stored histories: ", s.text()));
  }
  return out;
}

std::string Oracle::text(const Pos& pos) const {
  return cat("h", pos.history, ":", pos.seq);
}

}  // namespace sf::sim
