#include "common/net/sim_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/strings.h"
#include "common/net/sim_internal.h"

namespace sf {
namespace {

constexpr int64_t kEpochWallMs = 1'700'000'000'000;
constexpr int64_t kMaxPostDelayUs = 30;
constexpr int64_t kConnectRetryUs = 200'000;

std::string numeric(const std::string& host) {
  return host == "localhost" ? "127.0.0.1" : host;
}

class SimStream : public Stream {
 public:
  explicit SimStream(SimEndPtr end) : end_(std::move(end)) {}
  ~SimStream() override { end_->released(); }
  void write(std::string_view bytes) override { end_->output().append(bytes); }
  std::string& output() override { return end_->output(); }
  size_t unsent_bytes() const override { return end_->unsent(); }
  void set_marks(size_t low, size_t high) override {
    end_->low = low;
    end_->high = high;
  }
  void pause_reading() override { end_->pause(); }
  void resume_reading() override { end_->resume(); }
  void close() override { end_->shut(); }
  void close_after_flush() override { end_->close_after_flush(); }
  std::string peer() const override { return end_->peer_text; }
  std::string local() const override { return end_->local_text; }
  uint64_t bytes_in() const override { return end_->bytes_in; }
  uint64_t bytes_out() const override { return end_->bytes_out; }

 private:
  SimEndPtr end_;
};

class SimAccepted : public AcceptedSocket {
 public:
  explicit SimAccepted(SimEndPtr end) : end_(std::move(end)) {}
  ~SimAccepted() override {
    if (end_ != nullptr) end_->shut();
  }
  std::string peer() const override { return end_->peer_text; }
  SimEndPtr take() { return std::exchange(end_, nullptr); }

 private:
  SimEndPtr end_;
};

class SimListener : public Listener {
 public:
  SimListener(SimNetwork::Core* core, std::shared_ptr<SimListening> listening)
      : core_(core), listening_(std::move(listening)) {}
  ~SimListener() override { std::erase(core_->listeners, listening_); }
  int port() const override { return listening_->port; }

 private:
  SimNetwork::Core* core_;
  std::shared_ptr<SimListening> listening_;
};

}  // namespace

SimLoop::SimLoop(SimNetwork::Core* core, std::string process)
    : core_(core), process_(std::move(process)), id_(core->next_loop++) {
  core_->loops[id_] = this;
}

SimLoop::~SimLoop() {
  timers_.clear();
  std::vector<std::function<void()>>().swap(deferred_);
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  posted.clear();
  to_send_.clear();
  if (!dead_) kill();
  for (SimEnd* end : mine_) end->orphan();
}

void SimLoop::kill() {
  dead_ = true;
  core_->loops.erase(id_);
  std::erase_if(core_->listeners, [this](const auto& l) { return l->loop == this; });
  const std::vector<SimEnd*> ends(mine_.begin(), mine_.end());
  for (SimEnd* end : ends) end->die(Status::unavailable("connection reset by the peer"));
}

int64_t SimLoop::wall_ms() const {
  const auto jump = core_->wall_jumps_ms.find(process_);
  return kEpochWallMs + core_->now_us / 1000 +
         (jump == core_->wall_jumps_ms.end() ? 0 : jump->second);
}

TimerId SimLoop::call_after(int64_t delay_us, std::function<void()> fn) {
  const int64_t due = core_->now_us + std::max<int64_t>(delay_us, 0);
  const TimerId id = timers_.add(due, std::move(fn));
  core_->schedule(due, this, [this] { timers_.run_due(core_->now_us); });
  return id;
}

void SimLoop::post(std::function<void()> fn) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(fn));
}

void SimLoop::schedule_posted() {
  if (posts_scheduled_) return;
  {
    const std::lock_guard lock(mutex_);
    if (posted_.empty()) return;
  }
  posts_scheduled_ = true;
  const auto delay = static_cast<int64_t>(core_->random.below(kMaxPostDelayUs + 1));
  core_->schedule(core_->now_us + delay, this, [this] { take_posted(); });
}

void SimLoop::take_posted() {
  posts_scheduled_ = false;
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (auto& fn : posted) fn();
}

void SimLoop::ensure_turn() {
  if (!in_turn_) core_->schedule(core_->now_us, this, [] {});
}

void SimLoop::defer(std::function<void()> fn) {
  if (deferred_.empty()) ensure_turn();
  deferred_.push_back(std::move(fn));
}

