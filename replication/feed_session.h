// The master's side of one replication connection, as pure logic: step(event, now) -> actions. The
// shell (storage_node/replica/feed.h) owns the socket, the log and the exports; the simulation
// replays it.
//
//   kWaiting --Sync--> kOpen --stream--> kStreaming --stream--> kStreaming, further back
//        kStreaming --reload entry, full replica--> kOpen (waits for fetch, stream)
//        any --error, silence, log purged--> kClosed
//
// Copies run beside the stream. From the moment a slot's export is asked for until the replica says
// that it stands (`placed`), the log is kept from a point that the export's snapshot is not before:
// the replica may have to go back there.
//
// One thread. Actions are carried out in order; ReadLog is answered by LogRead or LogPurged, Export
// by any number of ExportChunk and one ExportDone or ExportFailed. At most FeedLimits::exports are
// under way; their answers may be mixed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "replication/history.h"
#include "replication/wire.h"

namespace sf {

struct FeedLimits {
  int64_t ping_us = 1'000'000;      // a message at least this often
  int64_t silence_us = 10'000'000;  // a replica silent for longer is cut
  int exports = 1;                  // slots read at a time
};

namespace feed {

// ---- events
// What the master's log looks like at the moment a replica asks.
struct Asked {
  wire::Sync sync;
  HistoryChain chain;
  uint64_t last_seq = 0;
  uint64_t oldest_seq = 1;  // oldest batch still readable
  uint64_t floor = 0;  // below it the log here lacks parts (this node is a replica that was copied)
  bool mirror = false;    // this node is itself a full replica: a peer may be ahead of it
  std::string not_ready;  // not empty: nobody is served now, and why
  std::string run_id;
  std::string records = {};  // the shared node records, as wire::Hello has them
  int64_t time_ms = 0;       // this node's clock
};
struct Said {
  wire::FromReplica message;  // all but Sync and Want
};
// The replica says `want`: the log at that moment, as in Asked.
struct Wanted {
  wire::Want want;
  uint64_t last_seq = 0;
  uint64_t oldest_seq = 1;
  uint64_t floor = 0;
  bool mirror = false;
  std::vector<History> histories;  // as in LogRead, read after last_seq
};
struct LogMoved {};  // there may be new batches or histories
struct LogRead {
  struct Entry {
    wire::Record record;  // all operations, unfiltered
    bool reload = false;
    SlotSet reload_slots;
  };
  uint64_t after = 0;          // as asked
  std::vector<Entry> entries;  // empty: none after what was asked
  std::vector<History>
      histories;  // those after the last one known to the session, read after the entries
  // A log of one clock carries its time in its entries. One with entries of several masters
  // (`mixed`) does not: then `wall_ms` is a time that holds for all slots at the end of `entries`,
  // 0 if there is none.
  bool mixed = false;
  int64_t wall_ms = 0;
  uint64_t version = 0;
};
struct LogPurged {
  uint64_t after = 0;
};
// What this replica still needs of the log went over a limit and is gone.
struct LogCut {
  std::string replica;  // who, for people
  std::string why;      // position and limit, for people
};
struct ExportChunk {
  int slot = 0;
  uint8_t family = 0;
  uint64_t entries = 0;
  std::string_view bytes;
};
struct ExportDone {
  int slot = 0;
  Position at;  // its history was read after the snapshot was taken
  uint64_t version = 0;
  std::vector<History> histories;  // as in LogRead
};
struct ExportFailed {
  Status why;
};
struct Room {
  bool room = true;  // false: the output is over its high mark
};
struct Tick {
  int64_t wall_ms = 0;    // every write after last_seq is later than this
  uint64_t last_seq = 0;  // 0: unknown. While the stream lags no time is told
};
struct AckWanted {  // somebody waits for the replica to have this on its disk
  uint64_t seq = 0;
};
using Event = std::variant<Asked, Said, Wanted, LogMoved, LogRead, LogPurged, LogCut, ExportChunk,
                           ExportDone, ExportFailed, Room, Tick, AckWanted>;

// ---- actions
struct Send {
  std::string bytes;
};
struct ReadLog {
  uint64_t after = 0;
};
struct Export {
  int slot = 0;
};
struct KeepLog {
  uint64_t from = 0;  // batches after it are needed
};
struct Close {
  Status why;
};
using Action = std::variant<Send, ReadLog, Export, KeepLog, Close>;

}  // namespace feed

class FeedSession {
 public:
  explicit FeedSession(FeedLimits limits, int64_t now_us) : limits_(limits), heard_us_(now_us) {}

