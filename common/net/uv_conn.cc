#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/net/uv_internal.h"

namespace sf {
namespace {
constexpr int64_t kFlushUs = 10'000'000;  // close_after_flush: a peer that does not read
constexpr int64_t kLingerUs = 1'000'000;  // ... and one that does not close
constexpr size_t kMaxDiscard = 16 << 20;

Status read_error(int error) {
  if (error == ECONNRESET) return Status::unavailable("connection reset by the peer");
  return Status::unavailable(cat("connection lost: ", errno_text(error)));
}
}  // namespace

UvConn::UvConn(UvLoop* loop, StreamHandler* handler) : loop_(loop), handler_(handler) {
  poll_.data = this;
}

bool UvConn::open_handle(int fd) {
  fd_ = fd;
  const int rc = uv_poll_init(loop_->uv(), &poll_, fd);
  if (rc != 0) {
    fail_later(Status::io(cat("cannot watch a connection: ", uv_strerror(rc))));
    return false;
  }
  handle_open_ = true;
  return true;
}

void UvConn::start_adopted(int fd, std::string peer) {
  peer_ = std::move(peer);
  phase_ = Phase::kOpen;
  if (open_handle(fd)) poll_for_what_is_wanted();
}

void UvConn::start_connect(const std::string& host, int port, int64_t timeout_us) {
  port_ = port;
  peer_ = cat(host, ":", port);
  timer_ = loop_->call_after(timeout_us, [this, timeout_us] {
    timer_ = 0;
    fail(Status::timeout(
        cat("cannot connect to ", peer_, ": no answer in ", timeout_us / 1000, " ms")));
  });
  auto address = numeric_address(host, port);
  if (address) return begin_connect(*address);

  phase_ = Phase::kResolving;
  auto* request = new uv_getaddrinfo_t;
  request->data = this;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = AF_UNSPEC;
  const auto on_resolved = [](uv_getaddrinfo_t* done, int error, addrinfo* found) {
    auto* self = static_cast<UvConn*>(done->data);
    delete done;
    self->resolved(error, found);
    uv_freeaddrinfo(found);
  };
  const int rc = uv_getaddrinfo(loop_->uv(), request, on_resolved, host.c_str(), nullptr, &hints);
  if (rc != 0) {
    delete request;
    return fail_later(Status::unavailable(cat("cannot resolve ", host, ": ", uv_strerror(rc))));
  }
  resolving_ = true;
}

void UvConn::resolved(int error, addrinfo* found) {
  resolving_ = false;
  if (phase_ == Phase::kClosed) return free_if_unused();
  if (error != 0 || found == nullptr) {
    return fail(Status::unavailable(cat("cannot resolve ", peer_, ": ", uv_strerror(error))));
  }
  // IPv4 first: Codis and Pika deployments name hosts that listen on IPv4 alone.
  const addrinfo* chosen = found;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (a->ai_family == AF_INET) {
      chosen = a;
      break;
    }
  }
  char text[64];
  if (chosen->ai_family == AF_INET) {
    uv_ip4_name(reinterpret_cast<const sockaddr_in*>(chosen->ai_addr), text, sizeof(text));
  } else {
    uv_ip6_name(reinterpret_cast<const sockaddr_in6*>(chosen->ai_addr), text, sizeof(text));
  }
  auto address = numeric_address(text, port_);
  if (!address) return fail(address.status());
  begin_connect(*address);
}

void UvConn::begin_connect(const SocketAddress& address) {
  phase_ = Phase::kConnecting;
  auto fd = open_connecting(address);
  if (!fd) return fail_later(fd.status().with_context(cat("cannot connect to ", peer_)));
  if (open_handle(*fd)) poll_for_what_is_wanted();
}

void UvConn::connect_done() {
  const Status outcome = connect_outcome(fd_);
  if (!outcome) return fail(outcome.with_context(cat("cannot connect to ", peer_)));
  loop_->cancel(timer_);
  timer_ = 0;
  phase_ = Phase::kOpen;
  poll_for_what_is_wanted();
  if (out_.size() > 0 || closing_) mark_for_sending();
  if (handler_ != nullptr) handler_->on_connected();
}

void UvConn::poll_for_what_is_wanted() {
  int wanted = 0;
  if (phase_ == Phase::kConnecting) wanted = UV_WRITABLE;
  if (phase_ == Phase::kOpen)
    wanted = (want_read_ ? UV_READABLE : 0) | (blocked_ ? UV_WRITABLE : 0);
  if (phase_ == Phase::kLingering) wanted = UV_READABLE;
  if (phase_ == Phase::kClosed || !handle_open_ || wanted == polled_) return;
  polled_ = wanted;
  if (wanted == 0) {
    uv_poll_stop(&poll_);
    return;
  }
  uv_poll_start(&poll_, wanted, [](uv_poll_t* handle, int status, int events) {
    static_cast<UvConn*>(handle->data)->on_poll(status, events);
  });
}

void UvConn::on_poll(int status, int events) {
  // On an error condition libuv has stopped watching; reading tells which error, after the data
  // that came before it.
  if (status < 0) polled_ = 0;
  switch (phase_) {
    case Phase::kConnecting:
      return connect_done();
    case Phase::kLingering:
      return discard_some();
    case Phase::kOpen:
      break;
    case Phase::kResolving:
    case Phase::kClosed:
      return;
  }
  if (status < 0 && (paused_ || closing_)) return fail(read_error(ECONNRESET));
  if (events & UV_WRITABLE) {
    blocked_ = false;
    send_some();
  }
  if (phase_ == Phase::kOpen && (status < 0 || (events & UV_READABLE) != 0)) read_some();
  poll_for_what_is_wanted();
}

