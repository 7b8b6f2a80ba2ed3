// A real redis-server of the machine on a free port, in a folder of its own, ended with the object.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace sf {

class RedisProcess {
 public:
  // Waits until it answers PING; aborts after 10 s.
  explicit RedisProcess(const std::vector<std::string>& extra_args = {});
  ~RedisProcess();
  RedisProcess(const RedisProcess&) = delete;
  RedisProcess& operator=(const RedisProcess&) = delete;

  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  void kill_hard();  // SIGKILL, and waits for its end

 private:
  TempDir dir_;
  int port_ = 0;
  pid_t pid_ = -1;
};

int free_port();  // of the loopback address, a moment ago

}  // namespace sf
