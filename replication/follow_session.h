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

#include "common/resp/request_parser.h"
#include "replication/peer_session.h"

namespace sf {

class FollowSession : public PeerSession {
 public:
  FollowSession(FollowConfig config, SlotPositions& positions, int64_t now_us);

  std::optional<follow::Event> read(std::string_view unread, size_t* used) override;
  Actions step(const follow::Event& event, int64_t now_us) override;
  void set_limits(const FollowLimits& limits) override { config_.limits = limits; }

  State state() const override { return state_; }
  bool up() const { return state_ == State::kStreaming; }
  const HistoryChain& chain() const { return chain_; }  // the master's, as announced
  int to_copy() const { return static_cast<int>(queue_.size() + copies_.size()); }
  uint64_t rewinds() const override { return rewinds_; }
  uint64_t master_seq() const override { return master_seq_; }
  int64_t heard_us() const override { return heard_us_; }

 private:
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
  SlotSet joined_at(uint64_t seq) const;
  bool dense(const std::vector<wire::Record>& records, const wire::Frame& frame) const;

  FollowConfig config_;
  SlotPositions& positions_;
  RequestParser parser_;
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
  int64_t discarding_us_ = 0;
  uint64_t rewinds_ = 0;
  uint64_t master_seq_ = 0;
  uint64_t synced_ = 0;
  wire::KeyArena arena_;
  int64_t now_us_ = 0;
  int64_t heard_us_ = 0;
  int64_t acked_us_ = 0;
};

}  // namespace sf
