#include "storage_node/server/client_session.h"

#include <utility>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "storage_node/server/dispatcher.h"
#include "storage_node/server/multi_state.h"
#include "storage_node/server/session_hub.h"

namespace sf {

void BlockedReply::send(std::string reply) const {
  loop_->post([hub = hub_, session = session_, block = block_, reply = std::move(reply)] {
    ClientSession* found = hub->find(session);
    if (found != nullptr) found->unblock(block, reply);
  });
}

ClientSession::ClientSession(SessionHub& hub, Dispatcher& dispatcher, uint64_t id,
                             bool authenticated)
    : hub_(hub),
      dispatcher_(dispatcher),
      id_(id),
      switch_(std::make_unique<HandlerSwitch>()),
      authenticated_(authenticated) {
  switch_->set_target(this);
}

// The stream first: its handler must outlive it.
ClientSession::~ClientSession() {
  stream_.reset();
}

void ClientSession::start(std::unique_ptr<AcceptedSocket> socket) {
  stream_ = hub_.loop().adopt(std::move(socket), switch_.get());
  stream_->set_marks(kOutputLow, kOutputHigh);
  since_us_ = last_us_ = hub_.loop().now_us();
}

Loop& ClientSession::loop() const {
  return hub_.loop();
}

std::string ClientSession::peer() const {
  return stream_ ? stream_->peer() : std::string();
}

std::string ClientSession::local() const {
  return stream_ ? stream_->local() : std::string();
}

size_t ClientSession::on_data(std::string_view unread) {
  size_t used = 0;
  running_ = true;
  while (!closing_ && blocked_ == 0 && !take_over_) {
    if (stream_->unsent_bytes() > kOutputHigh) {
      paused_ = true;
      stream_->pause_reading();
      break;
    }
    const RequestParser::Outcome outcome = parser_.parse(unread.substr(used), &request_);
    if (outcome == RequestParser::Outcome::kError) {
      resp::error(stream_->output(), cat("ERR Protocol error: ", parser_.error()));
      closing_ = true;
      break;
    }
    if (outcome == RequestParser::Outcome::kRequest) run(request_);
    used += parser_.consumed();
    if (outcome == RequestParser::Outcome::kNeedMore) break;
  }
  running_ = false;
  last_us_ = hub_.loop().now_us();
  if (take_over_) {
    hand_over(unread.substr(used));
    return unread.size();
  }
  if (closing_) {
    stream_->close_after_flush();
    hub_.remove_later(id_);
    return unread.size();
  }
  if (blocked_ != 0 && !paused_) {
    paused_ = true;
    stream_->pause_reading();
  }
  return used;
}

void ClientSession::run(const Request& request) {
  const ReplyMode mode = reply_mode_;
  hub_.commands().add();
  if (mode == ReplyMode::kOn) {
    dispatcher_.execute(*this, request.argv, stream_->output());
    return;
  }
  skipped_.clear();
  dispatcher_.execute(*this, request.argv, skipped_);
  // CLIENT REPLY ON answers, although replies were off when it came.
  if (reply_mode_ == ReplyMode::kOn) stream_->write(skipped_);
  if (mode == ReplyMode::kSkipNext) reply_mode_ = ReplyMode::kOn;
}

BlockedReply ClientSession::block() {
  blocked_ = next_block_++;
  return {&hub_, &hub_.loop(), id_, blocked_};
}

void ClientSession::unblock(uint64_t block, const std::string& reply) {
  if (blocked_ != block) return;
  blocked_ = 0;
  if (reply_mode_ == ReplyMode::kOn) stream_->write(reply);
  if (closing_) {
    stream_->close_after_flush();
    hub_.remove_later(id_);
    return;
  }
  if (paused_ && stream_->unsent_bytes() <= kOutputHigh) {
    paused_ = false;
    stream_->resume_reading();
  }
}

void ClientSession::on_drained() {
  if (!paused_ || blocked_ != 0) return;
  paused_ = false;
  stream_->resume_reading();
}

void ClientSession::take_over(std::function<void(TakenConnection)> fn) {
  take_over_ = std::move(fn);
}

void ClientSession::hand_over(std::string_view unread) {
  std::string peer_text = stream_->peer();
  auto taken = std::make_shared<TakenConnection>(TakenConnection{
      std::move(switch_), std::move(stream_), std::string(unread), std::move(peer_text)});
  hub_.loop().defer([&hub = hub_, id = id_, fn = std::move(take_over_), taken] {
    hub.remove(id);
    fn(std::move(*taken));
  });
}

void ClientSession::on_closed(const Status& /*why*/) {
  hub_.remove(id_);
}

void ClientSession::kill() {
  if (closing_ || !stream_) return;
  closing_ = true;
  if (running_) return;  // its own command: on_data closes after the reply
  stream_->close_after_flush();
  hub_.remove_later(id_);
}

void ClientSession::sync_before_replies() {
  hub_.sync_before_replies();
}

MultiState& ClientSession::make_multi() {
  if (!multi_) multi_ = std::make_unique<MultiState>();
  return *multi_;
}

void ClientSession::drop_multi() {
  multi_.reset();
}

PubSub::Subscriber& ClientSession::make_subscriber(PubSub& pubsub) {
  if (!subscriber_) subscriber_ = std::make_unique<PubSub::Subscriber>(pubsub, hub_, id_);
  return *subscriber_;
}

void ClientSession::push(std::string_view bytes, size_t unsent_max) {
  if (closing_ || !stream_) return;
  stream_->write(bytes);
  if (stream_->unsent_bytes() <= unsent_max) return;
  hub_.log().warning(cat("subscriber ", peer(), " does not read and is disconnected"));
  hub_.remove_later(id_);
  closing_ = true;
}

std::string ClientSession::describe(int64_t now_us) const {
  const int64_t age = (now_us - since_us_) / 1'000'000;
  const int64_t idle = (now_us - last_us_) / 1'000'000;
  const int64_t queued = multi_ && multi_->open ? static_cast<int64_t>(multi_->queued.size()) : -1;
  const size_t channels = subscriber_ ? subscriber_->names(PubSub::Kind::kChannel).size() : 0;
  const size_t patterns = subscriber_ ? subscriber_->names(PubSub::Kind::kPattern).size() : 0;
  const char* flags = queued >= 0 ? "x" : blocked_ != 0 ? "b" : subscribed() ? "P" : "N";
  return cat("id=", id_, " addr=", peer(), " laddr=", local(), " fd=0 name=", name_, " age=", age,
             " idle=", idle, " flags=", flags, " db=", db_, " sub=", channels, " psub=", patterns,
             " multi=", queued,
             " qbuf=0 qbuf-free=0 obl=0 oll=0 omem=", stream_ ? stream_->unsent_bytes() : 0,
             " events=r cmd=", to_lower(last_command_), " user=default resp=2");
}

}  // namespace sf
