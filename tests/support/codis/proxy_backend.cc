#include "tests/support/codis/proxy_backend.h"

#include <algorithm>

#include "common/resp/encoder.h"
#include "tests/support/codis/proxy_slot.h"

namespace sf::codis {
namespace {

constexpr std::string_view kReset = "backend conn reset";
constexpr int kFreeRetries = 10;
constexpr int64_t kBackoffFirstUs = 50'000;
constexpr int64_t kBackoffMaxUs = 5'000'000;
constexpr int64_t kTickUs = 250'000;

class IgnoredCall final : public Call {
 public:
  void on_reply(std::string_view) override {}
  void on_failure(std::string_view) override {}
};

// The INFO that asks a stale server whether it is fine again (1.3).
class RecoveryCall final : public Call {
 public:
  explicit RecoveryCall(bool* stale) : stale_(stale) {}
  void on_reply(std::string_view reply) override {
    if (!reply.starts_with('$') || reply.starts_with("$-")) return;
    const bool down = reply.find("master_link_status:down") != std::string_view::npos;
    const bool loading = reply.find("loading:1") != std::string_view::npos;
    if (!down && !loading) *stale_ = false;
  }
  void on_failure(std::string_view) override {}

 private:
  bool* stale_;
};

}  // namespace

void wake_all(Waiters& waiters) {
  Waiters now;
  now.swap(waiters);
  for (const auto& waiter : now) {
    if (const auto alive = waiter.lock()) alive->resume();
  }
}

void Call::hold(Slot* slot) {
  slot_ = slot;
  ++slot->in_flight;
}

void Call::release() {
  if (slot_ == nullptr) return;
  --slot_->in_flight;
  slot_->check_drained();
  slot_ = nullptr;
}

void Call::reply(std::string_view bytes) {
  release();
  on_reply(bytes);
}

void Call::fail(std::string_view text) {
  release();
  on_failure(text);
}

BackendConn::BackendConn(Loop& loop, const ProxyOptions& options, HostPort address, int database)
    : loop_(loop), options_(options), address_(std::move(address)), database_(database) {
  dial();
}

BackendConn::~BackendConn() {
  loop_.cancel(retry_);
  stream_.reset();
  state_ = State::kBackoff;
  while (!due_.empty()) {
    const auto call = std::move(due_.front());
    due_.pop_front();
    call->fail(kReset);
  }
  fail_queue();
  wake_all(waiters_);
}

void BackendConn::send(std::string_view bytes, std::shared_ptr<Call> call) {
  switch (state_) {
    case State::kReady:
      if (due_.empty()) silent_since_us_ = loop_.now_us();
      due_.push_back(std::move(call));
      stream_->output().append(bytes);
      return;
    case State::kDialing:
    case State::kHandshake:
      queue_.push_back({std::string(bytes), std::move(call)});
      return;
    case State::kBackoff:
      call->fail(kReset);
      return;
    case State::kIdleGone:
      state_ = State::kReaderGone;
      call->fail("backend conn failure, EOF");
      return;
    case State::kReaderGone:
      dial_failed();
      call->fail(
          cat("backend conn failure, set tcp ", local_, ": use of closed network connection"));
      return;
  }
}

bool BackendConn::full() const {
  return queue_.size() >= options_.backend_queue_max ||
         due_.size() >= options_.backend_pipeline_max;
}

void BackendConn::dial() {
  state_ = State::kDialing;
  stream_ = loop_.connect(address_.host, address_.port, options_.dial_timeout_us, this);
}

// Counts a failed life and begins the next: the first ten at once, then with doubling pauses (1.2).
void BackendConn::dial_failed() {
  stream_.reset();
  fail_queue();
  stale_ = false;
  parser_ = ReplyParser();
  if (++failures_ <= kFreeRetries) {
    dial();
    return;
  }
  state_ = State::kBackoff;
  const int doublings = std::min(failures_ - kFreeRetries - 1, 10);
  const int64_t pause = std::min(kBackoffFirstUs << doublings, kBackoffMaxUs);
  retry_ = loop_.call_after(pause, [this] {
    retry_ = 0;
    dial();
  });
}

void BackendConn::fail_queue() {
  std::deque<Queued> queued;
  queued.swap(queue_);
  for (const Queued& one : queued) one.call->fail(kReset);
  wake_all(waiters_);
}

void BackendConn::on_connected() {
  local_ = stream_->local();
  state_ = State::kHandshake;
  silent_since_us_ = loop_.now_us();
  handshake_step_ = options_.product_auth.empty() ? 1 : 0;
  next_handshake();
}

void BackendConn::next_handshake() {
  if (handshake_step_ == 0) {
    stream_->write(resp::request({"AUTH", options_.product_auth}));
  } else if (handshake_step_ == 1 && database_ != 0) {
    stream_->write(resp::request({"SELECT", std::to_string(database_)}));
  } else {
    ready();
  }
}

void BackendConn::handshake_reply(std::string_view reply) {
  if (!reply.starts_with('+')) {
    dial_failed();
    return;
  }
  ++handshake_step_;
  next_handshake();
}

void BackendConn::ready() {
  state_ = State::kReady;
  failures_ = 0;
  std::deque<Queued> queued;
  queued.swap(queue_);
  for (Queued& one : queued) {
    if (one.call->worth_sending()) {
      send(one.bytes, std::move(one.call));
    } else {
      one.call->fail("request is broken");
    }
  }
  wake_all(waiters_);
}

size_t BackendConn::on_data(std::string_view unread) {
  size_t used = 0;
  silent_since_us_ = loop_.now_us();
  while (used < unread.size()) {
    // A reply nobody asked for stays unread and answers the next request, as it does with Codis.
    if (state_ == State::kReady && due_.empty()) break;
    const auto outcome = parser_.parse(unread.substr(used));
    if (outcome == ReplyParser::Outcome::kNeedMore) break;
    if (outcome == ReplyParser::Outcome::kError) {
      if (state_ == State::kReady) {
        broken(cat("backend conn failure, ", parser_.error()));
      } else {
        dial_failed();
      }
      return unread.size();
    }
    const std::string_view reply = unread.substr(used, parser_.size());
    used += reply.size();
    if (state_ == State::kHandshake) {
      handshake_reply(reply);
      if (state_ == State::kDialing || state_ == State::kBackoff) return unread.size();
      continue;
    }
    const bool was_full = full();
    const auto call = std::move(due_.front());
    due_.pop_front();
    if (reply[0] == '-') note_stale(reply);
    call->reply(reply);
    if (was_full) wake_all(waiters_);
  }
  return used;
}

void BackendConn::note_stale(std::string_view reply) {
  if (reply.starts_with("-LOADING") || reply.starts_with("-MASTERDOWN")) stale_ = true;
}

void BackendConn::on_closed(const Status& why) {
  if (state_ == State::kReady) {
    const bool eof = why.text().empty() || why.text().find("closed") != std::string::npos;
    broken(cat("backend conn failure, ", eof ? "EOF" : why.text()));
    return;
  }
  dial_failed();
}

// The connection is gone: the request whose reply was being read fails with `first_text`, those
// behind it with a reset. Nothing is dialled before the next request finds out.
void BackendConn::broken(std::string_view first_text) {
  stream_.reset();
  parser_ = ReplyParser();
  state_ = due_.empty() ? State::kIdleGone : State::kReaderGone;
  std::deque<std::shared_ptr<Call>> due;
  due.swap(due_);
  bool first = true;
  for (const auto& call : due) {
    call->fail(first ? first_text : kReset);
    first = false;
  }
  wake_all(waiters_);
}

void BackendConn::send_keep_alive() {
  if (!queue_.empty()) return;
  if (stale_) {
    send(resp::request({"INFO"}), std::make_shared<RecoveryCall>(&stale_));
  } else {
    send(resp::request({"PING"}), std::make_shared<IgnoredCall>());
  }
}

void BackendConn::tick(bool ping) {
  const bool waiting = state_ == State::kHandshake || (state_ == State::kReady && !due_.empty());
  if (waiting && loop_.now_us() - silent_since_us_ >= options_.recv_timeout_us) {
    if (state_ == State::kHandshake) {
      dial_failed();
    } else {
      broken(
          cat("backend conn failure, read tcp ", local_, "->", address_.text(), ": i/o timeout"));
    }
  }
  if (ping && state_ >= State::kReady) send_keep_alive();
}

SharedBackend::SharedBackend(Loop& loop, const ProxyOptions& options, const std::string& address)
    : loop_(loop), options_(options), address_(address) {
  host_port_ = parse_host_port(address).value_or(HostPort{"127.0.0.1", 1});
  const int count = options.databases * options.parallel;
  for (int i = 0; i < count; ++i) {
    const int database = i / options.parallel;
    conns_.push_back(std::make_unique<BackendConn>(loop, options, host_port_, database));
  }
  next_ping_us_ = loop.now_us() + options.ping_period_us;
  timer_ = loop_.call_after(kTickUs, [this] { tick(); });
}

SharedBackend::~SharedBackend() {
  loop_.cancel(timer_);
}

BackendConn& SharedBackend::conn(int database, size_t seed) {
  const auto parallel = static_cast<size_t>(options_.parallel);
  return *conns_[static_cast<size_t>(database) * parallel + seed % parallel];
}

void SharedBackend::tick() {
  const int64_t now = loop_.now_us();
  const bool ping = options_.ping_period_us > 0 && now >= next_ping_us_;
  if (ping) next_ping_us_ = now + options_.ping_period_us;
  for (const auto& conn : conns_) conn->tick(ping);
  timer_ = loop_.call_after(kTickUs, [this] { tick(); });
}

}  // namespace sf::codis
