// The sessions of one loop, and what they share. Everything on the loop's thread, but post-like
// calls that say so.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <unordered_map>

#include "common/net/loop.h"
#include "common/ops/log.h"
#include "common/ops/metrics.h"
#include "storage_node/engine/engine.h"
#include "storage_node/server/client_session.h"

namespace sf {

class SessionHub {
 public:
  // `needs_password` is asked for each new connection; `clients` counts the sessions of all hubs.
  struct Shared {
    std::function<bool()> needs_password;
    std::atomic<uint64_t> next_id{1};
    std::atomic<int64_t> clients{0};
  };
  SessionHub(Loop& loop, Engine& engine, Dispatcher& dispatcher, Shared& shared, bool sync_always,
             Log log);
  ~SessionHub();

  void add(std::unique_ptr<AcceptedSocket> socket);
  void reject(std::unique_ptr<AcceptedSocket> socket);  // one client too many: says so and closes
  ClientSession* find(uint64_t id);
  // Destroys the session now (from within its stream's handler) or at the turn's end.
  void remove(uint64_t id);
  void remove_later(uint64_t id);
  void close_all();
  void for_each(const std::function<void(ClientSession&)>& fn);

  // With sync `always`: what was committed in this loop turn is on disk before any reply of the
  // turn is sent. If the disk refuses, all connections are closed without those replies.
  void sync_before_replies();

  Loop& loop() { return loop_; }
  const Log& log() const { return log_; }
  Cell& commands() { return commands_; }

 private:
  Loop& loop_;
  Engine& engine_;
  Dispatcher& dispatcher_;
  Shared& shared_;
  const bool sync_always_;
  Log log_;
  bool sync_asked_ = false;
  std::unordered_map<uint64_t, std::unique_ptr<ClientSession>> sessions_;
  Cell commands_;  // read by any thread
};

}  // namespace sf
