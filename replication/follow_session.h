// The replica's side of one replication connection, as pure logic: step(event, now) -> actions. The
// shell (storage_node/replica/link.h) owns the socket, the files and the engine; the simulation
// replays it.
//
//   kConnecting --Connected--> kAuth (with a password) --> kHello --hello--> kCopying -->
//   kStreaming any --error, silence--> kEnded
//
// A replica of some slots streams as soon as one slot has a position; the others are copied beside
// the stream, and so are slots added later (Changed) and slots the master ingested (reload). A slot
// that is in place at a position the stream has passed brings the stream back to it. A full replica
// mirrors the master's log, so it copies everything first, and on a reload it stands still until it
// has the slot: kStreaming --reload--> kReloading --copied--> kStreaming.
//
// The session owns the rules: which slots are copied, where the stream begins, which batch a slot
// takes, when a position may be said to be reached. It changes `positions` only after the shell has
// reported success (Applied, Stored), so what is acknowledged is applied.
//
// One thread at a time (the shell's lock covers `positions`).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
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

class FollowSession {
 public:
  FollowSession(FollowConfig config, SlotPositions& positions, int64_t now_us)
      : config_(std::move(config)), positions_(positions), heard_us_(now_us) {}

  std::vector<follow::Action> step(const follow::Event& event, int64_t now_us);

  void set_limits(const FollowLimits& limits) { config_.limits = limits; }

  enum class State { kConnecting, kAuth, kHello, kCopying, kStreaming, kReloading, kEnded };
  State state() const { return state_; }
  bool up() const { return state_ == State::kStreaming; }
  const HistoryChain& chain() const { return chain_; }  // the master's, as announced
  int to_copy() const { return static_cast<int>(queue_.size() + copies_.size()); }
  uint64_t rewinds() const { return rewinds_; }        // a Synced begun before one of them is void
  uint64_t master_seq() const { return master_seq_; }  // newest known
  int64_t heard_us() const { return heard_us_; }

 private:
  using Actions = std::vector<follow::Action>;
  void on(const follow::Connected& event, Actions& out);
  void on(const follow::Line& event, Actions& out);
  void on(const follow::Said& event, Actions& out);
  void on(const follow::Applied& event, Actions& out);
  void on(const follow::Stored& event, Actions& out);
  void on(const follow::Synced& event, Actions& out);
  void on(const follow::Failed& event, Actions& out);
  void on(const follow::Dropped& event, Actions& out);
  void on(const follow::Changed& event, Actions& out);
  void on(const follow::Tick& event, Actions& out);
  void said(const wire::Hello& message, Actions& out);
  void said(const wire::Refuse& message, Actions& out);
  void said(const wire::Chunk& message, Actions& out);
  void said(const wire::CopyDone& message, Actions& out);
  void said(const wire::Frame& message, Actions& out);
  void said(const wire::Reload& message, Actions& out);
  void said(const wire::NewHistory& message, Actions& out);
  void said(const wire::Ping& message, Actions& out);
  void said(const wire::Lost& message, Actions& out);
  void said(const wire::Took& message, Actions& out);
  void said(const wire::GetAck& message, Actions& out);

  void send(const wire::FromReplica& message, Actions& out);
  void fail(follow::Fail::Kind kind, Status why, Actions& out);
  void send_sync(Actions& out);
  std::string why_copy(const SlotSet& copy) const;
  SlotSet answered(const SlotSet& slots);
  void want_added(Actions& out);
  void ask_slots(Actions& out);
  void start_stream(Actions& out);
  void go_back(Actions& out);
  void begin_apply(follow::Apply apply, Actions& out);
  bool out_of_place(uint64_t from, const char* what, Actions& out);
  void ack(Actions& out);
  bool dense(const std::vector<wire::Record>& records, const wire::Frame& frame) const;

  FollowConfig config_;
  SlotPositions& positions_;
  State state_ = State::kConnecting;
  HistoryChain chain_;
  // Slots named to the master in SYNC and each `want` that it has not answered, in order; without
  // those dropped since.
  std::deque<SlotSet> asks_;
  struct Copy {
    uint64_t chunks = 0;
    uint64_t bytes = 0;
    bool unwanted = false;  // dropped while it came
    std::optional<wire::CopyDone> storing;
  };
  std::deque<int> queue_;       // to be fetched
  std::map<int, Copy> copies_;  // fetch sent, not in place
  std::optional<wire::Reload> reload_;
  SlotSet losing_;  // of the Apply under way
  bool applying_ = false;
  bool discarding_ = false;  // frames from before the stream went back
  uint64_t rewinds_ = 0;
  uint64_t master_seq_ = 0;
  uint64_t synced_ = 0;
  wire::KeyArena arena_;
  int64_t now_us_ = 0;
  int64_t heard_us_ = 0;
  int64_t acked_us_ = 0;
};

}  // namespace sf
