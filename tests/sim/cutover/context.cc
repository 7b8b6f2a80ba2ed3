#include "tests/sim/cutover/context.h"

#include <cstdio>

namespace sf::cutsim {

const char* fault_name(Fault fault) {
  static constexpr const char* kNames[kFaults] = {"connection broken",
                                                  "write executed late",
                                                  "shim killed",
                                                  "slow worker",
                                                  "late answer",
                                                  "slow apply",
                                                  "wrong mapping",
                                                  "mapped by hand",
                                                  "old group fails over",
                                                  "new group fails over",
                                                  "wall clock jumps",
                                                  "called off",
                                                  "owner record unknown",
                                                  "older copy of the state",
                                                  "left replication by hand",
                                                  "cutover ordered twice",
                                                  "plan read again",
                                                  "migrator away",
                                                  "replicated wrongly",
                                                  "rolled back",
                                                  "killed on the way back",
                                                  "forward again",
                                                  "queue lost"};
  return kNames[static_cast<size_t>(fault)];
}

const char* op_name(Op op) {
  static constexpr const char* kNames[] = {"get", "set", "push", "pop", "range"};
  return kNames[static_cast<size_t>(op)];
}

void Context::after(int64_t us, std::function<void()> what) {
  queue_.push({now_ + us, ++number_, std::move(what)});
}

void Context::run_until(int64_t us) {
  while (!queue_.empty() && queue_.top().at <= us) {
    Event event = std::move(const_cast<Event&>(queue_.top()));
    queue_.pop();
    now_ = event.at;
    ++events_;
    event.what();
  }
  now_ = us;
}

void Context::fenced() {
  for (auto& [until, what] : after_fence_) {
    if (until > now_ + 7'000) after(between(1'000, 7'000), std::move(what));
  }
  after_fence_.clear();
}

bool Context::strikes(Fault fault, double p) {
  if (!allowed_[static_cast<size_t>(fault)] || !random.chance(p)) return false;
  note(fault);
  return true;
}

void Context::executed(int client, int key, uint64_t request) {
  uint64_t& last = last_[{client, key}];
  if (request < last) {
    throw Violation(cat("I5 request ", request, " of client ", client, " after its ", last));
  }
  last = request;
}

void Context::print(const std::string& line) const {
  std::printf("%10.3f ms  %s\n", static_cast<double>(now_) / 1000.0, line.c_str());
}

}  // namespace sf::cutsim
