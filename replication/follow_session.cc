#include "replication/follow_session.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf {

using follow::Fail;

std::vector<follow::Action> FollowSession::step(const follow::Event& event, int64_t now_us) {
  Actions out;
  now_us_ = now_us;
  if (state_ == State::kEnded) return out;
  std::visit([&](const auto& e) { on(e, out); }, event);
  return out;
}

void FollowSession::send(const wire::FromReplica& message, Actions& out) {
  std::string bytes;
  wire::encode(bytes, message);
  out.emplace_back(follow::Send{std::move(bytes)});
}

void FollowSession::fail(Fail::Kind kind, Status why, Actions& out) {
  state_ = State::kEnded;
  positions_.end_session();
  out.emplace_back(Fail{std::move(why), kind});
}

// ---- the handshake

void FollowSession::on(const follow::Connected&, Actions& out) {
  heard_us_ = now_us_;
  if (config_.password.empty()) return send_sync(out);
  out.emplace_back(follow::Send{resp::request({"AUTH", config_.password})});
  state_ = State::kAuth;
}

void FollowSession::send_sync(Actions& out) {
  wire::Sync sync;
  sync.run_id = config_.run_id;
  sync.port = config_.port;
  sync.full = config_.full;
  sync.groups = positions_.groups();
  state_ = State::kHello;
  send(sync, out);
}

void FollowSession::on(const follow::Line& event, Actions& out) {
  heard_us_ = now_us_;
  bool ok = !event.text.empty() && event.text[0] == '+';
  if (state_ == State::kAuth && ok) return send_sync(out);
  std::string text = event.text.empty() ? "" : event.text.substr(1);
  bool denied = state_ == State::kAuth || text.starts_with("NOAUTH");
  fail(Fail::Kind::kRetry,
       Status::refused(denied ? cat("the master refused the password (masterauth): ", text)
                              : cat("the master answered: ", text)),
       out);
}

void FollowSession::said(const wire::Refuse& message, Actions& out) {
  fail(message.retry ? Fail::Kind::kRetry : Fail::Kind::kFinal,
       Status::refused(cat("the master refused: ", message.text)), out);
}

// Never a silent copy over what was there: is the master's log too short, or another one?
std::string FollowSession::why_copy(const wire::Hello& message) const {
  std::string why;
  message.copy.for_each([&](int slot) {
    auto at = positions_.position(slot);
    if (!at || at->seq == 0 || !why.empty()) return;
    why = message.chain.is_prefix(*at, message.seq)
              ? cat("the master no longer keeps the log after ", at->seq,
                    " (its wal-keep limits); copying again")
              : cat("position ", at->text(),
                    " is not part of the master's log (its history differs); copying again");
  });
  return why;
}

void FollowSession::said(const wire::Hello& message, Actions& out) {
  SlotSet answered = message.keep;
  answered.add(message.copy);
  bool all = answered.contains(positions_.slots()) && !message.keep.intersects(message.copy);
  if (state_ != State::kHello || !all || message.chain.empty()) {
    return fail(Fail::Kind::kRetry, Status::corrupt("the master's hello does not fit"), out);
  }
  chain_ = message.chain;
  master_seq_ = message.seq;
  std::string why = why_copy(message);
  positions_.accept(chain_.current(), message.keep, message.copy);
  state_ = State::kCopying;
  out.emplace_back(follow::Accepted{message, std::move(why)});
  for (int slot : positions_.without_position().to_vector()) queue_.push_back(slot);
  ask_slots(out);
}

// ---- copies

void FollowSession::ask_slots(Actions& out) {
  while (!queue_.empty() && asked_.size() < static_cast<size_t>(config_.fetch_window)) {
    int slot = queue_.front();
    queue_.pop_front();
    if (!positions_.follows(slot)) continue;
    asked_.push_back(slot);
    send(wire::Fetch{slot}, out);
  }
  if (asked_.empty() && queue_.empty() && state_ == State::kCopying) start_stream(out);
}

void FollowSession::said(const wire::Chunk& message, Actions& out) {
  if (asked_.empty() || asked_.front() != message.slot || storing_) {
    return fail(Fail::Kind::kRetry, Status::corrupt("a piece of a slot nobody asked for"), out);
  }
  ++chunks_;
  bytes_ += message.bytes.size();
  out.emplace_back(follow::StoreChunk{message});
}

void FollowSession::said(const wire::CopyDone& message, Actions& out) {
  bool fits = !asked_.empty() && asked_.front() == message.slot && !storing_ &&
              message.chunks == chunks_ && message.bytes == bytes_ &&
              is_history_id(message.at.history);
  if (!fits) {
    return fail(Fail::Kind::kRetry, Status::corrupt("the copy of a slot is not complete"), out);
  }
  storing_ = message;
  chunks_ = bytes_ = 0;
  master_seq_ = std::max(master_seq_, message.at.seq);
  bool last = reload_ && asked_.size() == 1 && queue_.empty();
  out.emplace_back(follow::StoreSlot{message, last ? std::optional(reload_->seq) : std::nullopt});
}

void FollowSession::on(const follow::Stored& event, Actions& out) {
  if (!storing_ || storing_->slot != event.slot) return;
  positions_.set_copied(event.slot, storing_->at);
  asked_.pop_front();
  storing_.reset();
  if (reload_ && asked_.empty() && queue_.empty()) {
    positions_.advance(reload_->seq);
    reload_.reset();
    state_ = State::kStreaming;
    send(wire::StreamFrom{{positions_.history(), positions_.stream()}}, out);
    return ack(out);
  }
  ask_slots(out);
}

// ---- the stream

