// The proxy's slot table and the shared connections behind it. Loop thread.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/status.h"
#include "tests/support/codis/proxy_slot.h"

namespace sf::codis {

constexpr int kSlots = 1024;

class Router {
 public:
  Router(Loop& loop, const ProxyOptions& options);
  ~Router();

  Slot& slot(int id) { return slots_[static_cast<size_t>(id)]; }
  int random_slot() { return static_cast<int>(random_.below(kSlots)); }
  // The connection to a server by its address string, nullptr unless it is healthy (3.2).
  BackendConn* by_address(const std::string& address, int database);
  // The connection for a read that may go to a replica, else the primary's (1.7).
  BackendConn& conn_for(Slot& slot, bool replica_allowed, int database, size_t seed);

  // Applies the slots one by one, in order: each is held, drained, switched and, unless locked, let
  // go. The first bad one ends it; the earlier ones stay applied (4.3). One fill at a time.
  void fill(std::vector<SlotFill> slots, std::function<void(Status)> done);
  // Runs `task` when no fill is going on: what needs the proxy's lock (trap 12).
  void when_unlocked(std::function<void()> task);

  // Commands that wait or migrate outlive their clients; they are kept here.
  void keep(std::shared_ptr<void> job) { jobs_.insert(std::move(job)); }
  void forget(const std::shared_ptr<void>& job) { jobs_.erase(job); }

  // Expires with the router: what a timer or posted call has to look at first.
  std::weak_ptr<void> life() const { return life_; }

 private:
  using Pool = std::map<std::string, std::unique_ptr<SharedBackend>>;

  void later(void (Router::*step)());
  void run_next();
  void end_task();
  void fill_step();
  void apply(Slot& slot, const SlotFill& fill);
  SharedBackend* retain(Pool& pool, const std::string& address);
  void release(Pool& pool, SharedBackend* backend);
  void release_all(Slot& slot);

  Loop& loop_;
  const ProxyOptions& options_;
  const std::shared_ptr<void> life_ = std::make_shared<char>();
  Random random_;
  std::array<Slot, kSlots> slots_;
  Pool primary_;
  Pool replica_;
  std::set<std::shared_ptr<void>> jobs_;

  std::deque<std::function<void()>> tasks_;  // the front one is running
  std::vector<SlotFill> filling_;
  size_t filled_ = 0;
  std::function<void(Status)> fill_done_;
};

}  // namespace sf::codis
