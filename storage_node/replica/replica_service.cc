#include "storage_node/replica/replica_service.h"

#include <algorithm>
#include <condition_variable>

#include "common/net/uv_loop.h"
#include "replication/follow_session.h"

namespace sf {
namespace {

constexpr int64_t kTickUs = 1'000'000;

}  // namespace

ReplicaService::ReplicaService(Engine& engine, const Clock& clock, const Log& log,
                               ReplicaOptions options)
    : options_(std::move(options)),
      core_(std::make_shared<Core>(engine, clock, log, Random::system_seed())),
      copy_rate_(std::make_shared<CopyRate>(clock, options_.settings)) {}

Result<std::unique_ptr<ReplicaService>> ReplicaService::start(Engine& engine, const Clock& clock,
                                                              Log log, ReplicaOptions options) {
  std::unique_ptr<ReplicaService> service(
      new ReplicaService(engine, clock, log, std::move(options)));
  if (Status s = service->core_->control.load(); !s) return s;
  service->loop_ = std::make_unique<WorkerPool>(1, "repl", make_uv_loop);
  ReplicaService* self = service.get();
  Loop* loop = &service->loop_->loop(0);
  {
    const std::lock_guard lock(self->core_->state.mutex);
    self->core_->state.sources_changed = [self, loop] {
      loop->post([self] {
        self->match_links();
        self->wake_feeds();  // a promote begins a history: replicas hear of it at once
      });
    };
  }
  loop->post([self] {
    self->match_links();
    self->tick();
  });
  return service;
}

ReplicaService::~ReplicaService() {
  stop();
}

void ReplicaService::stop() {
  if (stopped_) return;
  stopped_ = true;
  verb_thread_.stop();
  {
    const std::lock_guard lock(core_->state.mutex);
    core_->state.sources_changed = [] {};
  }
  loop_->run_on(0, [this] {
    loop_->loop(0).cancel(tick_timer_);
    links_.clear();
  });
  loop_.reset();
  log_thread_.stop();
  sync_thread_.stop();
  // Each feed ends on its own loop; wait for all.
  std::map<uint64_t, std::shared_ptr<Feed>> feeds;
  {
    const std::lock_guard lock(feeds_mutex_);
    feeds.swap(feeds_);
  }
  std::mutex mutex;
  std::condition_variable all_gone;
  size_t left = feeds.size();
  for (auto& [id, feed] : feeds) {
    Loop& loop = feed->loop();
    loop.post([feed = std::move(feed), &mutex, &all_gone, &left]() mutable {
      feed->close();
      feed.reset();
      const std::lock_guard lock(mutex);
      --left;
      all_gone.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  all_gone.wait(lock, [&] { return left == 0; });
}

// ---- links

FollowLimits ReplicaService::follow_limits() const {
  const ReplicaSettings settings = options_.settings();
  FollowLimits limits;
  limits.ack_us = std::min(limits.ack_us, settings.ping_us());
  limits.silence_us = settings.silence_us();
  limits.fetch_window = settings.copy_parallel + 1;  // one is asked for while the others come
  return limits;
}

FollowConfig ReplicaService::link_config() const {
  FollowConfig config;
  config.run_id = options_.run_id;
  config.port = options_.port();
  config.password = options_.masterauth();
  config.limits = follow_limits();
  return config;
}

void ReplicaService::match_links() {
  std::map<const Source*, std::shared_ptr<Source>> wanted;
  {
    const std::lock_guard lock(core_->state.mutex);
    for (const auto& [name, source] : core_->state.sources) wanted[source.get()] = source;
  }
  std::erase_if(links_, [&](const auto& item) { return !wanted.contains(item.first); });
  for (auto& [key, source] : wanted) {
    auto& link = links_[key];
    if (link) {
      link->look();
    } else {
      link = std::make_unique<Link>(
          core_->state, loop_->loop(0), source, [this] { return link_config(); },
          [](FollowConfig config, SlotPositions& positions, int64_t now_us) {
            return std::make_unique<FollowSession>(std::move(config), positions, now_us);
          });
    }
  }
}

void ReplicaService::tick() {
  core_->control.tick();
  count_replicas();
  tick_timer_ = loop_->loop(0).call_after(kTickUs, [this] { tick(); });
}

// ---- feeds

void ReplicaService::feed(wire::Sync sync, TakenConnection connection, Loop& loop) {
  FeedOptions options;
  options.run_id = options_.run_id;
  options.settings = options_.settings;
  options.copy_rate = copy_rate_;
  options.acked = [this](const FeedReport& report) { note_ack(report); };
  options.log_thread = &log_thread_;
  std::string mode = sync.full ? "all slots" : "some slots";
  std::shared_ptr<Feed> feed;
  {
    const std::lock_guard lock(feeds_mutex_);
    if (stopped_) return;
    uint64_t id = next_feed_++;
    core_->state.log.info(cat("replica ", connection.peer, " asks for ", mode));
    feed =
        std::make_shared<Feed>(id, core_->state, loop, std::move(connection), options, [this, id] {
          std::shared_ptr<Feed> last;
          core_->acks.remove(id);
          count_replicas();
          const std::lock_guard inner(feeds_mutex_);
          if (auto it = feeds_.find(id); it != feeds_.end()) {
            last = std::move(it->second);
            feeds_.erase(it);
          }
        });
    feeds_[id] = feed;
  }
  feed->start(std::move(sync));
}

void ReplicaService::wake_feeds() {
  const std::lock_guard lock(feeds_mutex_);
  for (auto& [id, feed] : feeds_) feed->wake();
}

std::vector<FeedReport> ReplicaService::feeds() const {
  std::vector<FeedReport> out;
  const std::lock_guard lock(feeds_mutex_);
  for (const auto& [id, feed] : feeds_) {
    FeedReport report = feed->report();
    if (!report.over) out.push_back(std::move(report));
  }
  return out;
}

// ---- acknowledgements

void ReplicaService::note_ack(const FeedReport& report) {
  bool online = report.state == "online" && !report.over;
  bool turned =
      core_->acks.update(report.id, {online, report.acked, report.synced, report.acked_us});
  if (turned || too_few_) count_replicas();
}

// Also from tick: acknowledgements grow old by themselves, and settings change.
void ReplicaService::count_replicas() {
  const ReplicaSettings settings = options_.settings();
  bool needed = settings.min_replicas > 0 && settings.max_lag_s > 0;
  if (!needed) {
    too_few_ = false;
    return;
  }
  int64_t since_us = core_->state.clock.mono_us() - settings.max_lag_s * 1'000'000;
  too_few_ = core_->acks.good(since_us) < settings.min_replicas;
}

void ReplicaService::ask_synced(uint64_t seq) {
  const std::lock_guard lock(feeds_mutex_);
  for (auto& [id, feed] : feeds_) feed->want_synced(seq);
}

void ReplicaService::sync_here(std::function<void(Status)> done) {
  sync_thread_.run([core = core_, done = std::move(done)] {
    const uint64_t seq = core->state.engine.last_seq();
    Status status = core->state.engine.flush_wal(true);
    if (status) core->synced_seq = std::max(core->synced_seq.load(), seq);
    done(std::move(status));
  });
}

void ReplicaService::append_info(std::string& out) {
  out += replication_info_text(core_->state, feeds());
  const ReplicaSettings settings = options_.settings();
  if (settings.min_replicas == 0 || settings.max_lag_s == 0) return;
  int64_t since_us = core_->state.clock.mono_us() - settings.max_lag_s * 1'000'000;
  out += cat("min_slaves_good_slaves:", core_->acks.good(since_us), "\r\n");
}

// ---- the node

Result<std::unique_ptr<NodeReplication>> make_replication(Node& node) {
  ReplicaOptions options;
  options.run_id = node.run_id();
  options.port = [&node] { return node.port(); };
  options.settings = [&config = node.config()] {
    ReplicaSettings settings;
    settings.ping_ms = config.integer("repl-ping-ms");
    settings.timeout_s = config.integer("repl-timeout");
    settings.copy_bytes_per_second = config.integer("slot-copy-rate");
    settings.copy_cpu_percent = config.integer("slot-copy-cpu");
    settings.copy_parallel = static_cast<int>(config.integer("repl-copy-parallel"));
    settings.output_bytes = config.integer("repl-output-limit");
    settings.min_replicas = config.integer("min-replicas-to-write");
    settings.max_lag_s = config.integer("min-replicas-max-lag");
    return settings;
  };
  options.masterauth = [&node] { return node.config().text("masterauth"); };
  auto service = ReplicaService::start(node.engine(), node.clock(),
                                       node.log().tagged("replication"), std::move(options));
  if (!service) return service.status();
  (*service)->count_replicas();
  node.config().on_change([replication = service->get()] { replication->count_replicas(); });
  std::string slaveof = node.config().text("slaveof");
  auto decided = node.engine().get_sys(std::string(kDecidedRecord));
  if (!decided) return decided.status();
  if (!slaveof.empty() && !*decided) {
    auto master = parse_host_port(slaveof);
    if (!master) {
      return Status::invalid(cat("slaveof must be host:port, not '", printable(slaveof), "'"));
    }
    if (Status s = (*service)->control().slave_of(*master); !s) return s;
  }
  return std::unique_ptr<NodeReplication>(std::move(*service));
}

}  // namespace sf
