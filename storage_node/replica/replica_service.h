// Replication of one node, wired: the slots' control, the links to masters on a loop of their own,
// and the feeds to replicas on the loops of the connections they took over.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/net/worker_pool.h"
#include "storage_node/node.h"
#include "storage_node/replica/feed.h"
#include "storage_node/replica/link.h"
#include "storage_node/replica/replica_acks.h"
#include "storage_node/replica/replica_settings.h"
#include "storage_node/replica/slot_control.h"
#include "storage_node/replica/slot_status.h"

namespace sf {

struct ReplicaOptions {
  std::string run_id;
  std::function<int()> port;                // asked when a link connects
  std::function<std::string()> masterauth;  // asked when a link connects
  std::function<ReplicaSettings()> settings = [] { return ReplicaSettings(); };  // any thread
};

class ReplicaService : public NodeReplication {
 public:
  // What timers on client loops may outlive the service by.
  struct Core {
    Core(Engine& engine, const Clock& clock, const Log& log, uint64_t seed)
        : state(engine, clock, log, seed), control(state) {}
    ReplicaState state;
    SlotControl control;
    ReplicaAcks acks;
    std::atomic<uint64_t> verb_seq{0};    // the log's end after the last verb, for WAIT
    std::atomic<uint64_t> synced_seq{0};  // everything up to it is on this node's disk
  };

  // Reads the records, begins a history, starts the links.
  static Result<std::unique_ptr<ReplicaService>> start(Engine& engine, const Clock& clock, Log log,
                                                       ReplicaOptions options);
  ~ReplicaService() override;

  SlotControl& control() { return core_->control; }
  // For verbs, which wait for the disk: one after the other, on a thread of their own.
  void run_verb(std::function<void()> verb) { verb_thread_.run(std::move(verb)); }
  const ReplicaState& state() const { return core_->state; }
  const std::shared_ptr<Core>& core() const { return core_; }

  // A connection that said REPLICATION SYNC. On the connection's loop.
  void feed(wire::Sync sync, TakenConnection connection, Loop& loop);
  std::vector<FeedReport> feeds() const;  // any thread
  void count_replicas();                  // any thread: for min-replicas-to-write
  // Any thread. Full replicas get this on their disk, and say so, as soon as they can.
  void ask_synced(uint64_t seq);
  // The same for this node; `done` on a thread of its own.
  void sync_here(std::function<void(Status)> done);

  void append_info(std::string& out) override;
  bool writes_allowed() const override { return !too_few_.load(std::memory_order_relaxed); }
  void stop() override;

 private:
  ReplicaService(Engine& engine, const Clock& clock, const Log& log, ReplicaOptions options);
  void match_links();  // links loop: one link a source
  void tick();
  void wake_feeds();
  void note_ack(const FeedReport& report);
  FollowConfig link_config() const;
  FollowLimits follow_limits() const;

  const ReplicaOptions options_;
  std::shared_ptr<Core> core_;
  const std::shared_ptr<CopyRate> copy_rate_;
  mutable std::mutex feeds_mutex_;
  std::map<uint64_t, std::shared_ptr<Feed>> feeds_;
  uint64_t next_feed_ = 1;
  bool stopped_ = false;
  std::map<const Source*, std::unique_ptr<Link>> links_;  // links loop only
  TimerId tick_timer_ = 0;
  std::unique_ptr<WorkerPool> loop_;
  std::atomic<bool> too_few_{false};  // min-replicas-to-write
  TaskThread log_thread_;             // of the feeds
  TaskThread sync_thread_;
  TaskThread verb_thread_;
};

// For NodeParts::make_replication.
Result<std::unique_ptr<NodeReplication>> make_replication(Node& node);

}  // namespace sf
