#include "common/net/uv_loop.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/net/uv_internal.h"

namespace sf {
namespace {

constexpr int kAcceptsATurn = 64;
constexpr int64_t kAcceptRestUs = 100'000;

// The owner's half of a UvConn.
class UvStream : public Stream {
 public:
  explicit UvStream(UvConn* conn) : conn_(conn) {}
  ~UvStream() override { conn_->released(); }

  void write(std::string_view bytes) override { conn_->output().append(bytes); }
  std::string& output() override { return conn_->output(); }
  size_t unsent_bytes() const override { return conn_->unsent(); }
  void set_marks(size_t low, size_t high) override { conn_->set_marks(low, high); }
  void pause_reading() override { conn_->pause(); }
  void resume_reading() override { conn_->resume(); }
  void close() override { conn_->shut(); }
  void close_after_flush() override { conn_->close_after_flush(); }
  std::string peer() const override { return conn_->peer(); }
  std::string local() const override { return conn_->local(); }
  uint64_t bytes_in() const override { return conn_->bytes_in(); }
  uint64_t bytes_out() const override { return conn_->bytes_out(); }

 private:
  UvConn* conn_;
};

class UvListener : public Listener {
 public:
  explicit UvListener(std::shared_ptr<UvPort> port) : port_(std::move(port)) {}
  ~UvListener() override { port_->shut(); }
  int port() const override { return port_->port(); }

 private:
  std::shared_ptr<UvPort> port_;
};

template <class Handle>
uv_handle_t* as_handle(Handle* handle) {
  return reinterpret_cast<uv_handle_t*>(handle);
}

}  // namespace

// ---- accepted sockets and listening ports

UvAccepted::~UvAccepted() {
  if (fd_ >= 0) ::close(fd_);
}

int UvAccepted::take() {
  return std::exchange(fd_, -1);
}

UvPort::UvPort(UvLoop* loop, int fd, std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept)
    : loop_(loop), fd_(fd), port_(local_address(fd).port()), on_accept_(std::move(on_accept)) {
  SF_CHECK(uv_poll_init(loop_->uv(), &poll_, fd_) == 0);
  poll_.data = this;
  watch();
}

void UvPort::watch() {
  uv_poll_start(&poll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
    static_cast<UvPort*>(handle->data)->accept_some();
  });
}

void UvPort::accept_some() {
  for (int i = 0; i < kAcceptsATurn && open_; ++i) {
    SocketAddress peer;
    const int fd = accept_one(fd_, &peer);
    if (fd < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) rest();
      return;
    }
    on_accept_(std::make_unique<UvAccepted>(fd, peer.text()));
  }
}

// Out of descriptors: the waiting connection keeps the socket readable, and the loop would spin.
void UvPort::rest() {
  uv_poll_stop(&poll_);
  rest_ = loop_->call_after(kAcceptRestUs, [this] {
    rest_ = 0;
    watch();
  });
}

void UvPort::shut() {
  if (!open_) return;
  open_ = false;
  loop_->cancel(rest_);
  uv_poll_stop(&poll_);
  uv_close(as_handle(&poll_), [](uv_handle_t* handle) {
    auto* self = static_cast<UvPort*>(handle->data);
    self->loop_->forget(self);
  });
  ::close(fd_);
}

// ---- the loop

UvLoop::UvLoop() {
  SF_CHECK(uv_loop_init(&uv_) == 0);
  uv_.data = this;
  SF_CHECK(uv_async_init(&uv_, &wake_, [](uv_async_t* h) {
             static_cast<UvLoop*>(h->loop->data)->take_posted();
           }) == 0);
  uv_prepare_init(&uv_, &before_poll_);
  uv_check_init(&uv_, &after_poll_);
  uv_idle_init(&uv_, &no_wait_);
  uv_timer_init(&uv_, &timer_);
  uv_prepare_start(&before_poll_, [](uv_prepare_t* h) {
    auto* self = static_cast<UvLoop*>(h->loop->data);
    self->end_turn();
    self->arm_timer();
  });
  uv_check_start(&after_poll_,
                 [](uv_check_t* h) { static_cast<UvLoop*>(h->loop->data)->end_turn(); });
}

UvLoop::~UvLoop() {
  // Functions never run may own streams of this loop: they go while it still stands.
  timers_.clear();
  std::vector<std::function<void()>>().swap(deferred_);
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  posted.clear();
  to_send_.clear();
  to_present_.clear();
  const std::vector<UvConn*> conns(conns_.begin(), conns_.end());
  for (UvConn* conn : conns) conn->shut();
  const auto ports = ports_;
  for (const auto& [port, shared] : ports) port->shut();
  uv_close(as_handle(&wake_), nullptr);
  uv_close(as_handle(&before_poll_), nullptr);
  uv_close(as_handle(&after_poll_), nullptr);
  uv_close(as_handle(&no_wait_), nullptr);
  uv_close(as_handle(&timer_), nullptr);
  uv_run(&uv_, UV_RUN_DEFAULT);
  SF_CHECK(uv_loop_close(&uv_) == 0);
  const std::vector<UvConn*> left(conns_.begin(), conns_.end());
  for (UvConn* conn : left) conn->orphan();
}

