#include "storage_node/node_main.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "common/base/strings.h"
#include "common/ops/log.h"
#include "common/ops/process.h"
#include "storage_node/node.h"
#include "storage_node/replica/replica_service.h"

namespace sf {

namespace {

void register_all(CommandRegistry& registry) {
  register_strings(registry);
  register_keys(registry);
  register_hashes(registry);
  register_lists(registry);
  register_sets(registry);
  register_zsets(registry);
  register_connection(registry);
  register_server(registry);
  register_transactions(registry);
  register_pubsub(registry);
  register_slots(registry);
  register_replication(registry);
}

// SIGTERM and SIGINT, which may come before the node is there, or between two.
class Stopper {
 public:
  Stopper() : signals_([this] { stop(); }) {}

  Node::End wait_for_end(Node& node) {
    {
      const std::lock_guard lock(mutex_);
      running_ = &node;
      if (stopped_) node.request_stop();
    }
    const Node::End end = node.wait_for_end();
    const std::lock_guard lock(mutex_);
    running_ = nullptr;
    return end;
  }
  // True: it was asked for.
  bool wait(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return wake_.wait_for(lock, time, [this] { return stopped_; });
  }

 private:
  void stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
    if (running_ != nullptr) running_->request_stop();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  Node* running_ = nullptr;
  bool stopped_ = false;
  const StopSignals signals_;  // last: calls stop()
};

// After a full disk. If it has filled up again meanwhile, there is nothing to serve reads from
// until there is space. Null: asked to stop.
Result<std::unique_ptr<Node>> start_again(NodeConfig& config, const NodeParts& parts,
                                          const Log& log, Stopper& stopper) {
  for (;;) {
    Result<std::unique_ptr<Node>> node = Node::start(config, parts, log);
    if (node || node.status().code() != Code::kNoSpace) return node;
    log.error(cat(node.status().text(), "; trying again every second"));
    if (stopper.wait(std::chrono::seconds(1))) return std::unique_ptr<Node>();
  }
}

int fail(const Status& status) {
  std::fprintf(stderr, "slotferry-node: %s\n", status.text().c_str());
  return 1;
}

}  // namespace

int node_main(int argc, char** argv, std::function<void(EngineOptions&)> adjust_engine) {
  NodeConfig config;
  const Status parsed = config.parse(argc, argv);
  if (!parsed) return fail(parsed);
  if (config.done()) return 0;
  const Result<LogLevel> level = parse_log_level(config.text("loglevel"));
  Result<std::shared_ptr<LogSink>> sink = open_log(config.text("logfile"), *level);
  if (!sink) return fail(sink.status());

  Stopper stopper;
  NodeParts parts{register_all, make_replication, std::move(adjust_engine)};
  const Log log(std::move(*sink), "node");
  Result<std::unique_ptr<Node>> node = Node::start(config, parts, log);
  if (!node) return fail(node.status());
  print_ready("slotferry-node", cat(config.text("bind"), ":", (*node)->port()));
  while (stopper.wait_for_end(**node) == Node::End::kRestart) {
    parts.port = (*node)->port();
    node->reset();
    node = start_again(config, parts, log, stopper);
    if (!node) return fail(node.status());
    if (!*node) return 0;
    log.info(cat("serving again on port ", parts.port));
  }
  return 0;
}

}  // namespace sf
