// A blocking RESP client for tests. Waits at most 10 s for anything, then the test program stops.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "common/resp/reply_parser.h"

namespace sf {

class TestClient {
 public:
  explicit TestClient(int port);  // 127.0.0.1
  ~TestClient();
  // Without it the kernel lets the buffer of a client that does not read grow to 32 MiB.
  void limit_receive_buffer(int bytes);
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  void send_raw(std::string_view bytes);
  void send(std::initializer_list<std::string_view> argv);
  Reply read();                     // the next reply; aborts if the connection closed
  std::optional<Reply> try_read();  // nothing if the connection closed
  std::string read_raw();           // the next reply's bytes
  Reply call(std::initializer_list<std::string_view> argv);
  bool has_reply_within(int ms);  // bytes of a reply are there
  bool is_closed();               // waits for the end of the connection; false if data comes

 private:
  bool fill(int timeout_ms);  // false: closed
  int fd_;
  std::string buffer_;
  size_t at_ = 0;  // of the first byte not read
};

// Compact text of a reply: +OK, -ERR x, :1, "bulk", nil, [a b].
std::string reply_text(const Reply& reply);

}  // namespace sf
