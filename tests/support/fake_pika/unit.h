// One replication unit of the fake Pika: a database in classic mode, a slot in sharding mode. Its
// data, its binlog with offsets as the recorded format gives them, its replicas, and, as a replica
// itself, the workers that apply what was logged. One owner thread (the server's loop).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/net/loop.h"
#include "common/resp/request_parser.h"
#include "tests/support/fake_pika/keyspace.h"

namespace sf::fake_pika {

struct Offset {
  uint32_t file = 0;
  uint64_t offset = 0;
  auto operator<=>(const Offset&) const = default;
  std::string text() const { return std::to_string(file) + " " + std::to_string(offset); }
};

// Grows as recorded: 64 KiB blocks, 8-byte fragment headers, 34-byte item headers.
class Binlog {
 public:
  struct Item {
    Offset end;
    Words argv;
  };
  explicit Binlog(uint64_t file_size) : file_size_(file_size) {}
  Offset append(const Words& argv);
  void append_at(const Offset& end, const Words& argv);  // a replica's: as the master said
  void restart_at(const Offset& at);                     // after a full copy
  void purge() { items_.clear(), first_ = at_; }
  const Offset& at() const { return at_; }
  const Offset& first() const { return first_; }  // the oldest place a replica may go on from
  const std::deque<Item>& items() const { return items_; }
  bool is_boundary(const Offset& at) const;
  uint64_t distance(const Offset& from) const;  // bytes from there to the end, as Pika computes lag

 private:
  uint64_t file_size_;
  Offset at_;
  Offset first_;
  std::deque<Item> items_;
};

// Everything that can be switched; names are those of FAKE SET. `true` is as recorded.
struct Faults {
  bool ack_before_apply = true;    // logged and acknowledged at once, applied later
  bool late_apply = true;          // what is queued at NO ONE is applied later, over client writes
  bool queue_lost_on_kill = true;  // ... and lost by kill -9
  bool ttl_lost = false;
  bool append_empty = false;
  bool timed_lost = false;  // see LogFaults
  bool ttl_short = false;
  LogFaults of_log() const { return {ttl_lost, append_empty, timed_lost, ttl_short}; }
  bool no_streams_in_copy = false;
  bool lag_by_sent = true;     // else by acknowledged
  bool wedge = false;          // SLAVEOF while a copy runs: no answer to anything any more
  bool endless_copy = false;   // PURGELOGSTO takes the active file away
  int64_t apply_delay_ms = 0;  // worker w applies an item (1 + w % 3) times this after it came
  int64_t copy_ms = 100;       // how long a full copy takes; 400 to 1400 of small servers recorded
  int64_t attach_ms = 0;       // between SLAVEOF and the first try
  int64_t leave_ms = 0;        // the first SLAVEOF NO ONE after a full copy: until its answer
};

class Unit;

// A replica's connection at the master.
struct Feed {
  std::string address;  // as the replica announces itself: ip:port
  std::string state = "SlaveNotSync";
  Offset sent, acked;
  std::function<void(const Words&)> send;
};

// A replica's connection to its master.
class Pull final : public StreamHandler {
 public:
  Pull(Unit& unit, Loop& loop, const std::string& host, int port);
  ~Pull() override;
  void on_connected() override;
  size_t on_data(std::string_view unread) override;
  void on_closed(const Status& why) override;

 private:
  void sync();
  void act(const Words& message);
  void ask_again();
  Unit& unit_;
  Loop& loop_;
  std::string host_;
  int port_;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  TimerId timer_ = 0;
  bool refuses_ = false;  // what came last; nothing after it is looked at
};

// What a unit needs of its server.
struct UnitHost {
  Loop* loop;
  Faults* faults;
  std::function<std::string()> replication_id;
  std::function<void(const std::string&)> adopt_id;  // by a replica without one
  std::function<int()> port;
  std::string password;
  int workers;
  uint64_t file_size;
};

class Unit {
 public:
  Unit(std::string name, const UnitHost* host);
  ~Unit();

  const std::string& name() const { return name_; }
  Keyspace& data() { return data_; }
  const Binlog& log() const { return log_; }
  const std::vector<std::shared_ptr<Feed>>& feeds() const { return feeds_; }
  void forget(const std::shared_ptr<Feed>& feed) { std::erase(feeds_, feed); }
  void write(const std::vector<Words>& logs);  // appended and fed

  // As a replica.
  bool is_replica() const { return !master_host_.empty(); }
  const std::string& master_host() const { return master_host_; }
  int master_port() const { return master_port_; }
  const std::string& state() const { return state_; }  // "kConnected"
  void set_state(const std::string& state) { state_ = state; }
  void follow(const std::string& host, int port, bool force);
  void leave();
  bool between_steps() const;
  bool received(const Offset& end, const Words& argv);  // false: it cannot
  void load(const Offset& at, const std::vector<Words>& commands);
  size_t queued() const;
  void crash();  // kill -9 and a start: what was queued is lost

  // As a master: a replica asks to go on from `at`. Answers through the feed.
  void serve(const std::shared_ptr<Feed>& feed, const std::string& id, const Offset& at,
             bool force);
  bool force() const { return force_; }
  void copied() {
    force_ = false;
    copied_ = true;
  }
  bool take_copied() { return std::exchange(copied_, false); }  // since it was asked last
  const UnitHost& host() const { return *host_; }

 private:
  struct Worker {
    std::deque<Words> queue;
    TimerId timer = 0;
  };
  void apply(const Words& argv);
  void run(size_t worker);
  void drain();
  void copy_to(const std::shared_ptr<Feed>& feed);
  void feed_one(Feed& feed, const Offset& end, const Words& argv);

  std::string name_;
  const UnitHost* host_;
  Keyspace data_;
  Binlog log_;
  std::vector<std::shared_ptr<Feed>> feeds_;
  std::string master_host_;
  int master_port_ = 0;
  std::string state_ = "kNoConnect";
  bool force_ = false;
  bool purged_ = false;
  bool copied_ = false;
  std::unique_ptr<Pull> pull_;
  std::vector<Worker> workers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  friend class FakePika;
};

}  // namespace sf::fake_pika
