// A server for tests that records what it is asked and answers as told, as the one the contract was
// recorded with did. On a loop thread of its own; methods may be called from any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/net/loop.h"

namespace sf::codis {

// What to do with a command instead of the ordinary answer.
struct FakeRule {
  std::string command = {};  // upper case
  std::string arg1 = {};     // "" any
  std::string reply = {};    // RESP bytes; "" the ordinary answer
  int delay_ms = 0;          // replies behind it on the connection wait too
  bool drop = false;         // no reply at all
  bool close = false;        // the connection is closed instead
  int times = -1;            // -1: for ever
};

class FakeServer {
 public:
  explicit FakeServer(int port = 0);
  ~FakeServer();

  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  void rule(FakeRule rule);
  void clear_rules();
  void close_connections();
  void stop_listening();
  void listen_again();

  struct Asked {
    int connection = 0;  // 1, 2, ... in order of arrival
    std::vector<std::string> argv;
    bool operator==(const Asked&) const = default;
  };
  std::vector<Asked> asked() const;
  // The commands named (upper case), joined by blanks: "SET k v". All but PING, INFO, CONFIG,
  // SELECT and AUTH if none is named.
  std::vector<std::string> lines(const std::string& command = "") const;
  void forget();
  int connections() const;  // ever accepted
  // Waits until `enough` holds for this server; false after 10 s.
  bool wait(const std::function<bool(const FakeServer&)>& enough) const;
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key) const;  // "" if there is none

 private:
  class Connection;
  friend class Connection;

  void run(const std::function<void()>& fn);
  void listen(int port);
  std::string answer(const std::vector<std::string>& argv);
  bool take_rule(const std::vector<std::string>& argv, FakeRule* rule);

  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  int port_ = 0;
  // Loop thread.
  std::unique_ptr<Listener> listener_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  int accepted_ = 0;
  // Under the mutex.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<FakeRule> rules_;
  std::vector<Asked> asked_;
  std::map<std::string, std::string> values_;
  int ever_ = 0;
};

}  // namespace sf::codis
