// One replication connection as the replica sees it, whatever the master speaks: bytes in, events,
// actions out. Ours is FollowSession; another protocol (a follower of a real Pika) is another
// implementation, which translates its master's messages to these events, and the shell
// (storage_node/replica/link.h) stays as it is.
//
// One thread at a time (the shell's lock covers the positions; read() needs no lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "replication/history.h"
#include "replication/slot_positions.h"
#include "replication/wire.h"

namespace sf {

struct FollowLimits {
  int64_t ack_us = 1'000'000;
  int64_t silence_us = 10'000'000;
  int fetch_window = 2;  // slots asked for and not yet in place
};

struct FollowConfig {
  std::string run_id;    // of this node
  int port = 0;          // where this node listens
  bool full = false;     // mirrors the master's log
  std::string password;  // empty: none
  FollowLimits limits = {};
};

namespace follow {

// ---- events
struct Connected {};
struct Line {  // "+OK" or "-ERR ..." without CRLF, in the time before the stream
  std::string text;
};
struct Said {
  wire::FromMaster message;
};
struct Applied {  // answer to Apply
  uint64_t to = 0;
};
struct Stored {  // answer to StoreSlot, at any later time: in place, its position with it
  int slot = 0;
};
struct Synced {  // everything applied up to here is on disk
  uint64_t seq = 0;
};
struct Failed {  // an action could not be carried out
  Status why;
};
struct Dropped {  // these slots are followed no more (already gone from positions), or anew
  SlotSet slots;
};
struct Changed {};  // slots may have been added to positions
struct Tick {};
using Event =
    std::variant<Connected, Line, Said, Applied, Stored, Synced, Failed, Dropped, Changed, Tick>;

// ---- actions
struct Send {
  std::string bytes;
};
// The master took us on: `copy` lost their positions. The chain is the master's.
struct Accepted {
  wire::Hello hello;
  std::string why_copy;  // for people, if positions were lost
};
// The same for slots added to a session.
struct Took {
  SlotSet keep;
  SlotSet copy;
  std::string why_copy;
};
struct StoreChunk {  // append to the files of that slot; the view dies with the step
  wire::Chunk chunk;
};
// All chunks of the slot are there: wipe, ingest, save position, sync.
struct StoreSlot {
  wire::CopyDone done;
  std::optional<uint64_t> reload_seq;  // with it the stream has passed this entry: save that too
};
// The first slot has a position (full replica: all copies are there, and its log may now take the
// master's numbering from `seq`).
struct BeginStream {
  uint64_t seq = 0;
};
// Apply these records (already filtered by the slots' own positions) and save with them: the
// stream's position `stream`, `to` for the slots moved, nothing of their own for those joined, and
// that those lost have no position any more (before the answer comes, this has to be on disk).
struct Apply {
  uint64_t from = 0;
  uint64_t to = 0;
  int64_t time_ms = 0;
  uint64_t version = 0;
  std::vector<wire::Record> records;  // views into the frame or the arena
  SlotSet joined;                     // slots that are where the stream is, at `to`
  SlotSet moved = {};                 // slots behind the stream that are at `to` now
  SlotSet lost = {};                  // to be copied again
  uint64_t stream = 0;                // of the joined slots; `to`, or further
};
struct AdoptHistory {
  History history;
};
struct MasterTime {  // the master's clock, in step with the stream
  int64_t time_ms = 0;
};
struct SyncNow {};  // the master waits for Synced
struct Fail {
  Status why;
  enum class Kind { kRetry, kFinal, kCopyAgain } kind = Kind::kRetry;
};
using Action = std::variant<Send, Accepted, Took, StoreChunk, StoreSlot, BeginStream, Apply,
                            AdoptHistory, MasterTime, SyncNow, Fail>;

}  // namespace follow

class PeerSession {
 public:
  using Actions = std::vector<follow::Action>;
  enum class State { kConnecting, kAuth, kHello, kCopying, kStreaming, kReloading, kEnded };

  virtual ~PeerSession() = default;

  // The next message at the front of `unread`, once all of it is there; its views point into
  // `unread`. `used`: bytes done with, which may be some without a message. Touches no position.
  virtual std::optional<follow::Event> read(std::string_view unread, size_t* used) = 0;
  // What is to be done about an event, in order. `now_us` is monotonic.
  virtual Actions step(const follow::Event& event, int64_t now_us) = 0;
  virtual void set_limits(const FollowLimits& limits) = 0;

  virtual State state() const = 0;
  virtual uint64_t rewinds() const = 0;     // a Synced begun before one of them is void
  virtual uint64_t master_seq() const = 0;  // newest known
  virtual int64_t heard_us() const = 0;
};

// A session for one connection; `positions` outlives it.
using PeerSessionMaker = std::function<std::unique_ptr<PeerSession>(
    FollowConfig config, SlotPositions& positions, int64_t now_us)>;

}  // namespace sf
