// The stand-in for codis-proxy: a data port on a loop of its own, and the admin HTTP API
// (contracts/ codis 1, 3, 4.3). Serves clients once a dashboard has said `start`. Control calls
// from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/codis/http_api.h"
#include "tests/support/codis/proxy_session.h"

namespace sf::codis {

class Proxy {
 public:
  // `on_shutdown` is called from an HTTP thread when the API asked for the end.
  Proxy(ProxyOptions options, std::function<void()> on_shutdown);
  ~Proxy();

  Status start();  // binds and serves; an error names the port
  std::string address() const;
  std::string admin_address() const;
  const std::string& token() const { return token_; }
  std::string xauth() const;

 private:
  struct OnLoop;  // what belongs to the loop thread

  template <class F>
  auto run_on_loop(F fn);
  template <class T>
  T wait_unlocked(std::function<T()> read);

  Status listen();
  void accept(std::unique_ptr<AcceptedSocket> socket);
  void serve(std::unique_ptr<AcceptedSocket> socket);
  Status go_online();
  Status fill(std::vector<SlotFill> slots);
  void add_routes();
  void add_open_routes();
  Json model() const;
  Json stats(int flags);
  Json slots();

  ProxyOptions options_;
  std::function<void()> on_shutdown_;
  const std::string start_time_;
  std::string token_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<OnLoop> on_loop_;
  std::thread loop_thread_;
  httplib::Server http_;
  std::thread http_thread_;
};

}  // namespace sf::codis
