// The proxy's connections to one server: one per database index, shared by every client (contracts/
// codis 1.1-1.5). Replies are matched to requests by order alone, and a connection that dies costs
// the same failed requests, with the same texts, as it does with codis-proxy. Loop thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/strings.h"
#include "common/net/loop.h"
#include "common/resp/reply_parser.h"
#include "tests/support/codis/proxy_options.h"

namespace sf::codis {

struct Slot;

// Something stopped until a slot or a connection lets it go on.
class Waiter {
 public:
  virtual ~Waiter() = default;
  virtual void resume() = 0;
};
using Waiters = std::vector<std::weak_ptr<Waiter>>;
void wake_all(Waiters& waiters);

// One request for a backend. Answered exactly once.
class Call {
 public:
  virtual ~Call() = default;
  virtual void on_reply(std::string_view reply) = 0;   // exactly one RESP reply
  virtual void on_failure(std::string_view text) = 0;  // "backend conn reset", ...
  virtual bool worth_sending() const { return true; }  // false: a read whose client is gone

  void hold(Slot* slot);  // the slot is not drained before this call is answered
  void reply(std::string_view bytes);
  void fail(std::string_view text);

 private:
  void release();
  Slot* slot_ = nullptr;
};

class BackendConn final : public StreamHandler {
 public:
  BackendConn(Loop& loop, const ProxyOptions& options, HostPort address, int database);
  ~BackendConn() override;  // fails what is unanswered with "backend conn reset"

  // May answer `call` before it returns (a connection known to be gone).
  void send(std::string_view bytes, std::shared_ptr<Call> call);
  bool full() const;
  void when_not_full(std::weak_ptr<Waiter> waiter) { waiters_.push_back(std::move(waiter)); }
  bool healthy() const {
    return state_ >= State::kReady && !stale_;
  }  // usable by address or replica

  void tick(bool ping);

  void on_connected() override;
  size_t on_data(std::string_view unread) override;
  void on_closed(const Status& why) override;

 private:
  // In the order of a life. kIdleGone: the peer closed while nothing was due, which codis-proxy
  // does not see until it sends. kReaderGone: its reading half knows, its writing half does not.
  enum class State { kBackoff, kDialing, kHandshake, kReady, kIdleGone, kReaderGone };
  struct Queued {
    std::string bytes;
    std::shared_ptr<Call> call;
  };

  void dial();
  void dial_failed();
  void next_handshake();
  void ready();
  void handshake_reply(std::string_view reply);
  void broken(std::string_view first_text);
  void fail_queue();
  void note_stale(std::string_view reply);
  void send_keep_alive();

  Loop& loop_;
  const ProxyOptions& options_;
  const HostPort address_;
  const int database_;
  State state_ = State::kBackoff;
  bool stale_ = false;  // answered -LOADING or -MASTERDOWN: INFO instead of PING
  int handshake_step_ = 0;
  int failures_ = 0;
  TimerId retry_ = 0;
  std::unique_ptr<Stream> stream_;
  std::string local_;
  ReplyParser parser_;
  std::deque<std::shared_ptr<Call>> due_;
  std::deque<Queued> queue_;
  int64_t silent_since_us_ = 0;
  Waiters waiters_;
};

// All connections to one address. Dialled at once.
class SharedBackend {
 public:
  SharedBackend(Loop& loop, const ProxyOptions& options, const std::string& address);
  ~SharedBackend();

  const std::string& address() const { return address_; }
  const HostPort& host_port() const { return host_port_; }
  BackendConn& conn(int database, size_t seed);

  int references = 0;  // slots that name this address

 private:
  void tick();

  Loop& loop_;
  const ProxyOptions& options_;
  const std::string address_;
  HostPort host_port_;
  std::vector<std::unique_ptr<BackendConn>> conns_;
  TimerId timer_ = 0;
  int64_t next_ping_us_ = 0;
};

}  // namespace sf::codis