  // `now_us` is monotonic.
  std::vector<feed::Action> step(const feed::Event& event, int64_t now_us);

  void set_limits(const FeedLimits& limits) { limits_ = limits; }

  enum class State { kWaiting, kOpen, kStreaming, kClosed };
  State state() const { return state_; }
  bool full() const { return sync_.full; }
  const wire::Sync& peer() const { return sync_; }
  const SlotSet& slots() const { return slots_; }
  uint64_t sent() const { return sent_; }
  uint64_t acked() const { return ack_.applied; }
  uint64_t synced() const { return ack_.synced; }
  int64_t acked_us() const { return acked_us_; }       // when the last ack came; 0: none yet
  const SlotSet& copying() const { return copying_; }  // not in place at the replica yet
  uint64_t kept() const { return kept_; }              // the last KeepLog
  bool exporting() const { return !exporting_.empty(); }
  const std::string& history() const { return chain_.current(); }

 private:
  using Actions = std::vector<feed::Action>;
  void on(const feed::Asked& event, Actions& out);
  void on(const feed::Said& event, Actions& out);
  void on(const feed::Wanted& event, Actions& out);
  void on(const feed::LogMoved& event, Actions& out);
  void on(const feed::LogRead& event, Actions& out);
  void on(const feed::LogPurged& event, Actions& out);
  void on(const feed::LogCut& event, Actions& out);
  void on(const feed::ExportChunk& event, Actions& out);
  void on(const feed::ExportDone& event, Actions& out);
  void on(const feed::ExportFailed& event, Actions& out);
  void on(const feed::Room& event, Actions& out);
  void on(const feed::Tick& event, Actions& out);
  void on(const feed::AckWanted& event, Actions& out);
  void said(const wire::Sync& message, Actions& out);
  void said(const wire::Fetch& message, Actions& out);
  void said(const wire::StreamFrom& message, Actions& out);
  void said(const wire::Ack& message, Actions& out);
  void said(const wire::Drop& message, Actions& out);
  void said(const wire::Want& message, Actions& out);
  void said(const wire::Placed& message, Actions& out);

  void send(const wire::FromMaster& message, Actions& out);
  void refuse(bool retry, std::string text, Actions& out);
  void close(Status why, Actions& out);
  struct LogState {
    uint64_t last_seq;
    uint64_t oldest_seq;
    uint64_t floor;
    bool mirror;
  };
  // Fills keep and copy. kRefused: this node is behind the replica, which has to come again later.
  Status judge(const std::vector<SlotGroup>& groups, const LogState& log, SlotSet* keep,
               SlotSet* copy);
  void keep_log(Actions& out);
  void want_log(Actions& out);
  void want_export(Actions& out);
  Status announce(const std::vector<History>& histories, Actions& out);
  void send_getack(Actions& out);
  void send_reload(const feed::LogRead::Entry& entry, Actions& out);
  bool add_entry(const feed::LogRead::Entry& entry, std::string& records);

  FeedLimits limits_;
  State state_ = State::kWaiting;
  wire::Sync sync_;
  SlotSet slots_;
  HistoryChain chain_;  // as announced to the replica
  uint64_t sent_ = 0;   // the stream was sent up to here
  uint64_t known_ = 0;  // the log reaches at least this far: no snapshot to come is before it
  wire::Ack ack_;
  int64_t acked_us_ = 0;
  uint64_t base_ = 0;              // the stream needs the log from here on
  std::map<int, uint64_t> holds_;  // and these slots, not yet placed, from here on
  uint64_t kept_ = UINT64_MAX;     // as last asked for
  SlotSet copying_;
  uint64_t ack_wanted_ = 0;  // getack is to be sent after this batch; 0: nobody waits
  bool reading_ = false;
  bool more_ = false;  // LogMoved while reading or without room
  bool room_ = true;
  struct Export {
    uint64_t chunks = 0;
    uint64_t bytes = 0;
    uint64_t entries = 0;
  };
  std::deque<int> fetches_;          // not begun
  std::map<int, Export> exporting_;  // under way
  int64_t now_us_ = 0;
  int64_t heard_us_ = 0;
  int64_t told_us_ = 0;  // a frame or a ping was sent
};

}  // namespace sf