int64_t UvLoop::now_us() const {
  return static_cast<int64_t>(uv_hrtime() / 1000);
}

int64_t UvLoop::wall_ms() const {
  timeval now{};
  ::gettimeofday(&now, nullptr);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_usec / 1000;
}

TimerId UvLoop::call_after(int64_t delay_us, std::function<void()> fn) {
  return timers_.add(now_us() + std::max<int64_t>(delay_us, 0), std::move(fn));
}

void UvLoop::arm_timer() {
  const std::optional<int64_t> due = timers_.next_due();
  if (due == armed_) return;
  armed_ = due;
  if (!due) {
    uv_timer_stop(&timer_);
    return;
  }
  uv_update_time(&uv_);
  const int64_t wait_ms = (*due + 999) / 1000 - static_cast<int64_t>(uv_now(&uv_));
  const auto on_timer = [](uv_timer_t* h) {
    auto* self = static_cast<UvLoop*>(h->loop->data);
    self->armed_.reset();
    self->timers_.run_due(self->now_us());
  };
  uv_timer_start(&timer_, on_timer, static_cast<uint64_t>(std::max<int64_t>(wait_ms, 0)), 0);
}

void UvLoop::post(std::function<void()> fn) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(fn));
  }
  if (first) uv_async_send(&wake_);
}

void UvLoop::take_posted() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (auto& fn : posted) fn();
  if (stop_.load(std::memory_order_acquire)) uv_stop(&uv_);
}

void UvLoop::defer(std::function<void()> fn) {
  deferred_.push_back(std::move(fn));
}

void UvLoop::end_turn() {
  while (!deferred_.empty()) {
    std::vector<std::function<void()>> batch;
    batch.swap(deferred_);
    for (auto& fn : batch) fn();
  }
  if (to_send_.empty()) return;
  std::vector<UvConn*> batch;
  batch.swap(to_send_);
  for (UvConn* conn : batch) conn->end_of_turn();
  if (to_send_.empty()) {
    // Keeps the list's memory: this is the hot path.
    batch.clear();
    batch.swap(to_send_);
  }
  if (!to_send_.empty() || !deferred_.empty()) wake_next_turn();
}

void UvLoop::wake_next_turn() {
  if (waking_) return;
  waking_ = true;
  uv_idle_start(&no_wait_, [](uv_idle_t* h) { static_cast<UvLoop*>(h->loop->data)->next_turn(); });
}

void UvLoop::next_turn() {
  waking_ = false;
  uv_idle_stop(&no_wait_);
  std::vector<UvConn*> batch;
  batch.swap(to_present_);
  for (UvConn* conn : batch) conn->present();
}

Result<std::unique_ptr<Listener>> UvLoop::listen(
    const std::string& bind, int port,
    std::function<void(std::unique_ptr<AcceptedSocket>)> on_accept) {
  auto address = numeric_address(bind, port);
  if (!address) return address.status().with_context(cat("cannot listen on ", bind, ":", port));
  auto fd = open_listening(*address);
  if (!fd) return fd.status();
  auto listening = std::make_shared<UvPort>(this, *fd, std::move(on_accept));
  ports_.emplace(listening.get(), listening);
  return std::unique_ptr<Listener>(std::make_unique<UvListener>(std::move(listening)));
}

std::unique_ptr<Stream> UvLoop::adopt(std::unique_ptr<AcceptedSocket> socket,
                                      StreamHandler* handler) {
  auto* accepted = static_cast<UvAccepted*>(socket.get());
  auto* conn = new UvConn(this, handler);
  conns_.insert(conn);
  conn->start_adopted(accepted->take(), accepted->peer());
  return std::make_unique<UvStream>(conn);
}

std::unique_ptr<Stream> UvLoop::connect(const std::string& host, int port, int64_t timeout_us,
                                        StreamHandler* handler) {
  auto* conn = new UvConn(this, handler);
  conns_.insert(conn);
  conn->start_connect(host, port, timeout_us);
  return std::make_unique<UvStream>(conn);
}

void UvLoop::run() {
  if (!stop_.load(std::memory_order_acquire)) uv_run(&uv_, UV_RUN_DEFAULT);
  stop_.store(false, std::memory_order_release);
}

void UvLoop::stop() {
  stop_.store(true, std::memory_order_release);
  uv_async_send(&wake_);
}

std::unique_ptr<Loop> make_uv_loop() {
  return std::make_unique<UvLoop>();
}

}  // namespace sf
