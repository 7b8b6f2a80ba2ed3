// What the loop's behaviour tests run on: the real loop or the simulated one, and a second loop
// that runs by itself (another thread, or another simulated process).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/net/loop.h"

namespace sf {

class LoopWorld {
 public:
  virtual ~LoopWorld() = default;
  virtual const char* name() const = 0;
  virtual Loop& loop() = 0;
  virtual Loop& second() = 0;
  // Runs loop() until stop() is called on it; false if that took more than ten seconds.
  bool run();
};

std::unique_ptr<LoopWorld> make_uv_world();
std::vector<std::unique_ptr<LoopWorld>> all_worlds();

// A handler made of functions; counts what it was told.
struct Peer : StreamHandler {
  std::unique_ptr<Stream> stream;
  std::function<void()> connected;
  std::function<size_t(std::string_view)> data;
  std::function<void()> drained;
  std::function<void(const Status&)> closed;
  int closed_calls = 0;
  Status why;

  void on_connected() override {
    if (connected) connected();
  }
  size_t on_data(std::string_view unread) override { return data ? data(unread) : unread.size(); }
  void on_drained() override {
    if (drained) drained();
  }
  void on_closed(const Status& status) override {
    ++closed_calls;
    why = status;
    if (closed) closed(status);
  }
};

// A listener on a free port that keeps every accepted connection as a Peer.
struct Server {
  Server(Loop& where, std::function<void(Peer&)> on_peer);
  std::vector<std::unique_ptr<Peer>> peers;
  std::unique_ptr<Listener> listener;
  int port() const { return listener->port(); }
};

}  // namespace sf
