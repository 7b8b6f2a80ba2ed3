#include "tests/support/test_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/support/loopback.h"

namespace sf {

namespace {
constexpr int kWaitMs = 10'000;
}

TestClient::TestClient(int port) : fd_(connect_loopback(port)) {
  SF_CHECK(fd_ >= 0);
}

TestClient::~TestClient() {
  ::close(fd_);
}

void TestClient::limit_receive_buffer(int bytes) {
  SF_CHECK(::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) == 0);
}

void TestClient::send_raw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // closed by the server: the reader will see it
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void TestClient::send(std::initializer_list<std::string_view> argv) {
  send_raw(resp::request(argv));
}

bool TestClient::fill(int timeout_ms) {
  pollfd p{fd_, POLLIN, 0};
  const int ready = ::poll(&p, 1, timeout_ms);
  if (ready <= 0) return true;
  char block[65536];
  const ssize_t n = ::recv(fd_, block, sizeof block, 0);
  if (n <= 0) return false;
  buffer_.append(block, static_cast<size_t>(n));
  return true;
}

std::string TestClient::read_raw() {
  ReplyParser parser;
  for (int quiet = 0; quiet < 2;) {
    const auto outcome = parser.parse(std::string_view(buffer_).substr(at_));
    SF_CHECK(outcome != ReplyParser::Outcome::kError);
    if (outcome == ReplyParser::Outcome::kReply) {
      std::string bytes = buffer_.substr(at_, parser.size());
      at_ += parser.size();
      if (at_ == buffer_.size() || at_ > (1U << 20)) {
        buffer_.erase(0, at_);
        at_ = 0;
      }
      return bytes;
    }
    const size_t before = buffer_.size();
    if (!fill(kWaitMs)) return {};
    if (buffer_.size() == before) ++quiet;
  }
  SF_CHECK(!"no reply within 20 s");
  return {};
}

std::optional<Reply> TestClient::try_read() {
  const std::string bytes = read_raw();
  if (bytes.empty()) return {};
  auto reply = decode_reply(bytes);
  SF_CHECK(reply.is_ok());
  return std::move(*reply);
}

Reply TestClient::read() {
  auto reply = try_read();
  SF_CHECK(reply.has_value());
  return std::move(*reply);
}

Reply TestClient::call(std::initializer_list<std::string_view> argv) {
  send(argv);
  return read();
}

bool TestClient::has_reply_within(int ms) {
  if (at_ < buffer_.size()) return true;
  fill(ms);
  return at_ < buffer_.size();
}

bool TestClient::is_closed() {
  const size_t before = buffer_.size();
  return !fill(kWaitMs) && buffer_.size() == before;
}

std::string reply_text(const Reply& reply) {
  switch (reply.type) {
    case Reply::Type::kStatus:
      return cat("+", reply.text);
    case Reply::Type::kError:
      return cat("-", reply.text);
    case Reply::Type::kInteger:
      return cat(":", reply.integer);
    case Reply::Type::kBulk:
      return cat("\"", reply.text, "\"");
    case Reply::Type::kNil:
      return "nil";
    case Reply::Type::kArray:
      break;
  }
  std::string out = "[";
  for (const auto& element : reply.elements) {
    if (out.size() > 1) out += ' ';
    out += reply_text(element);
  }
  return out + "]";
}

}  // namespace sf
