// A Pika for tests: a RESP server that keeps its data in memory and replicates to others of its
// kind, with the fields, states and faults recorded from real servers (3.5.5 classic, 3.4.0
// sharding). FAKE commands switch faults and stage what cannot be had by waiting:
//
//   FAKE SET <switch> <value>     see Faults
//   FAKE CRASH                    kill -9 and a start with what CONFIG REWRITE left
//   FAKE LATE <ms> <command...>   a write of a connection that is gone, executed that much later
//   FAKE ON <command> <n> <command...>   ... right after the n-th <command> from now on
//   FAKE SILENT <command>|no      requests of that name are neither executed nor answered until
//   "no" FAKE QUEUED                   items logged and not applied
//
// On a loop thread of its own; public methods may be called from any thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/net/loop.h"
#include "tests/support/fake_pika/unit.h"

namespace sf::fake_pika {

struct PikaOptions {
  int port = 0;
  int announced_port = 0;  // what it calls itself towards its master; 0: `port`
  std::string version = "3.5.5";
  bool sharding = false;
  int databases = 1;
  int slot_num = 1024;
  int sync_threads = 6;
  uint64_t binlog_file_size = 104'857'600;
  std::string password;
  std::string slots;   // sharding: held from the start, "0-15"
  int process_id = 0;  // the same in every life, as in a container; 0: another in each
};

class FakePika {
 public:
  explicit FakePika(PikaOptions options);
  ~FakePika();
  FakePika(const FakePika&) = delete;
  FakePika& operator=(const FakePika&) = delete;

  int port() const { return port_; }
  // Runs on the server's thread, as if a client had sent it.
  std::string call(const Words& argv);

 private:
  class Connection;
  friend class Connection;
  struct Staged {
    std::string command;
    int left = 0;
    Words argv;
  };

  void run(const std::function<void()>& fn);
  void listen(int port);
  std::string answer(Connection* connection, const Words& argv);
  std::string data_command(int db, const Words& argv);
  std::string scattered(const Words& argv);
  std::string info(const Words& argv) const;
  std::string info_server() const;
  std::string info_replication() const;
  std::string config(const Words& argv);
  std::map<std::string, std::string> settings() const;
  std::string client(const Words& argv);
  std::string slave_of(const Words& argv);
  bool leaves_slowly(const Words& argv);
  std::string leave_later(int connection_id, const Words& argv);
  void send_to(int connection_id, const std::string& reply);
  std::string cluster(const Words& argv);
  std::string cluster_slots_info(const std::string& range) const;
  std::string slots_info() const;
  std::string slots_scan(const Words& argv);
  std::string fake(const Words& argv);
  std::string sync(Connection* connection, const Words& argv);
  void acked(Connection* connection, const Words& argv);
  void crash();
  bool set_fault(const std::string& name, int64_t value);
  bool is_slave() const;
  Unit* unit_named(const std::string& name);
  Unit* unit_of(int db, const std::string& key);
  void add_slot(int slot);

  const PikaOptions options_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
  int port_ = 0;
  // Loop thread.
  Faults faults_;
  UnitHost host_;
  std::string run_id_;
  std::string replication_id_;
  std::map<int, std::unique_ptr<Unit>> units_;  // by database or slot
  std::string slotmigrate_ = "no";
  std::string slaveof_;          // as CONFIG GET says it: "host:port" or ""
  std::string written_slaveof_;  // as in the file
  std::vector<Staged> staged_;
  bool wedged_ = false;
  std::string silent_;  // name of a command that waits
  std::vector<std::pair<int, Words>> waiting_;
  int starts_ = 0;
  int64_t started_ms_ = 0;
  std::unique_ptr<Listener> listener_;
  std::map<int, std::unique_ptr<Connection>> connections_;
  int accepted_ = 0;
};

}  // namespace sf::fake_pika
