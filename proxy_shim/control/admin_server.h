// The admin port: RESP, one loop thread of its own, a password if one is set. A command that takes
// long holds up its own connection only. A connection whose first line is an HTTP request is handed
// on to the pages (admin_pages.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "common/net/loop.h"
#include "common/ops/log.h"
#include "proxy_shim/control/admin_commands.h"

namespace sf {

struct AdminOptions {
  std::string bind = "127.0.0.1";
  int port = 0;  // 0: any free one
  std::string password;
  size_t connections_max = 256;
};

class AdminServer {
 public:
  // Asked at each command: another plan's control may have taken over.
  using CommandsNow = std::function<std::shared_ptr<AdminCommands>()>;
  // `pages_port`: where HTTP is answered, on the loopback address; 0: nowhere.
  AdminServer(AdminOptions options, CommandsNow commands, int pages_port, Log log);
  ~AdminServer();  // stops

  Status start();
  void stop();
  int port() const { return port_; }

 private:
  class Session;
  void accept(std::unique_ptr<AcceptedSocket> socket);
  void forget(uint64_t id);

  const AdminOptions options_;
  const CommandsNow commands_;
  const int pages_port_;
  const Log log_;
  int port_ = 0;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Listener> listener_;                     // loop's thread
  std::map<uint64_t, std::unique_ptr<Session>> sessions_;  // loop's thread
  uint64_t next_session_ = 1;
  std::thread thread_;
};

}  // namespace sf