void SimLoop::send_later(const SimEndPtr& end) {
  if (end->to_send) return;
  end->to_send = true;
  if (to_send_.empty()) ensure_turn();
  to_send_.push_back(end);
}

void SimLoop::turn(const std::function<void()>& fn) {
  in_turn_ = true;
  fn();
  while (!deferred_.empty() && !dead_) {
    std::vector<std::function<void()>> batch;
    batch.swap(deferred_);
    for (auto& deferred : batch) deferred();
  }
  in_turn_ = false;  // what handlers write while output is sent goes out in the next turn
  std::vector<SimEndPtr> batch;
  batch.swap(to_send_);
  for (const SimEndPtr& end : batch) {
    end->to_send = false;
    end->flush();
  }
}

Result<std::unique_ptr<Listener>> SimLoop::listen(
    const std::string& bind, int port,
    std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept) {
  const std::string host = numeric(bind);
  if (port == 0) port = core_->next_port++;
  for (const auto& l : core_->listeners) {
    const bool same = l->host == host || l->host == "0.0.0.0" || host == "0.0.0.0";
    if (l->port == port && same) {
      return Status::exists(cat("cannot listen on ", bind, ":", port,
                                ": another program has this port; stop it or choose another port"));
    }
  }
  auto listening =
      std::make_shared<SimListening>(SimListening{host, port, this, std::move(on_accept)});
  core_->listeners.push_back(listening);
  return std::unique_ptr<Listener>(std::make_unique<SimListener>(core_, listening));
}

std::unique_ptr<Stream> SimLoop::adopt(std::unique_ptr<AcceptedSocket> socket,
                                       StreamHandler* handler) {
  SimEndPtr end = static_cast<SimAccepted*>(socket.get())->take();
  end->bind(this, handler);
  return std::make_unique<SimStream>(std::move(end));
}

std::unique_ptr<Stream> SimLoop::connect(const std::string& host, int port, int64_t timeout_us,
                                         StreamHandler* handler) {
  auto end = std::make_shared<SimEnd>(core_, process_);
  end->peer_text = cat(numeric(host), ":", port);
  end->local_text = cat("127.0.0.1:", core_->next_port++);
  end->bind(this, handler);
  core_->ends.push_back(end);
  const std::weak_ptr<SimEnd> weak = end;
  end->timer = call_after(timeout_us, [weak, timeout_us] {
    const SimEndPtr self = weak.lock();
    if (self == nullptr) return;
    self->fail(Status::timeout(
        cat("cannot connect to ", self->peer_text, ": no answer in ", timeout_us / 1000, " ms")));
  });
  core_->schedule(core_->now_us + core_->latency(), this,
                  [this, end, host, port] { syn(end, numeric(host), port); });
  return std::make_unique<SimStream>(std::move(end));
}

// The attempt reaches the other host. It runs as a turn of the connecting loop; accepting is a turn
// of the listening one.
void SimLoop::syn(const SimEndPtr& client, const std::string& host, int port) {
  if (!client->connecting()) return;
  const auto listening = core_->listening(host, port);
  const auto again = [this, client, host, port] { syn(client, host, port); };
  if (listening == nullptr) {
    if (!core_->knows_host(host)) return;  // nobody answers
    return client->fail(
        Status::unavailable(cat("cannot connect to ", client->peer_text, ": Connection refused")));
  }
  if (core_->parted(process_, listening->loop->process())) {
    return core_->schedule(core_->now_us + kConnectRetryUs, this, again);
  }
  auto server = std::make_shared<SimEnd>(core_, listening->loop->process());
  server->peer_text = client->local_text;
  server->local_text = client->peer_text;
  core_->ends.push_back(server);
  server->established(client);
  server->connected();
  client->established(server);
  // A box: functions are copyable, the socket is not.
  auto box = std::make_shared<std::unique_ptr<AcceptedSocket>>(
      std::make_unique<SimAccepted>(std::move(server)));
  core_->schedule(core_->now_us, listening->loop, [core = core_, listening, box] {
    const auto& all = core->listeners;
    if (std::find(all.begin(), all.end(), listening) == all.end()) return;
    listening->on_accept(std::move(*box));
  });
  core_->schedule(core_->now_us + core_->latency(), this, [client] { client->connected(); });
}

void SimLoop::run() {
  while (!stop_.load(std::memory_order_acquire) && core_->step()) {
  }
  stop_.store(false, std::memory_order_release);
}

}  // namespace sf