void FollowSession::start_stream(Actions& out) {
  auto lowest = positions_.lowest();
  if (!lowest) return;  // no slots left
  // Every position is in the master's log, so the newest name covers the lowest too.
  positions_.begin_stream(*lowest);
  state_ = State::kStreaming;
  out.emplace_back(follow::BeginStream{*lowest});
  send(wire::StreamFrom{{chain_.current(), *lowest}}, out);
  ack(out);
}

bool FollowSession::dense(const std::vector<wire::Record>& records,
                          const wire::Frame& frame) const {
  uint64_t next = frame.from;
  for (const wire::Record& record : records) {
    if (record.seq <= next || record.seq > frame.to) return false;
    if (config_.full && record.seq != next + 1) return false;
    next = record.seq;
  }
  return !config_.full || next == frame.to;
}

void FollowSession::said(const wire::Frame& message, Actions& out) {
  if (state_ != State::kStreaming || applying_ || message.from != positions_.stream()) {
    return fail(Fail::Kind::kRetry,
                Status::corrupt(cat("a frame from ", message.from, " came at ", positions_.stream(),
                                    "; the link starts anew")),
                out);
  }
  auto records = wire::decode_records(message.records);
  if (!records) return fail(Fail::Kind::kRetry, records.status(), out);
  if (!dense(*records, message)) {
    return fail(Fail::Kind::kRetry, Status::corrupt("a frame has a hole"), out);
  }
  follow::Apply apply{message.from, message.to, message.time_ms, message.version, {}, {}};
  arena_.keys.clear();
  for (const wire::Record& record : *records) {
    wire::Record mine{record.seq, record.time_ms, {}};
    auto wanted = [&](int slot) { return positions_.wants(slot, record.seq); };
    for (const wire::StreamOp& op : record.ops) {
      if (Status s = wire::filter_op(op, wanted, arena_, &mine.ops); !s) {
        return fail(Fail::Kind::kRetry, s, out);
      }
    }
    if (config_.full || !mine.ops.empty()) apply.records.push_back(std::move(mine));
  }
  positions_.slots().for_each([&](int slot) {
    auto at = positions_.own(slot);
    if (at && *at <= message.to) apply.joined.add(slot);
  });
  master_seq_ = std::max(master_seq_, message.to);
  applying_ = true;
  out.emplace_back(std::move(apply));
}

void FollowSession::on(const follow::Applied& event, Actions& out) {
  applying_ = false;
  positions_.advance(event.to);
  ack(out);
}

void FollowSession::said(const wire::Reload& message, Actions& out) {
  if (state_ != State::kStreaming || applying_ || message.from != positions_.stream()) {
    return fail(Fail::Kind::kRetry, Status::corrupt("a reload out of place"), out);
  }
  master_seq_ = std::max(master_seq_, message.seq);
  message.slots.for_each([&](int slot) {
    if (positions_.wants(slot, message.seq)) queue_.push_back(slot);
  });
  if (config_.full && queue_.size() > 1) {
    return fail(Fail::Kind::kCopyAgain, Status::corrupt("several slots were ingested as one"), out);
  }
  if (queue_.empty()) {  // each has a newer copy already
    applying_ = true;
    follow::Apply nothing{message.from, message.seq, message.time_ms, 0, {}, {}};
    if (config_.full) nothing.records.push_back({message.seq, message.time_ms, {}});
    out.emplace_back(std::move(nothing));
    return send(wire::StreamFrom{{positions_.history(), message.seq}}, out);
  }
  reload_ = message;
  state_ = State::kReloading;
  ask_slots(out);
}

void FollowSession::said(const wire::NewHistory& message, Actions& out) {
  const History& history = message.history;
  std::string before = chain_.current();
  bool passed = positions_.streaming() && positions_.stream() > history.fork;
  if (passed || applying_ || !chain_.add(history)) {
    return fail(Fail::Kind::kRetry, Status::corrupt("a history out of place"), out);
  }
  positions_.relabel(before, history.id);
  out.emplace_back(follow::AdoptHistory{history});
}

void FollowSession::said(const wire::Ping& message, Actions& out) {
  if (state_ != State::kStreaming) return;
  if (message.sent != 0 && !applying_ && message.sent != positions_.stream()) {
    return fail(Fail::Kind::kRetry,
                Status::corrupt(cat("the master sent up to ", message.sent, ", here is ",
                                    positions_.stream(), "; the link starts anew")),
                out);
  }
  out.emplace_back(follow::MasterTime{message.time_ms});
}

void FollowSession::said(const wire::Lost& message, Actions& out) {
  fail(Fail::Kind::kCopyAgain, Status::unavailable(message.text), out);
}

void FollowSession::on(const follow::Said& event, Actions& out) {
  heard_us_ = now_us_;
  std::visit([&](const auto& m) { said(m, out); }, event.message);
}

// ---- the rest

void FollowSession::ack(Actions& out) {
  acked_us_ = now_us_;
  uint64_t applied = positions_.streaming() ? positions_.stream() : 0;
  send(wire::Ack{applied, std::min(synced_, applied)}, out);
}

void FollowSession::on(const follow::Synced& event, Actions&) {
  synced_ = event.seq;
}

void FollowSession::on(const follow::Failed& event, Actions& out) {
  fail(Fail::Kind::kRetry, event.why, out);
}

void FollowSession::on(const follow::Dropped& event, Actions& out) {
  if (state_ >= State::kCopying) send(wire::Drop{event.slots}, out);
}

void FollowSession::on(const follow::Tick&, Actions& out) {
  if (now_us_ - heard_us_ > config_.silence_us) {
    return fail(
        Fail::Kind::kRetry,
        Status::timeout(cat("the master said nothing for ", config_.silence_us / 1'000'000, " s")),
        out);
  }
  if (state_ >= State::kCopying && now_us_ - acked_us_ >= config_.ack_us) ack(out);
}

}  // namespace sf
