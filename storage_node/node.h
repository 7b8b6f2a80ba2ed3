// The node: owns the engine, the worker loops, the command registry and the settings, and joins
// them. The only place that sees everything.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/net/worker_pool.h"
#include "common/ops/log.h"
#include "common/ops/process.h"
#include "storage_node/command/command.h"
#include "storage_node/engine/engine.h"
#include "storage_node/node_config.h"
#include "storage_node/server/session_hub.h"

namespace sf {

class Dispatcher;
class Node;
class PubSub;
class WatchTable;

// What storage_node/replica hangs on the node. Made by the factory in NodeParts after the engine is
// open and the loops run, before the port is opened; destroyed after the last session.
class NodeReplication {
 public:
  virtual ~NodeReplication() = default;
  // Appends INFO's replication section, heading "# Replication" included, lines ended by CRLF. Any
  // loop.
  virtual void append_info(std::string& out) = 0;
  // False: too few replicas are attached for a client's write to be taken. Any thread; cheap.
  virtual bool writes_allowed() const { return true; }
  // Ends links and timers on their loops; no callback runs after it returns. Main thread.
  virtual void stop() = 0;
};

struct NodeParts {
  std::function<void(CommandRegistry&)> register_commands;
  std::function<Result<std::unique_ptr<NodeReplication>>(Node&)> make_replication;  // may be empty
  std::function<void(EngineOptions&)> adjust_engine;  // may be empty; for test programs
  int port = 0;                                       // instead of the configured one; 0: that
};

class Node {
 public:
  // Takes the data folder, opens the engine, the loops and the port. Errors are one sentence.
  // `config` outlives the node and serves one at a time; what CONFIG SET changed stays in it.
  static Result<std::unique_ptr<Node>> start(NodeConfig& config, NodeParts parts, Log log);
  ~Node();  // closes the port, ends sessions, loops, engine

  Engine& engine() { return *engine_; }
  NodeConfig& config() { return config_; }
  const Clock& clock() const { return clock_; }
  const Log& log() const { return log_; }
  const std::string& run_id() const { return run_id_; }  // 40 hex digits, new at each start
  int port() const { return port_; }
  WorkerPool& workers() { return *pool_; }
  // A loop for what belongs to no client (links to masters): loop 0.
  Loop& home_loop() { return pool_->loop(0); }
  Dispatcher& dispatcher() { return *dispatcher_; }
  CommandRegistry& registry() { return registry_; }
  WatchTable& watches() { return *watches_; }
  PubSub& pubsub() { return *pubsub_; }
  NodeReplication* replication() { return replication_.get(); }
  int hub_count() const { return static_cast<int>(hubs_.size()); }
  SessionHub& hub(int i) { return *hubs_[static_cast<size_t>(i)]; }

  void request_stop();     // any thread: SHUTDOWN, signals
  void request_restart();  // any thread; a stop asked for before or later comes first
  enum class End { kStop, kRestart };
  End wait_for_end();  // main thread: what to do after the node is destroyed

  struct Counters {
    std::atomic<uint64_t> connections{0};
    std::atomic<uint64_t> rejected{0};
  };
  Counters& counters() { return counters_; }
  int64_t client_count() const;
  uint64_t commands_processed() const;
  void reset_stats();
  int64_t started_wall_ms() const { return started_wall_ms_; }

 private:
  Node(NodeConfig& config, Log log);
  Status open(NodeParts parts);
  Status listen(int port);
  void accept(std::unique_ptr<AcceptedSocket> socket);

  NodeConfig& config_;
  Log log_;
  SystemClock clock_;
  std::string run_id_;
  int64_t started_wall_ms_ = 0;
  std::unique_ptr<StateFolder> folder_;
  std::unique_ptr<Engine> engine_;
  CommandRegistry registry_;
  std::unique_ptr<WatchTable> watches_;
  std::unique_ptr<PubSub> pubsub_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<SessionHub::Shared> shared_;
  std::unique_ptr<WorkerPool> pool_;
  std::vector<std::unique_ptr<SessionHub>> hubs_;
  std::unique_ptr<NodeReplication> replication_;
  std::unique_ptr<Listener> listener_;  // on loop 0
  std::atomic<int> port_{0};            // 0 until the port is open; links read it on their loop
  size_t next_loop_ = 0;
  Counters counters_;
  std::atomic<uint64_t> commands_base_{0};
  std::atomic<bool> stopping_{false};

  std::mutex stop_mutex_;
  std::condition_variable stop_wake_;
  bool stop_ = false;
  bool restart_ = false;
};

}  // namespace sf
