// The master's end of one replication connection: the shell of a FeedSession. Lives on the loop of
// the client connection it took over. The output is bounded by the setting repl-output-limit plus
// one message: over it the log is not read on, so a slow replica costs nothing but the log it still
// needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/net/loop.h"
#include "common/resp/request_parser.h"
#include "replication/feed_session.h"
#include "storage_node/replica/feed_exporter.h"
#include "storage_node/replica/replica_settings.h"
#include "storage_node/replica/replica_state.h"
#include "storage_node/replica/task_thread.h"
#include "storage_node/server/client_session.h"

namespace sf {

// What INFO says of a replica of this node.
struct FeedReport {
  uint64_t id = 0;
  std::string ip;
  int port = 0;
  bool full = false;
  SlotSet slots;
  SlotSet copying;    // of them: not in place there yet
  std::string state;  // "copying", "online", "wait"
  uint64_t sent = 0;
  uint64_t acked = 0;
  uint64_t synced = 0;
  int64_t acked_us = 0;  // mono; 0: none yet
  bool over = false;
};

struct FeedOptions {
  std::function<ReplicaSettings()> settings = [] { return ReplicaSettings(); };
  std::string run_id;
  std::shared_ptr<CopyRate> copy_rate;
  // A full replica's acknowledgement came, or it streams now or no longer. The feed's loop.
  std::function<void(const FeedReport&)> acked = [](const FeedReport&) {};
  TaskThread* log_thread = nullptr;  // reads what is no longer in memory; stopped before the loops
};

class Feed;

// What a commit touches. Not the feed itself: a committing thread must never come to hold the last
// reference to a feed, which belongs to its loop.
struct FeedWake {
  Loop& loop;
  std::weak_ptr<Feed> feed;  // locked on the loop only
  std::atomic<bool> posted{false};
};

class Feed : public StreamHandler, public std::enable_shared_from_this<Feed> {
 public:
  static constexpr size_t kReadBytes = 256UL << 10;

  // `ended` is called once, on the loop, when the feed should be let go of (not after it was
  // destroyed).
  Feed(uint64_t id, ReplicaState& state, Loop& loop, TakenConnection connection,
       FeedOptions options, std::function<void()> ended);
  ~Feed() override;
  void start(wire::Sync sync);
  void close();  // loop thread

  Loop& loop() { return loop_; }
  FeedReport report() const;       // any thread
  void wake();                     // any thread: the log or the histories moved
  void want_synced(uint64_t seq);  // any thread: somebody waits for it

  size_t on_data(std::string_view unread) override;
  void on_drained() override;
  void on_closed(const Status& why) override;

 private:
  static void post_wake(const std::shared_ptr<FeedWake>& wake);
  void step(const feed::Event& event);
  void carry_out(const feed::Action& action);
  void read_log(uint64_t after);
  void give_log(uint64_t after, const Result<std::vector<LogEntry>>& entries);
  void start_export(int slot);
  FeedExporter& idle_exporter();
  void on_chunk(FeedExporter* exporter, int slot, const Engine::SstChunk& chunk);
  void on_export_done(FeedExporter::Done done);
  void take_messages(std::string_view data, size_t* used);
  void take_want(wire::Want want);
  void note_room();
  void end_if_cut();
  bool end_if_replaced();
  void take_settings();
  void publish();
  void publish_report();
  void end(const Status& why);
  void tick();
  bool mixed() const;

  const uint64_t id_;
  ReplicaState& state_;
  Loop& loop_;
  const FeedOptions options_;
  const std::function<void()> ended_;
  size_t unsent_max_ = 0;
  FeedSession session_;
  RequestParser parser_;
  std::string early_;            // came with the connection, before its handler was ours
  Engine::SettledTime settled_;  // taken before the log was read
  uint64_t histories_seen_ = 0;
  uint64_t generation_ = 0;
  int subscription_ = 0;
  std::shared_ptr<FeedWake> wake_;
  bool over_ = false;
  int64_t told_acked_us_ = 0;
  FeedSession::State told_state_ = FeedSession::State::kWaiting;
  std::vector<FeedExporter*> held_chunks_;  // written, but the socket is behind: released when it
                                            // drains
  TimerId tick_timer_ = 0;
  TimerId linger_timer_ = 0;
  std::string claim_;  // names us to the engine; empty until start
  mutable std::mutex report_mutex_;
  FeedReport report_;
  std::vector<std::unique_ptr<FeedExporter>> exporters_;  // one a slot at a time
  std::unique_ptr<HandlerSwitch> handler_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace sf
