// What everything in one simulated world shares: the seed's randomness, virtual time and its queue
// of events, and the note of which faults this seed has had.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/strings.h"

namespace sf::cutsim {

// A promise of the design that was broken: ends the seed.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Kind { kNode, kPika };  // slots one by one with a fence; the whole plan by accounting

enum class Fault {
  kBroken,        // a worker's connection to a server breaks
  kLateWrite,     // and a write on it executes later
  kCrash,         // kill -9 of the shim, and a start
  kSlowWorker,    // a worker takes up a new table late
  kLateAnswer,    // a server answers control after its time is up; a node may also do it late
  kSlowApply,     // a record is received long before it is applied
  kWrongMapping,  // a proxy was not attached, whatever the dashboard says
  kByHand,        // an operator maps slots back to the old group
  kFailoverOld,   // another process is the group's master, with the same data
  kFailoverNew,
  kClockJump,          // the shim's wall clock, by up to 5 s either way
  kCalledOff,          // operator's abort, or too much held
  kRecordUnknown,      // the owner record's write fails, and it may be there
  kOlderCopy,          // the shim is started on an older copy of its state folder
  kLeftByHand,         // an operator takes the new side out of replication
  kCutoverTwice,       // and orders a cutover that is under way, or done
  kReload,             // and has the shim read its plan again
  kMigratorAway,       // nobody renews the permit for a while
  kReplicatedWrongly,  // Pika: a command that is not the same on the new side
  kRollback,           // an operator orders what is switched back
  kKilledGoingBack,    // kill -9 of the shim in the middle of that
  kForwardAgain,       // a cutover of what went back
  kQueueLost,          // Pika: what a killed server had received and not applied is gone
  kCount,
};
inline constexpr size_t kFaults = static_cast<size_t>(Fault::kCount);
const char* fault_name(Fault fault);

inline constexpr int kSlots = 2;
inline constexpr int kKeysOfSlot = 3;  // two registers and a list
inline constexpr int kKeys = kSlots * kKeysOfSlot;
inline constexpr int slot_of_key(int key) {
  return key / kKeysOfSlot;
}
inline constexpr bool is_list(int key) {
  return key % kKeysOfSlot == kKeysOfSlot - 1;
}

enum class Op : uint8_t {
  kGet,
  kSet,
  kPush,   // RPUSH of one element
  kPop,    // LPOP
  kRange,  // LRANGE 0 -1
};
inline constexpr bool writes(Op op) {
  return op == Op::kSet || op == Op::kPush || op == Op::kPop;
}

const char* op_name(Op op);

class Context : public Clock {
 public:
  Context(uint64_t seed, bool trace) : random(seed), trace_(trace) {}

  int64_t wall_ms() const override { return wall_ms_ + now_ / 1000; }
  int64_t mono_us() const override { return now_; }
  void jump_wall(int64_t ms) { wall_ms_ += ms; }

  int64_t now() const { return now_; }
  uint64_t stamp() { return ++stamp_; }  // of an event; all are different
  void after(int64_t us, std::function<void()> what);
  // Runs events until `us`; returns at once when there is none left.
  void run_until(int64_t us);
  uint64_t events() const { return events_; }

  bool chance(double p) { return random.chance(p); }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
  }
  // True if this fault shall happen now, and notes it.
  bool strikes(Fault fault, double p);
  void allow(Fault fault, bool yes) { allowed_[static_cast<size_t>(fault)] = yes; }
  void note(Fault fault) { had_[static_cast<size_t>(fault)] = true; }
  // It changed the course of things: met a pause, cost an answer, was waited for.
  void matters(Fault fault, bool yes = true) {
    if (yes && had_[static_cast<size_t>(fault)]) mattered_[static_cast<size_t>(fault)] = true;
  }
  const std::array<bool, kFaults>& had() const { return had_; }
  const std::array<bool, kFaults>& mattered() const { return mattered_; }
  // Units between their HOLD and their owner record, or OLD again.
  void paused(int more) { paused_ += more; }
  bool in_pause() const { return paused_ > 0; }
  // What is under way longest comes about just after an end was told, if that is in time.
  void after_fence(int64_t most_us, std::function<void()> what) {
    after_fence_.emplace_back(now_ + most_us, std::move(what));
  }
  void fenced();
  void calm() { allowed_ = {}; }  // no fault from here on

  // I5: requests of one client for one key execute in their order.
  void executed(int client, int key, uint64_t request);

  template <class... Parts>
  void say(Parts&&... parts) {
    if (trace_) print(cat(std::forward<Parts>(parts)...));
  }

  Random random;

 private:
  struct Event {
    int64_t at;
    uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };
  void print(const std::string& line) const;

  const bool trace_;
  int64_t now_ = 1'000'000;
  int64_t wall_ms_ = 1'700'000'000'000;
  uint64_t stamp_ = 0;
  uint64_t number_ = 0;
  uint64_t events_ = 0;
  std::priority_queue<Event> queue_;
  std::map<std::pair<int, int>, uint64_t> last_;  // request, by client and key
  std::array<bool, kFaults> had_{}, mattered_{};
  int paused_ = 0;
  std::array<bool, kFaults> allowed_{};
  std::vector<std::pair<int64_t, std::function<void()>>> after_fence_;
};

}  // namespace sf::cutsim
