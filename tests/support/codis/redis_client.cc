#include "tests/support/codis/redis_client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/resp/encoder.h"

namespace sf::codis {
namespace {

constexpr int kDialMs = 1000;

int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Waits for `events`; false at the deadline.
bool wait_for(int fd, short events, int64_t deadline_us) {
  pollfd poll_fd{fd, events, 0};
  while (true) {
    const int64_t left_ms = (deadline_us - now_us() + 999) / 1000;
    if (left_ms <= 0) return false;
    const int rc = ::poll(&poll_fd, 1, static_cast<int>(left_ms));
    if (rc > 0) return true;
    if (rc == 0 || errno != EINTR) return false;
  }
}

std::string local_name(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  char text[INET_ADDRSTRLEN] = "";
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
  return cat(text, ":", ntohs(address.sin_port));
}

Result<int> open_socket(const std::string& address, int timeout_ms) {
  const std::string dial = cat("dial tcp ", address, ": ");
  const auto host_port = parse_host_port(address);
  if (!host_port) return Status::unavailable(cat(dial, "missing port in address"));
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(host_port->port);
  if (getaddrinfo(host_port->host.c_str(), port.c_str(), &hints, &found) != 0) {
    return Status::unavailable(cat(dial, "lookup ", host_port->host, ": no such host"));
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int rc = ::connect(fd, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  int error = rc == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    if (!wait_for(fd, POLLOUT, now_us() + timeout_ms * 1000LL)) {
      error = ETIMEDOUT;
    } else {
      socklen_t size = sizeof(error);
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) {
    ::close(fd);
    if (error == ETIMEDOUT) return Status::timeout(cat(dial, "i/o timeout"));
    if (error == ECONNREFUSED) return Status::unavailable(cat(dial, "connect: connection refused"));
    return Status::unavailable(cat(dial, "connect: ", std::strerror(error)));
  }
  const int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return fd;
}

}  // namespace

RedisClient::RedisClient(int fd, std::string name, int timeout_ms)
    : fd_(fd), name_(std::move(name)), timeout_ms_(timeout_ms) {}

RedisClient::~RedisClient() {
  ::close(fd_);
}

Result<std::unique_ptr<RedisClient>> RedisClient::dial(const std::string& address,
                                                       const std::string& password,
                                                       int timeout_ms) {
  const auto fd = open_socket(address, std::min(kDialMs, timeout_ms));
  if (!fd) return fd.status();
  std::unique_ptr<RedisClient> client(
      new RedisClient(*fd, cat(local_name(*fd), "->", address), timeout_ms));
  if (!password.empty()) {
    const auto reply = client->call({"AUTH", password});
    if (!reply) return reply.status();
  }
  return client;
}

Status RedisClient::fail(Status why) {
  broken_ = true;
  return why;
}

Status RedisClient::send(const std::string& bytes) {
  deadline_us_ = now_us() + timeout_ms_ * 1000LL;
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_for(fd_, POLLOUT, deadline_us_)) {
        return fail(Status::timeout(cat("write tcp ", name_, ": i/o timeout")));
      }
    } else if (errno != EINTR) {
      return fail(Status::unavailable(cat("write tcp ", name_, ": write: broken pipe")));
    }
  }
  return Status::ok();
}

Result<Reply> RedisClient::read_reply() {
  ReplyParser parser;
  while (true) {
    const auto outcome = buffer_.empty() ? ReplyParser::Outcome::kNeedMore : parser.parse(buffer_);
    if (outcome == ReplyParser::Outcome::kError) return fail(Status::corrupt(parser.error()));
    if (outcome == ReplyParser::Outcome::kReply) {
      auto reply = decode_reply(std::string_view(buffer_).substr(0, parser.size()));
      buffer_.erase(0, parser.size());
      return reply;
    }
    if (!wait_for(fd_, POLLIN, deadline_us_)) {
      return fail(Status::timeout(cat("read tcp ", name_, ": i/o timeout")));
    }
    char block[65536];
    const ssize_t n = ::recv(fd_, block, sizeof(block), 0);
    if (n > 0) {
      buffer_.append(block, static_cast<size_t>(n));
    } else if (n == 0) {
      return fail(Status::unavailable("EOF"));
    } else if (errno != EAGAIN && errno != EINTR) {
      return fail(Status::unavailable(cat("read tcp ", name_, ": read: connection reset by peer")));
    }
  }
}

Result<Reply> RedisClient::call(const Args& args) {
  auto replies = pipeline({args});
  if (!replies) return replies.status();
  Reply& reply = replies->front();
  if (reply.is_error()) return fail(Status::refused(reply.text));
  return std::move(reply);
}

Result<std::vector<Reply>> RedisClient::pipeline(const std::vector<Args>& requests) {
  if (broken_) return Status::unavailable("use of closed network connection");
  std::string bytes;
  for (const Args& args : requests) {
    const std::vector<std::string_view> views(args.begin(), args.end());
    resp::request(bytes, views);
  }
  if (const Status sent = send(bytes); !sent) return sent;
  std::vector<Reply> replies;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto reply = read_reply();
    if (!reply) return reply.status();
    replies.push_back(std::move(*reply));
  }
  return replies;
}

Status RedisClient::select(int database) {
  if (database == database_) return Status::ok();
  const auto reply = call({"SELECT", std::to_string(database)});
  if (!reply) return reply.status();
  database_ = database;
  return Status::ok();
}

std::vector<std::pair<std::string, std::string>> info_fields(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const auto raw : split(text, '\n')) {
    const auto line = trim(raw);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || line.starts_with('#')) continue;
    fields.emplace_back(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
  }
  return fields;
}

}  // namespace sf::codis
