#include "tests/support/codis/proxy_router.h"

namespace sf::codis {

Router::Router(Loop& loop, const ProxyOptions& options)
    : loop_(loop), options_(options), random_(Random::system_seed()) {
  for (int i = 0; i < kSlots; ++i) slot(i).as_filled.id = i;
}

Router::~Router() {
  // What the dying connections still answer must not send anything.
  for (Slot& slot : slots_) {
    slot.on_drained = nullptr;
    slot.backend = nullptr;
    slot.migrate_from = nullptr;
    slot.held = false;
    slot.waiters.clear();
  }
  primary_.clear();
  replica_.clear();
}

BackendConn* Router::by_address(const std::string& address, int database) {
  for (Pool* pool : {&primary_, &replica_}) {
    const auto found = pool->find(address);
    if (found == pool->end()) continue;
    BackendConn& conn = found->second->conn(database, random_.next());
    if (conn.healthy()) return &conn;
  }
  return nullptr;
}

BackendConn& Router::conn_for(Slot& slot, bool replica_allowed, int database, size_t seed) {
  if (replica_allowed && slot.migrate_from == nullptr) {
    for (const auto& group : slot.replicas) {
      for (size_t i = 0; i < group.size(); ++i) {
        BackendConn& conn = group[(seed + i) % group.size()]->conn(database, seed);
        if (conn.healthy()) return conn;
      }
    }
  }
  return slot.backend->conn(database, seed);
}

void Router::when_unlocked(std::function<void()> task) {
  tasks_.push_back([this, task = std::move(task)] {
    task();
    run_next();
  });
  if (tasks_.size() == 1) tasks_.front()();
}

void Router::fill(std::vector<SlotFill> slots, std::function<void(Status)> done) {
  tasks_.push_back([this, slots = std::move(slots), done = std::move(done)]() mutable {
    filling_ = std::move(slots);
    fill_done_ = std::move(done);
    filled_ = 0;
    fill_step();
  });
  if (tasks_.size() == 1) tasks_.front()();
}

// Runs a step on the next turn: the caller may be inside a task, or inside a connection that the
// step closes.
void Router::later(void (Router::*step)()) {
  loop_.post([this, step, life = life()] {
    if (!life.expired()) (this->*step)();
  });
}

void Router::run_next() {
  later(&Router::end_task);
}

void Router::end_task() {
  tasks_.pop_front();
  if (!tasks_.empty()) tasks_.front()();
}

void Router::fill_step() {
  Status result;
  while (filled_ < filling_.size()) {
    const SlotFill& next = filling_[filled_];
    if (next.id < 0 || next.id >= kSlots) {
      result = Status::invalid("use of invalid slot id");
      break;
    }
    if (next.forward_method != 0 && next.forward_method != 1) {
      result = Status::invalid("use of invalid forwarder method");
      break;
    }
    Slot& target = slot(next.id);
    target.held = true;
    if (!target.drained()) {
      target.on_drained = [this] { later(&Router::fill_step); };
      return;
    }
    apply(target, next);
    ++filled_;
  }
  fill_done_(result);
  fill_done_ = nullptr;
  run_next();
}

// Releases before it retains, so an address that only this slot named is closed and dialled anew
// (1.1).
void Router::apply(Slot& slot, const SlotFill& fill) {
  release_all(slot);
  slot.as_filled = fill;
  slot.backend = retain(primary_, fill.backend_addr);
  slot.migrate_from = retain(primary_, fill.migrate_from);
  for (const auto& group : fill.replica_groups) {
    auto& servers = slot.replicas.emplace_back();
    for (const auto& address : group) servers.push_back(retain(replica_, address));
    if (servers.empty()) slot.replicas.pop_back();
  }
  slot.held = fill.locked;
  if (!slot.held) wake_all(slot.waiters);
}

void Router::release_all(Slot& slot) {
  release(primary_, slot.backend);
  release(primary_, slot.migrate_from);
  for (const auto& group : slot.replicas) {
    for (SharedBackend* server : group) release(replica_, server);
  }
  slot.replicas.clear();
}

SharedBackend* Router::retain(Pool& pool, const std::string& address) {
  if (address.empty()) return nullptr;
  auto& entry = pool[address];
  if (entry == nullptr) entry = std::make_unique<SharedBackend>(loop_, options_, address);
  ++entry->references;
  return entry.get();
}

void Router::release(Pool& pool, SharedBackend* backend) {
  if (backend == nullptr || --backend->references > 0) return;
  pool.erase(std::string(backend->address()));
}

}  // namespace sf::codis
