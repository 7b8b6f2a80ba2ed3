#include "storage_node/node_main.h"

#include <cstdio>
#include <memory>
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

int fail(const Status& status) {
  std::fprintf(stderr, "slotferry-node: %s\n", status.text().c_str());
  return 1;
}

}  // namespace

int node_main(int argc, char** argv, std::function<void(EngineOptions&)> adjust_engine) {
  auto config = std::make_unique<NodeConfig>();
  const Status parsed = config->parse(argc, argv);
  if (!parsed) return fail(parsed);
  if (config->done()) return 0;
  const Result<LogLevel> level = parse_log_level(config->text("loglevel"));
  Result<std::shared_ptr<LogSink>> sink = open_log(config->text("logfile"), *level);
  if (!sink) return fail(sink.status());

  // Signals may come before the node is there.
  std::mutex mutex;
  Node* running = nullptr;
  bool stopped = false;
  const StopSignals signals([&] {
    const std::lock_guard lock(mutex);
    stopped = true;
    if (running != nullptr) running->request_stop();
  });
  const std::string where_bound = config->text("bind");
  Result<std::unique_ptr<Node>> node = Node::start(
      std::move(config), NodeParts{register_all, make_replication, std::move(adjust_engine)},
      Log(std::move(*sink), "node"));
  if (!node) return fail(node.status());
  {
    const std::lock_guard lock(mutex);
    running = node->get();
    if (stopped) running->request_stop();
  }
  print_ready("slotferry-node", cat(where_bound, ":", (*node)->port()));
  (*node)->wait_for_stop();
  {
    const std::lock_guard lock(mutex);
    running = nullptr;
  }
  return 0;
}

}  // namespace sf
