// A small RESP server for tests, on a thread of its own: keeps strings in memory and answers a
// handful of commands, unless the test's rule says otherwise (delay, silence, a break in the middle
// of a reply).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/net/loop.h"
#include "common/net/worker_pool.h"

namespace sf {

using Words = std::vector<std::string>;

struct FakeAction {
  enum class Kind {
    kReply,  // `bytes`
    kWait,   // nothing, and nothing after it on this connection, until release(); then `bytes`
    kBreak,  // `bytes`, which may be the front of a reply, then the connection is closed
    kUsual,  // the usual answer, as if there were no rule
  };
  Kind kind = Kind::kUsual;
  std::string bytes;
};
using FakeRule = std::function<FakeAction(const Words& request)>;

// Thread-safe from outside.
class FakeServer {
 public:
  explicit FakeServer(std::string password = "", int port = 0);
  ~FakeServer();
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void set_rule(FakeRule rule);  // runs on the server's thread
  void release();                // all connections that wait go on
  void close_connections();

  std::vector<Words> requests()
      const;  // every request so far but AUTH and SELECT, in order of arrival
  int64_t count(std::string_view command) const;
  // True as soon as `command` was received `n` times; false after 5 s.
  bool wait_for(std::string_view command, int64_t n) const;
  std::string value(int db, const std::string& key) const;  // "" if absent
  void set_value(int db, const std::string& key, const std::string& value);
  int64_t connections() const;

 private:
  class Conn;
  std::string usual(Conn& conn, const Words& request);
  FakeAction act(const Words& request);

  std::string password_;
  int port_ = 0;
  mutable std::mutex mutex_;
  FakeRule rule_;
  std::vector<Words> requests_;
  std::map<std::pair<int, std::string>, std::string> values_;
  std::map<int64_t, std::unique_ptr<Conn>> conns_;
  int64_t next_conn_ = 0;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<WorkerPool> pool_;
};

}  // namespace sf