void UvConn::read_some() {
  if (closing_) return;  // by another stream's handler, after the kernel had said there is something
  if (paused_) {
    want_read_ = false;
    return;
  }
  const auto room = in_.prepare(loop_->block());
  const ssize_t n = ::recv(fd_, room.at, room.size, 0);
  if (n <= 0) {
    in_.consumed(0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    return fail(n == 0 ? Status::unavailable("connection closed by the peer") : read_error(errno));
  }
  bytes_in_ += static_cast<uint64_t>(n);
  const std::string_view unread = in_.filled(static_cast<size_t>(n));
  const size_t used = handler_->on_data(unread);
  if (phase_ == Phase::kClosed) return;
  in_.consumed(used);
}

void UvConn::present() {
  to_present_ = false;
  if (phase_ == Phase::kClosed) return free_if_unused();
  if (phase_ != Phase::kOpen || paused_ || handler_ == nullptr || in_.size() == 0) return;
  const size_t used = handler_->on_data(in_.unread());
  if (phase_ != Phase::kClosed) in_.consumed(used);
}

void UvConn::discard_some() {
  const ssize_t n = ::recv(fd_, loop_->block().data(), SharedBlock::kSize, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return poll_for_what_is_wanted();
  if (n <= 0) return shut();
  discarded_ += static_cast<size_t>(n);
  if (discarded_ > kMaxDiscard) return shut();
  poll_for_what_is_wanted();
}

std::string& UvConn::output() {
  if (phase_ == Phase::kClosed || closing_) {
    scrap_.clear();
    return scrap_;
  }
  mark_for_sending();
  return out_.text(loop_->strings());
}

void UvConn::mark_for_sending() {
  if (to_send_ || phase_ == Phase::kClosed) return;
  to_send_ = true;
  loop_->send_later(this);
}

void UvConn::end_of_turn() {
  to_send_ = false;
  if (phase_ == Phase::kClosed) return free_if_unused();
  if (failure_) return fail(std::move(*failure_));
  if (phase_ == Phase::kOpen && !blocked_) send_some();
  poll_for_what_is_wanted();
}

void UvConn::send_some() {
  was_high_ |= out_.size() > high_;
  if (out_.size() == 0) {
    out_.sent(0, loop_->strings());
  } else {
    const std::string_view unsent = out_.unsent();
    const ssize_t n = ::send(fd_, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return fail(read_error(errno));
    if (n > 0) {
      bytes_out_ += static_cast<uint64_t>(n);
      out_.sent(static_cast<size_t>(n), loop_->strings());
    }
    blocked_ = out_.size() > 0;
  }
  if (closing_) {
    if (out_.size() == 0) linger();
    return;
  }
  if (was_high_ && out_.size() <= low_) {
    was_high_ = false;
    handler_->on_drained();
  }
}

void UvConn::set_marks(size_t low, size_t high) {
  low_ = low;
  high_ = high;
}

void UvConn::pause() {
  paused_ = true;
}

void UvConn::resume() {
  if (!paused_ || phase_ == Phase::kClosed || closing_) return;
  paused_ = false;
  want_read_ = true;
  if (in_.size() > 0 && !to_present_) {
    to_present_ = true;
    loop_->present_later(this);
  }
  poll_for_what_is_wanted();
}

void UvConn::close_after_flush() {
  if (phase_ == Phase::kClosed || closing_) return;
  mark_for_sending();
  closing_ = true;
  handler_ = nullptr;
  want_read_ = false;
  if (timer_ == 0) {
    timer_ = loop_->call_after(kFlushUs, [this] {
      timer_ = 0;
      fail(Status::timeout("the peer does not read"));
    });
  }
}

// Closing while bytes from the peer lie unread makes the kernel send a reset, which takes the last
// reply away from the peer. So: say "no more", read its bytes off, and close when it closes.
void UvConn::linger() {
  phase_ = Phase::kLingering;
  ::shutdown(fd_, SHUT_WR);
  loop_->cancel(timer_);
  timer_ = loop_->call_after(kLingerUs, [this] {
    timer_ = 0;
    fail(Status::timeout("the peer does not close"));
  });
  poll_for_what_is_wanted();
}

void UvConn::fail(Status why) {
  StreamHandler* handler = handler_;
  shut();
  if (handler != nullptr && owned_) return handler->on_closed(why);
  free_if_unused();
}

void UvConn::fail_later(Status why) {
  failure_ = std::move(why);
  mark_for_sending();
}

void UvConn::shut() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  loop_->cancel(timer_);
  timer_ = 0;
  if (handle_open_) {
    uv_poll_stop(&poll_);
    uv_close(reinterpret_cast<uv_handle_t*>(&poll_), [](uv_handle_t* handle) {
      auto* self = static_cast<UvConn*>(handle->data);
      self->handle_open_ = false;
      self->free_if_unused();
    });
  }
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  polled_ = 0;
}

void UvConn::released() {
  owned_ = false;
  if (!closing_) shut();
  handler_ = nullptr;
  free_if_unused();
}

// Lists of the loop may still name it: then the loop's turn frees it.
void UvConn::free_if_unused() {
  if (owned_ || handle_open_ || resolving_ || phase_ != Phase::kClosed) return;
  if (to_send_ || to_present_) return;
  if (loop_ != nullptr) loop_->forget(this);
  delete this;
}

void UvConn::orphan() {
  to_send_ = to_present_ = false;
  UvLoop* loop = std::exchange(loop_, nullptr);
  loop->forget(this);
  free_if_unused();
}

std::string UvConn::local() const {
  return fd_ < 0 ? std::string() : local_address(fd_).text();
}

}  // namespace sf
