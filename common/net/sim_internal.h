// Parts of the simulated loop that know each other; included by common/net/sim_*.cc alone.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/net/sim_loop.h"
#include "common/net/timer_queue.h"

namespace sf {

class SimEnd;
class SimLoop;
using SimEndPtr = std::shared_ptr<SimEnd>;

struct SimListening {
  std::string host;
  int port;
  SimLoop* loop;
  std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept;
};

// Time, the events to come, and who may talk to whom.
class SimNetwork::Core {
 public:
  explicit Core(const SimOptions& o) : options(o), random(o.seed) {}

  // Runs fn at `at_us` as a turn of `loop`, if that still lives then.
  void schedule(int64_t at_us, SimLoop* loop, std::function<void()> fn);
  bool step() { return step_until(INT64_MAX); }
  bool step_until(int64_t end_us);  // false: nothing left to happen by then
  int64_t latency();
  size_t chunk(size_t most);  // 1..most
  bool parted(const std::string& a, const std::string& b) const;
  std::shared_ptr<SimListening> listening(const std::string& host, int port) const;
  bool knows_host(const std::string& host) const;
  void poke_all();

  SimOptions options;
  Random random;
  int64_t now_us = 0;
  uint64_t next_loop = 1;
  int next_port = 20000;
  std::map<uint64_t, SimLoop*> loops;  // by id, so that a dead one is told from a later one
  std::vector<std::shared_ptr<SimListening>> listeners;
  std::vector<std::weak_ptr<SimEnd>> ends;
  std::set<std::pair<std::string, std::string>> partitions;
  std::map<std::string, int64_t> wall_jumps_ms;

 private:
  struct Event {
    int64_t at_us;
    uint64_t order;
    uint64_t loop;
    std::function<void()> fn;
    bool operator>(const Event& o) const {
      return std::pair(at_us, order) > std::pair(o.at_us, o.order);
    }
  };
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t next_order_ = 0;
};

class SimLoop : public Loop {
 public:
  SimLoop(SimNetwork::Core* core, std::string process);
  ~SimLoop() override;

  int64_t now_us() const override { return core_->now_us; }
  int64_t wall_ms() const override;
  TimerId call_after(int64_t delay_us, std::function<void()> fn) override;
  void cancel(TimerId id) override { timers_.cancel(id); }
  void post(std::function<void()> fn) override;
  void defer(std::function<void()> fn) override;
  Result<std::unique_ptr<Listener>> listen(
      const std::string& bind, int port,
      std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept) override;
  std::unique_ptr<Stream> adopt(std::unique_ptr<AcceptedSocket> socket,
                                StreamHandler* handler) override;
  std::unique_ptr<Stream> connect(const std::string& host, int port, int64_t timeout_us,
                                  StreamHandler* handler) override;
  void run() override;
  void stop() override { stop_.store(true, std::memory_order_release); }

  const std::string& process() const { return process_; }
  uint64_t id() const { return id_; }
  SimNetwork::Core& core() { return *core_; }
  bool dead() const { return dead_; }
  void kill();
  void turn(const std::function<void()>& fn);
  void schedule_posted();  // posts of any thread become an event
  void send_later(const SimEndPtr& end);
  void belongs(SimEnd* end) { mine_.insert(end); }
  void forget(SimEnd* end) { mine_.erase(end); }

 private:
  void syn(const SimEndPtr& client, const std::string& host, int port);
  void take_posted();
  void ensure_turn();

  SimNetwork::Core* core_;
  std::string process_;
  uint64_t id_;
  bool dead_ = false;
  bool in_turn_ = false;
  TimerQueue timers_;
  std::vector<std::function<void()>> deferred_;
  std::vector<SimEndPtr> to_send_;
  std::set<SimEnd*> mine_;
  std::atomic<bool> stop_{false};
  bool posts_scheduled_ = false;

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

// One side of a connection. What is under way to it waits in its own `arriving` queue.
class SimEnd : public std::enable_shared_from_this<SimEnd> {
 public:
  SimEnd(SimNetwork::Core* core, std::string process) : core_(core), process_(std::move(process)) {}
  ~SimEnd();

  void bind(SimLoop* loop, StreamHandler* handler);
  void orphan() { loop_ = nullptr; }  // the loop is going
  void established(const SimEndPtr& other);
  void connected();  // client side: the answer came
  void fail(const Status& why);
  void shut();  // closes: the other side learns it, the owner does not
  void die(const Status& told_to_peer);
  void released();
  void poke();  // takes what has arrived
  void present();
  void flush();
  void lose_arriving() {
    arriving_.clear();
    arriving_bytes_ = 0;
  }
  void arrive_end(const Status& why);  // the last thing that arrives

  std::string& output();
  void pause() { paused_ = true; }
  void resume();
  void close_after_flush();

  SimLoop* loop() const { return loop_; }
  SimEndPtr other() const { return other_.lock(); }
  const std::string& process() const { return process_; }
  bool open() const { return state_ != State::kClosed; }
  bool connecting() const { return state_ == State::kConnecting; }

  std::string peer_text;
  std::string local_text;
  size_t low = 64 << 10;
  size_t high = 1 << 20;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  TimerId timer = 0;
  bool to_send = false;
  size_t unsent() const { return state_ == State::kClosed ? 0 : out_.size() - sent_; }

 private:
  enum class State { kConnecting, kOpen, kClosed };
  struct Segment {
    int64_t at_us;
    std::string bytes;
    bool end = false;
    Status why;
  };
  void arrive(std::string bytes);
  void arrive_segment(Segment segment);
  void poke_at(int64_t at_us);
  bool may_arrive() const;

  SimNetwork::Core* core_;
  std::string process_;
  SimLoop* loop_ = nullptr;
  StreamHandler* handler_ = nullptr;
  std::weak_ptr<SimEnd> other_;
  SimEndPtr keep_;  // itself, while output remains after the owner let go
  State state_ = State::kConnecting;
  bool paused_ = false;
  bool closing_ = false;
  bool owned_ = false;
  bool was_high_ = false;
  std::string out_;
  size_t sent_ = 0;  // of out_
  std::string in_;
  std::string scrap_;
  std::deque<Segment> arriving_;
  size_t arriving_bytes_ = 0;
};

}  // namespace sf
