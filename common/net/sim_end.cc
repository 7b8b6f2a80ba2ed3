#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/net/sim_internal.h"

namespace sf {

SimEnd::~SimEnd() {
  if (loop_ != nullptr) loop_->forget(this);
}

void SimEnd::bind(SimLoop* loop, StreamHandler* handler) {
  loop_ = loop;
  handler_ = handler;
  owned_ = true;
  loop_->belongs(this);
  poke_at(core_->now_us);
}

void SimEnd::established(const SimEndPtr& other) {
  other_ = other;
}

// A server's side is open from the start; a client's once it hears so.
void SimEnd::connected() {
  if (state_ != State::kConnecting) return;
  state_ = State::kOpen;
  if (loop_ == nullptr) return;
  loop_->cancel(timer);
  if (!out_.empty() || closing_) loop_->send_later(shared_from_this());
  poke_at(core_->now_us);
  if (handler_ != nullptr) handler_->on_connected();
}

void SimEnd::poke_at(int64_t at_us) {
  if (loop_ == nullptr) return;
  core_->schedule(std::max(at_us, core_->now_us), loop_,
                  [self = shared_from_this()] { self->poke(); });
}

void SimEnd::arrive_segment(Segment segment) {
  if (!arriving_.empty()) segment.at_us = std::max(segment.at_us, arriving_.back().at_us);
  const int64_t at_us = segment.at_us;
  arriving_bytes_ += segment.bytes.size();
  arriving_.push_back(std::move(segment));
  poke_at(at_us);
}

void SimEnd::arrive(std::string bytes) {
  arrive_segment({core_->now_us + core_->latency(), std::move(bytes), false, Status::ok()});
}

void SimEnd::arrive_end(const Status& why) {
  if (state_ == State::kClosed) return;
  arrive_segment({core_->now_us + core_->latency(), "", true, why});
}

bool SimEnd::may_arrive() const {
  if (state_ != State::kOpen || paused_ || closing_ || handler_ == nullptr) return false;
  if (arriving_.empty() || arriving_.front().at_us > core_->now_us) return false;
  const SimEndPtr peer = other();
  return peer == nullptr || !core_->parted(process_, peer->process());
}

void SimEnd::poke() {
  if (!may_arrive()) return;
  const SimEndPtr peer = other();
  if (peer != nullptr && core_->options.break_chance > 0 &&
      core_->random.chance(core_->options.break_chance)) {
    lose_arriving();
    peer->lose_arriving();
    peer->arrive_end(Status::unavailable("connection reset by the peer"));
    return fail(Status::unavailable("connection reset by the peer"));
  }
  const Segment segment = std::move(arriving_.front());
  arriving_.pop_front();
  if (segment.end) return fail(segment.why);
  arriving_bytes_ -= segment.bytes.size();
  bytes_in += segment.bytes.size();
  in_ += segment.bytes;
  // The sender hears of the room this made.
  if (peer != nullptr && peer->loop() != nullptr && peer->unsent() > 0) {
    core_->schedule(core_->now_us + core_->latency(), peer->loop(), [peer] { peer->flush(); });
  }
  if (!arriving_.empty()) poke_at(arriving_.front().at_us);
  present();
}

void SimEnd::present() {
  if (state_ != State::kOpen || paused_ || closing_ || handler_ == nullptr || in_.empty()) return;
  std::string unread = std::exchange(in_, {});
  const size_t used = handler_->on_data(unread);
  SF_CHECK(used <= unread.size());
  if (state_ != State::kOpen) return;
  unread.erase(0, used);
  in_ = std::move(unread);
}

std::string& SimEnd::output() {
  if (state_ == State::kClosed || closing_ || loop_ == nullptr) {
    scrap_.clear();
    return scrap_;
  }
  loop_->send_later(shared_from_this());
  return out_;
}

void SimEnd::flush() {
  if (state_ != State::kOpen || loop_ == nullptr) return;
  was_high_ |= unsent() > high;
  const SimEndPtr peer = other();
  size_t room = unsent();
  const bool heard = peer != nullptr && peer->open();
  if (heard) {
    room = std::min(room,
                    core_->options.window - std::min(core_->options.window, peer->arriving_bytes_));
  }
  for (size_t at = 0; heard && at < room;) {
    const size_t size = core_->chunk(room - at);
    peer->arrive(out_.substr(sent_ + at, size));
    at += size;
  }
  bytes_out += room;
  sent_ += room;
  if (sent_ * 2 >= out_.size()) out_.erase(0, std::exchange(sent_, 0));
  if (closing_) {
    if (out_.empty()) shut();
    return;
  }
  if (was_high_ && unsent() <= low) {
    was_high_ = false;
    if (handler_ != nullptr) handler_->on_drained();
  }
}

void SimEnd::resume() {
  if (!paused_ || state_ == State::kClosed || closing_ || loop_ == nullptr) return;
  paused_ = false;
  core_->schedule(core_->now_us, loop_, [self = shared_from_this()] {
    self->present();
    self->poke();
  });
}

void SimEnd::close_after_flush() {
  if (state_ == State::kClosed || closing_ || loop_ == nullptr) return;
  loop_->send_later(shared_from_this());
  closing_ = true;
  handler_ = nullptr;
}

void SimEnd::fail(const Status& why) {
  if (state_ == State::kClosed) return;
  const SimEndPtr self = shared_from_this();
  StreamHandler* handler = owned_ ? handler_ : nullptr;
  shut();
  if (handler != nullptr) handler->on_closed(why);
}

void SimEnd::shut() {
  die(Status::unavailable("connection closed by the peer"));
}

void SimEnd::die(const Status& told_to_peer) {
  if (state_ == State::kClosed) return;
  const SimEndPtr self = shared_from_this();
  state_ = State::kClosed;
  handler_ = nullptr;
  keep_.reset();
  if (loop_ != nullptr) loop_->cancel(timer);
  if (const SimEndPtr peer = other()) peer->arrive_end(told_to_peer);
}

void SimEnd::released() {
  owned_ = false;
  handler_ = nullptr;
  if (closing_ && state_ != State::kClosed) {
    keep_ = shared_from_this();
  } else {
    shut();
  }
}

}  // namespace sf
