// One blocking RESP connection to a server of the move, for the control plane. Kept open between
// calls; a broken one is made anew by the next call. Not thread-safe: one owner thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/resp/reply_parser.h"

struct redisContext;

namespace sf {

class RespClient {
 public:
  // `name` is given to the server by CLIENT SETNAME, so that an operator can tell our connections.
  RespClient(HostPort address, std::string password, std::string name);
  ~RespClient();
  RespClient(const RespClient&) = delete;
  RespClient& operator=(const RespClient&) = delete;

  // For servers without epochs: a request whose answer was given up on may still be executed, at
  // any later time and after what is sent on a new connection. With this, a new connection first
  // has the server end the one given up on (CLIENT KILL ID), unread requests and all. Servers
  // without CLIENT ID are asked for it by a name of its own in CLIENT LIST. Before connect().
  void end_abandoned_connections() { end_abandoned_ = true; }

  // For servers on which not even that helps (Pika executes requests after their connection has
  // ended): a connection is kept when an answer is late, and the answer is waited for before
  // anything else is sent on it, so that requests are executed in the order they were made.
  // After kLateMaxMs without one the connection is given up all the same: a peer that is gone must
  // not be waited for for ever.
  static constexpr int64_t kLateMaxMs = 15'000;
  void wait_for_late_answers() { keeps_late_ = true; }

  const HostPort& address() const { return address_; }
  bool connected() const { return context_ != nullptr; }

  // Connects and authenticates; nothing to do on a living connection. Errors name the address and,
  // for a refused password, say so (Code::kRefused).
  Status connect(int64_t timeout_ms);
  void close();

  // Sends one request and waits for its reply. An error reply is a value here (Reply::is_error). A
  // status means that no reply came: kUnavailable before anything was sent, else kTimeout, and the
  // request may have been executed.
  Result<Reply> call(const std::vector<std::string>& argv, int64_t timeout_ms);

  // As call(), and an error reply becomes Code::kRefused with the server's text.
  Result<Reply> ask(const std::vector<std::string>& argv, int64_t timeout_ms);
  // Sends all requests at once and waits for all replies, in order; `timeout_ms` for the whole. An
  // error reply is an error, of the first one.
  Result<std::vector<Reply>> ask_all(const std::vector<std::vector<std::string>>& requests,
                                     int64_t timeout_ms);
  // As ask_all(), and error replies are values.
  Result<std::vector<Reply>> call_all(const std::vector<std::vector<std::string>>& requests,
                                      int64_t timeout_ms);
  // As ask(), for requests that are answered +OK.
  Status ask_ok(const std::vector<std::string>& argv, int64_t timeout_ms);

 private:
  Status authenticate(int64_t timeout_ms);
  Status end_abandoned(int64_t timeout_ms);
  Result<int64_t> find_id(int64_t timeout_ms);
  Result<Reply> exchange(const std::vector<std::string>& argv, int64_t timeout_ms);
  Result<std::vector<Reply>> exchange_all(const std::vector<std::vector<std::string>>& requests,
                                          int64_t timeout_ms);
  Result<Reply> next_reply(const std::string& command, int64_t timeout_ms);
  Status read_late(int64_t timeout_ms);
  bool read_reply(void** raw, int64_t timeout_ms, bool* late);

  HostPort address_;
  std::string password_;
  std::string name_;
  redisContext* context_ = nullptr;
  bool end_abandoned_ = false;
  bool keeps_late_ = false;
  std::chrono::steady_clock::time_point late_since_;
  size_t late_ = 0;        // answers not yet come on this connection
  int64_t id_ = 0;         // the server's number of this connection; 0: not asked
  int64_t abandoned_ = 0;  // ... of one with a request that was never answered
};

// The value of `field:` in an INFO text; "" if it is not there.
std::string info_field(std::string_view info, std::string_view field);

// The value after `name` in a flat array of name, value, ...; nullptr if it is not there.
const Reply* flat_field(const Reply& reply, std::string_view name);

}  // namespace sf
