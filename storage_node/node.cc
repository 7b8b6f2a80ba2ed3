#include "storage_node/node.h"

#include <utility>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/net/uv_loop.h"
#include "common/resp/encoder.h"
#include "storage_node/server/dispatcher.h"
#include "storage_node/server/pubsub.h"
#include "storage_node/server/session_hub.h"
#include "storage_node/server/watch_table.h"

namespace sf {

namespace {
constexpr int kFolderFormat = 1;
}  // namespace

Node::Node(NodeConfig& config, Log log)
    : config_(config),
      log_(std::move(log)),
      run_id_(Random(Random::system_seed()).hex(40)),
      started_wall_ms_(clock_.wall_ms()),
      shared_(std::make_unique<SessionHub::Shared>()) {}

Result<std::unique_ptr<Node>> Node::start(NodeConfig& config, NodeParts parts, Log log) {
  std::unique_ptr<Node> node(new Node(config, std::move(log)));
  Status opened = node->open(std::move(parts));
  if (!opened) return opened;
  return node;
}

Status Node::open(NodeParts parts) {
  Result<std::unique_ptr<StateFolder>> folder =
      StateFolder::open(config_.dir(), "slotferry-node", kFolderFormat);
  if (!folder) return folder.status();
  folder_ = std::move(*folder);
  EngineOptions options = config_.engine_options();
  options.wants_reopen = [this] { request_restart(); };
  if (parts.adjust_engine) parts.adjust_engine(options);
  Result<std::unique_ptr<Engine>> engine = Engine::open(options, clock_, log_.tagged("engine"));
  if (!engine) return engine.status();
  engine_ = std::move(*engine);
  parts.register_commands(registry_);
  watches_ = std::make_unique<WatchTable>();
  pubsub_ = std::make_unique<PubSub>();
  dispatcher_ = std::make_unique<Dispatcher>(*engine_, *this, registry_, *watches_);
  shared_->needs_password = [this] { return !config_.text("requirepass").empty(); };
  const int threads = static_cast<int>(config_.integer("threads"));
  pool_ = std::make_unique<WorkerPool>(threads, "worker", [] { return make_uv_loop(); });
  for (int i = 0; i < threads; ++i) {
    hubs_.push_back(std::make_unique<SessionHub>(pool_->loop(i), *engine_, *dispatcher_, *shared_,
                                                 options.sync == SyncPolicy::kAlways,
                                                 log_.tagged("server")));
  }
  if (parts.make_replication) {
    Result<std::unique_ptr<NodeReplication>> made = parts.make_replication(*this);
    if (!made) return made.status();
    replication_ = std::move(*made);
  }
  return listen(parts.port != 0 ? parts.port : static_cast<int>(config_.integer("port")));
}

Status Node::listen(int port) {
  Status done;
  pool_->run_on(0, [&] {
    Result<std::unique_ptr<Listener>> listener = pool_->loop(0).listen(
        config_.text("bind"), port,
        [this](std::unique_ptr<AcceptedSocket> socket) { accept(std::move(socket)); });
    done = listener.is_ok() ? Status::ok() : listener.status();
    if (!done) return;
    listener_ = std::move(*listener);
    port_ = listener_->port();
  });
  return done;
}

void Node::accept(std::unique_ptr<AcceptedSocket> socket) {
  ++counters_.connections;
  if (shared_->clients.load() >= config_.integer("maxclients")) {
    ++counters_.rejected;
    return hub(0).reject(std::move(socket));  // this is loop 0
  }
  const size_t i = next_loop_++ % hubs_.size();
  // The task must be copyable; the socket is not.
  auto carried = std::make_shared<std::unique_ptr<AcceptedSocket>>(std::move(socket));
  pool_->loop(static_cast<int>(i)).post([this, i, carried] {
    if (!stopping_) hubs_[i]->add(std::move(*carried));
  });
}

Node::~Node() {
  if (pool_) {
    pool_->run_on(0, [this] { listener_.reset(); });
    if (replication_) replication_->stop();
    stopping_ = true;
    for (int i = 0; i < hub_count(); ++i) {
      pool_->run_on(i, [this, i] { hub(i).close_all(); });
    }
  }
  replication_.reset();
  pool_.reset();
  hubs_.clear();
}

void Node::request_stop() {
  const std::lock_guard lock(stop_mutex_);
  stop_ = true;
  stop_wake_.notify_all();
}

void Node::request_restart() {
  const std::lock_guard lock(stop_mutex_);
  restart_ = true;
  stop_wake_.notify_all();
}

Node::End Node::wait_for_end() {
  std::unique_lock lock(stop_mutex_);
  stop_wake_.wait(lock, [this] { return stop_ || restart_; });
  return stop_ ? End::kStop : End::kRestart;
}

int64_t Node::client_count() const {
  return shared_->clients.load();
}

uint64_t Node::commands_processed() const {
  uint64_t sum = 0;
  for (const auto& hub : hubs_) sum += static_cast<uint64_t>(hub->commands().get());
  return sum - commands_base_;
}

void Node::reset_stats() {
  commands_base_ += commands_processed();
  counters_.connections = 0;
  counters_.rejected = 0;
}

}  // namespace sf
