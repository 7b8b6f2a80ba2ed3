#include <algorithm>

#include "common/net/sim_internal.h"

namespace sf {

namespace {
std::pair<std::string, std::string> in_order(const std::string& a, const std::string& b) {
  return a < b ? std::pair(a, b) : std::pair(b, a);
}
}  // namespace

void SimNetwork::Core::schedule(int64_t at_us, SimLoop* loop, std::function<void()> fn) {
  if (loop->dead()) return;
  events_.push({at_us, next_order_++, loop->id(), std::move(fn)});
}

bool SimNetwork::Core::step_until(int64_t end_us) {
  for (const auto& [id, loop] : loops) loop->schedule_posted();
  while (!events_.empty() && events_.top().at_us <= end_us) {
    const Event event = events_.top();
    events_.pop();
    const auto loop = loops.find(event.loop);
    if (loop == loops.end()) continue;
    now_us = std::max(now_us, event.at_us);
    loop->second->turn(event.fn);
    return true;
  }
  return false;
}

int64_t SimNetwork::Core::latency() {
  const auto span = static_cast<uint64_t>(options.max_latency_us - options.min_latency_us + 1);
  return options.min_latency_us + static_cast<int64_t>(random.below(span));
}

// Mostly big pieces, some small, a few that cut a request in the middle of a number.
size_t SimNetwork::Core::chunk(size_t most) {
  const uint64_t kind = random.below(16);
  const size_t limit = kind == 0 ? 8 : kind < 4 ? 1024 : 64 << 10;
  return 1 + random.below(std::min(most, limit));
}

bool SimNetwork::Core::parted(const std::string& a, const std::string& b) const {
  return partitions.contains(in_order(a, b));
}

std::shared_ptr<SimListening> SimNetwork::Core::listening(const std::string& host, int port) const {
  for (const auto& l : listeners) {
    if (l->port == port && (l->host == host || l->host == "0.0.0.0")) return l;
  }
  return nullptr;
}

bool SimNetwork::Core::knows_host(const std::string& host) const {
  return host.starts_with("127.") ||
         std::any_of(listeners.begin(), listeners.end(),
                     [&host](const auto& l) { return l->host == host; });
}

void SimNetwork::Core::poke_all() {
  std::erase_if(ends, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : ends) {
    const SimEndPtr end = weak.lock();
    if (end != nullptr && end->loop() != nullptr) {
      schedule(now_us + latency(), end->loop(), [end] { end->poke(); });
    }
  }
}

SimNetwork::SimNetwork(const SimOptions& options) : core_(std::make_unique<Core>(options)) {}

SimNetwork::~SimNetwork() = default;

std::unique_ptr<Loop> SimNetwork::make_loop(const std::string& process) {
  return std::make_unique<SimLoop>(core_.get(), process);
}

int64_t SimNetwork::now_us() const {
  return core_->now_us;
}

bool SimNetwork::step() {
  return core_->step();
}

bool SimNetwork::run_until(const std::function<bool()>& done, int64_t max_us) {
  const int64_t end = core_->now_us + max_us;
  while (!done()) {
    if (core_->now_us > end || !core_->step()) return done();
  }
  return true;
}

void SimNetwork::run_for(int64_t us) {
  const int64_t end = core_->now_us + us;
  while (core_->step_until(end)) {
  }
  core_->now_us = std::max(core_->now_us, end);
}

void SimNetwork::kill(const std::string& process) {
  std::vector<SimLoop*> victims;
  for (const auto& [id, loop] : core_->loops) {
    if (loop->process() == process) victims.push_back(loop);
  }
  for (SimLoop* loop : victims) loop->kill();
  for (const auto& weak : std::vector(core_->ends)) {  // accepted, and adopted by no loop yet
    const SimEndPtr end = weak.lock();
    if (end != nullptr && end->process() == process) {
      end->die(Status::unavailable("connection reset by the peer"));
    }
  }
}

void SimNetwork::partition(const std::string& a, const std::string& b) {
  core_->partitions.insert(in_order(a, b));
}

void SimNetwork::heal(const std::string& a, const std::string& b) {
  core_->partitions.erase(in_order(a, b));
  core_->poke_all();
}

void SimNetwork::break_connections(const std::string& a, const std::string& b) {
  for (const auto& weak : std::vector(core_->ends)) {
    const SimEndPtr end = weak.lock();
    const SimEndPtr other = end == nullptr ? nullptr : end->other();
    if (other == nullptr || in_order(a, b) != in_order(end->process(), other->process())) continue;
    end->lose_arriving();
    end->arrive_end(Status::unavailable("connection reset by the peer"));
  }
}

void SimNetwork::set_break_chance(double chance) {
  core_->options.break_chance = chance;
}

void SimNetwork::set_latency(int64_t min_us, int64_t max_us) {
  core_->options.min_latency_us = min_us;
  core_->options.max_latency_us = max_us;
}

void SimNetwork::jump_wall_ms(const std::string& process, int64_t ms) {
  core_->wall_jumps_ms[process] += ms;
}

}  // namespace sf
