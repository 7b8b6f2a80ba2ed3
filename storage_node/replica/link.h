// One connection to a master: the shell of a PeerSession. Lives on the replication loop; takes
// ReplicaState::mutex for each message. Slots' files are ingested on a thread of the link's own,
// one slot at a time, beside the stream.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "common/net/loop.h"
#include "replication/backoff.h"
#include "replication/peer_session.h"
#include "storage_node/replica/chunk_files.h"
#include "storage_node/replica/follow_store.h"
#include "storage_node/replica/replica_state.h"
#include "storage_node/replica/task_thread.h"

namespace sf {

class Link : public StreamHandler {
 public:
  // `config` is asked at each connect and each tick: password and limits may have changed.
  Link(ReplicaState& state, Loop& loop, std::shared_ptr<Source> source,
       std::function<FollowConfig()> config, PeerSessionMaker make_session);
  ~Link() override;

  const std::shared_ptr<Source>& source() const { return source_; }
  // Slots were added or dropped by a verb: the master hears of it.
  void look();

  void on_connected() override;
  size_t on_data(std::string_view unread) override;
  void on_closed(const Status& why) override;

 private:
  void connect();
  void retry_after(int64_t us);
  void end_stream();
  void step(const follow::Event& event);
  void run(std::vector<follow::Action> actions);
  void carry_out(follow::Action& action);
  void tell_dropped();
  void show_why_copy(const std::string& why);
  void store_slot(const follow::StoreSlot& action);
  void on_stored(const follow::StoreSlot& action, uint64_t session, const Status& done);
  void failed(const follow::Fail& fail);
  void answer(const follow::Event& event);
  void show_state();
  void lower(Source::Link to);
  void tick();
  void sync_disk();
  struct SyncPoint {
    uint64_t seq;
    uint64_t session;
    uint64_t rewinds;
  };
  void on_synced(const SyncPoint& point, const Status& status);

  ReplicaState& state_;
  Loop& loop_;
  std::shared_ptr<Source> source_;
  std::function<FollowConfig()> config_;
  PeerSessionMaker make_session_;
  FollowStore store_;
  ChunkFiles files_;
  Backoff backoff_;
  std::unique_ptr<PeerSession> session_;
  std::deque<follow::Action> queue_;
  uint64_t session_number_ = 0;
  TimerId retry_timer_ = 0;
  TimerId tick_timer_ = 0;
  int64_t synced_us_ = 0;
  uint64_t synced_seq_ = 0;
  bool syncing_ = false;
  bool sync_wanted_ = false;    // at once, by the master
  bool connect_waits_ = false;  // for the slots being stored
  bool broken_ = false;  // the session ended inside a step; the stream goes at the turn's end
  std::string last_error_;
  std::shared_ptr<Link*> self_;  // for deferred calls: null when the link is gone
  std::unique_ptr<Stream> stream_;
  TaskThread disk_;
  TaskThread ingest_;
};

}  // namespace sf
