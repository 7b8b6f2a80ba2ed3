// What everything in one simulated world shares: the seed's randomness, the clock, the truth, the
// connections, and the note of which faults this seed has had.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "tests/sim/replication/data.h"
#include "tests/sim/replication/oracle.h"

namespace sf::sim {

enum class Fault {
  kDrop,          // a connection breaks, what was under way is lost, a new one is made
  kDelay,         // a direction stands still for a while
  kReorder,       // a message overtakes an older one of another connection
  kMasterKilled,  // process gone, disk as it was
  kMasterLost,    // power gone: the unsynced tail of its log too
  kReplicaKilled,
  kReplicaLost,
  kDiskError,   // a replica's write fails
  kNoRoom,      // the master's output is over its mark
  kSilence,     // a peer says nothing for longer than allowed
  kPurged,      // the master's log was removed up to somewhere, needed or not
  kRoleChange,  // failover between full replicas, or a full replica gets another master
  kForked,      // a replica comes with a history that is not the master's
  kFrameLost,   // the peer forgets a message: not possible on TCP, refused all the same
  kMoved,       // slots cut over with FENCE, PROMOTE, FENCE PERMANENT
  kTakenBack,   // a cut over was given up in its middle
  kReversed,    // the old owner follows the new one without a copy
  kSlotsAdded,  // slots followed while a session of that master runs
  kSlotsDropped,
  kCount,
};
inline constexpr size_t kFaults = static_cast<size_t>(Fault::kCount);
const char* fault_name(Fault fault);

// A connection from a replica to a master. Messages leave it in order; either end may close.
struct Conn {
  int id = 0;
  int replica = 0;
  int master = 0;
  bool dialing = true;
  bool replica_gone = false;  // that end closed: nothing more comes from it, it reads nothing
  bool master_gone = false;
  bool cut = false;  // the network lost it: each end reads what arrived, then hears of the end
  struct Message {
    uint64_t stamp;
    std::string bytes;
  };
  std::deque<Message> up;  // to the master
  std::deque<Message> down;
  int64_t up_stall = 0;  // nothing arrives before
  int64_t down_stall = 0;
};

struct Context {
  explicit Context(uint64_t seed) : random(seed) {}

  Random random;
  int64_t now = 1'000'000;
  uint64_t stamp = 0;
  Oracle oracle;
  std::deque<Entry> entries;
  std::vector<std::unique_ptr<Conn>> conns;
  int next_conn = 1;
  std::array<bool, kFaults> had{};
  bool trace = false;

  void note(Fault fault) { had[static_cast<size_t>(fault)] = true; }
  Conn* conn(int id);
  int dial(int replica, int master);
  template <class... Parts>
  void say(Parts&&... parts) {
    if (trace) print(cat(std::forward<Parts>(parts)...));
  }

 private:
  void print(const std::string& line) const;
};

}  // namespace sf::sim
