// One pipelined connection of a worker to one database of one server. Replies are matched to
// requests by order alone, so any doubt about the order ends the connection, with an error for each
// request on it; nothing is sent twice (I4).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "common/net/loop.h"
#include "common/resp/reply_parser.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class Worker;

class BackendConn final : public StreamHandler {
 public:
  BackendConn(Worker& worker, Side side, int db, BackendAddress address);
  ~BackendConn() override;
  BackendConn(const BackendConn&) = delete;
  BackendConn& operator=(const BackendConn&) = delete;

  // Takes the record over: it is completed with the reply, or with an error. `raw` is one request.
  void send(std::string_view raw, Pending* record);
  // Dials if there is no connection yet.
  void warm();
  bool is_congested() const { return congested_; }
  // Reads on, after it waited for a slow client that alone had asked something here.
  void go_on();
  // How often a connection was lost or could not be made: what a server knew of it is gone then.
  uint64_t breaks() const { return breaks_; }
  Side side() const { return side_; }
  int db() const { return db_; }
  // No more requests will come: closes when the last is answered, and is removed by the worker.
  void retire();
  // Likewise, and another server has taken this one's place: a write on the way has no owner that
  // could acknowledge it (I1), so everything ends with an error if there is one. Reads are
  // answered.
  void leave();
  // The same server under another password or a newly known identity: for the next connection. What
  // goes over this one keeps its order (I5).
  void rename(const BackendAddress& address) { address_ = address; }
  bool is_idle() const { return head_ == nullptr; }
  const BackendAddress& address() const { return address_; }

  void on_connected() override;
  size_t on_data(std::string_view unread) override;
  void on_drained() override;
  void on_closed(const Status& why) override;

 private:
  enum class State { kIdle, kConnecting, kHandshake, kReady, kBackoff };
  enum class Step { kLogin, kName, kIdentity, kRole };  // of the handshake

  void dial();
  void start_ready();
  size_t read_handshake(std::string_view unread);
  // Why a reply of the handshake ends the connection; "" if it does not.
  std::string objection(Step step, std::string_view reply);
  size_t pass_front(std::string_view scanned);
  bool serves_one_client() const;
  void wait_for_client();
  void answer(std::string_view reply);
  void fail(const std::string& why);  // ends the connection: an error to every request on it
  void back_off();
  void push(Pending* record);
  Pending* pop();
  void arm_timeout(int64_t delay_us);
  void check_timeout();
  std::string name() const;

  Worker& worker_;
  const Side side_;
  const int db_;
  BackendAddress address_;
  std::unique_ptr<Stream> stream_;
  State state_ = State::kIdle;
  ReplyParser parser_;
  Pending* head_ = nullptr;
  Pending* tail_ = nullptr;
  std::string waiting_;         // requests taken before the connection was ready
  std::deque<Step> handshake_;  // whose answers come before those of requests
  int64_t last_heard_us_ = 0;   // the timeout is for silence while something is asked
  bool is_overdue_ = false;
  int failures_ = 0;
  size_t in_flight_ = 0;
  uint64_t breaks_ = 0;
  bool congested_ = false;
  bool is_waiting_ = false;  // not read: see go_on()
  bool retired_ = false;
  std::string last_error_;
  TimerId timeout_timer_ = 0;
  TimerId redial_timer_ = 0;
};

}  // namespace sf
