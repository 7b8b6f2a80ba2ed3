// The libuv loop's parts that know each other; included by common/net/uv_*.cc alone.
//
// One turn: libuv runs timers, messages and socket events; at its end (before polling, and after)
// end_turn() runs what was deferred and then sends the output of every stream written to, one
// send() a stream. What handlers do during that sending belongs to the next turn, which follows
// without waiting.
#pragma once

#include <uv.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/net/loop.h"
#include "common/net/read_buffer.h"
#include "common/net/socket.h"
#include "common/net/timer_queue.h"
#include "common/net/write_buffer.h"

namespace sf {

class UvConn;
class UvPort;

class UvLoop : public Loop {
 public:
  UvLoop();
  ~UvLoop() override;

  int64_t now_us() const override;
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
  void stop() override;

  // For UvConn and UvPort.
  uv_loop_t* uv() { return &uv_; }
  SharedBlock& block() { return block_; }
  StringPool& strings() { return strings_; }
  void send_later(UvConn* conn) { to_send_.push_back(conn); }  // once a turn: flag in the conn
  void present_later(UvConn* conn) {
    to_present_.push_back(conn);
    wake_next_turn();
  }
  void forget(UvConn* conn) { conns_.erase(conn); }
  void forget(UvPort* port) { ports_.erase(port); }

 private:
  void end_turn();
  void wake_next_turn();
  void next_turn();
  void take_posted();
  void arm_timer();

  uv_loop_t uv_;
  uv_async_t wake_;
  uv_prepare_t before_poll_;
  uv_check_t after_poll_;
  uv_idle_t no_wait_;
  uv_timer_t timer_;
  TimerQueue timers_;
  std::optional<int64_t> armed_;
  std::vector<std::function<void()>> deferred_;
  std::vector<UvConn*> to_send_;
  std::vector<UvConn*> to_present_;
  std::unordered_set<UvConn*> conns_;
  std::unordered_map<UvPort*, std::shared_ptr<UvPort>> ports_;
  SharedBlock block_;
  StringPool strings_;
  bool waking_ = false;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

// One connection. Its owner's UvStream and libuv's handle both hold it; the last one frees it, so
// that a handler may destroy its stream while the connection is on the call stack.
class UvConn {
 public:
  UvConn(UvLoop* loop, StreamHandler* handler);

  void start_adopted(int fd, std::string peer);
  void start_connect(const std::string& host, int port, int64_t timeout_us);
  void released();     // the owner's stream is gone
  void orphan();       // the loop is going; only released() may follow with an effect
  void present();      // unread bytes to the handler, after resume
  void end_of_turn();  // sends
  void shut();         // closes, tells nobody

  std::string& output();
  size_t unsent() const { return phase_ == Phase::kClosed ? 0 : out_.size(); }
  void set_marks(size_t low, size_t high);
  void pause();
  void resume();
  void close_after_flush();
  const std::string& peer() const { return peer_; }
  std::string local() const;
  uint64_t bytes_in() const { return bytes_in_; }
  uint64_t bytes_out() const { return bytes_out_; }

 private:
  enum class Phase { kResolving, kConnecting, kOpen, kLingering, kClosed };

  bool open_handle(int fd);
  void begin_connect(const SocketAddress& address);
  void resolved(int error, addrinfo* found);
  void on_poll(int status, int events);
  void connect_done();
  void read_some();
  void discard_some();
  void send_some();
  void linger();
  void fail(Status why);
  void fail_later(Status why);
  void poll_for_what_is_wanted();
  void mark_for_sending();
  void free_if_unused();

  UvLoop* loop_;
  StreamHandler* handler_;
  uv_poll_t poll_;
  int fd_ = -1;
  int polled_ = 0;  // events libuv watches
  Phase phase_ = Phase::kConnecting;
  bool handle_open_ = false;
  bool owned_ = true;
  bool resolving_ = false;
  bool paused_ = false;
  bool want_read_ = true;  // stays true while paused until an event comes: a short pause is free
  bool blocked_ = false;   // the kernel's send buffer is full
  bool was_high_ = false;
  bool closing_ = false;  // close_after_flush() was called
  bool to_send_ = false;
  bool to_present_ = false;
  TimerId timer_ = 0;  // connect or linger
  size_t low_ = 64 << 10;
  size_t high_ = 1 << 20;
  size_t discarded_ = 0;
  uint64_t bytes_in_ = 0;
  uint64_t bytes_out_ = 0;
  ReadBuffer in_;
  WriteBuffer out_;
  std::string scrap_;  // takes what is written after the end
  std::optional<Status> failure_;
  std::string peer_;
  int port_ = 0;
};

// One listening socket.
class UvPort {
 public:
  UvPort(UvLoop* loop, int fd, std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept);
  void shut();
  int port() const { return port_; }

 private:
  void watch();
  void accept_some();
  void rest();

  UvLoop* loop_;
  int fd_;
  int port_;
  uv_poll_t poll_;
  bool open_ = true;
  TimerId rest_ = 0;
  std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept_;
};

class UvAccepted : public AcceptedSocket {
 public:
  UvAccepted(int fd, std::string peer) : fd_(fd), peer_(std::move(peer)) {}
  ~UvAccepted() override;
  std::string peer() const override { return peer_; }
  int take();  // the descriptor, now the caller's

 private:
  int fd_;
  std::string peer_;
};

}  // namespace sf
