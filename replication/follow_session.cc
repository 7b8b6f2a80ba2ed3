#include "replication/follow_session.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf {

using follow::Fail;

namespace {

RequestLimits stream_limits() {
  RequestLimits limits;
  limits.args_max = 1 << 16;
  limits.bulk_bytes_max = 1200UL << 20;  // one batch with the largest value, and then some
  limits.request_bytes_max = 1300UL << 20;
  return limits;
}

}  // namespace

FollowSession::FollowSession(FollowConfig config, SlotPositions& positions, int64_t now_us)
    : config_(std::move(config)),
      positions_(positions),
      parser_(stream_limits()),
      heard_us_(now_us) {}

std::optional<follow::Event> FollowSession::read(std::string_view unread, size_t* used) {
  *used = 0;
  if (unread.empty()) return std::nullopt;
  if (unread[0] == '+' || unread[0] == '-') {
    const size_t end = unread.find("\r\n");
    if (end == std::string_view::npos) return std::nullopt;
    *used = end + 2;
    return follow::Line{std::string(unread.substr(0, end))};
  }
  Request request;
  const auto outcome = parser_.parse(unread, &request);
  *used = parser_.consumed();
  if (outcome == RequestParser::Outcome::kNeedMore) return std::nullopt;
  if (outcome == RequestParser::Outcome::kError) {
    *used = unread.size();
    return follow::Failed{Status::corrupt(cat("no replication stream: ", parser_.error()))};
  }
  auto message = wire::decode_master(request.argv);
  if (!message) return follow::Failed{message.status()};
  return follow::Said{std::move(*message)};
}

PeerSession::Actions FollowSession::step(const follow::Event& event, int64_t now_us) {
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
  asks_.assign(1, positions_.slots());
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
std::string FollowSession::why_copy(const SlotSet& copy) const {
  std::string why;
  copy.for_each([&](int slot) {
    auto at = positions_.position(slot);
    if (!at || at->seq == 0 || !why.empty()) return;
    why = chain_.is_prefix(*at, master_seq_)
              ? cat("the master no longer keeps the log after ", at->seq,
                    " (its wal-keep limits); copying again")
              : cat("position ", at->text(),
                    " is not part of the master's log (its history differs); copying again");
  });
  return why;
}

// What the oldest ask named and is still meant: slots dropped since, even if followed anew, are
// not.
SlotSet FollowSession::answered(const SlotSet& slots) {
  SlotSet out;
  slots.for_each([&](int slot) {
    if (asks_.front().contains(slot)) out.add(slot);
  });
  return out;
}

void FollowSession::said(const wire::Hello& message, Actions& out) {
  SlotSet named = message.keep;
  named.add(message.copy);
  bool all = state_ == State::kHello && named.contains(asks_.front()) &&
             !message.keep.intersects(message.copy);
  if (!all || message.chain.empty()) {
    return fail(Fail::Kind::kRetry, Status::corrupt("the master's hello does not fit"), out);
  }
  chain_ = message.chain;
  master_seq_ = message.seq;
  follow::Accepted accepted{message, {}};
  accepted.hello.keep = answered(message.keep);
  accepted.hello.copy = answered(message.copy);
  asks_.pop_front();
  accepted.why_copy = why_copy(accepted.hello.copy);
  positions_.accept(chain_.current(), accepted.hello.keep, accepted.hello.copy);
  state_ = State::kCopying;
  accepted.hello.copy.for_each([&](int slot) { queue_.push_back(slot); });
  out.emplace_back(std::move(accepted));
  start_stream(out);
  ask_slots(out);
  want_added(out);
}

void FollowSession::want_added(Actions& out) {
  if (state_ < State::kHello || config_.full) return;
  SlotSet fresh = positions_.unanswered();
  for (const SlotSet& asked : asks_) fresh.remove(asked);
  if (fresh.empty()) return;
  asks_.push_back(fresh);
  send(wire::Want{positions_.groups(fresh)}, out);
}

void FollowSession::said(const wire::Took& message, Actions& out) {
  SlotSet named = message.keep;
  named.add(message.copy);
  bool fits = state_ >= State::kCopying && !asks_.empty() && named.contains(asks_.front()) &&
              !message.keep.intersects(message.copy);
  if (!fits) {
    return fail(Fail::Kind::kRetry, Status::corrupt("the master's answer to want does not fit"),
                out);
  }
  follow::Took took{answered(message.keep), answered(message.copy), {}};
  asks_.pop_front();
  took.why_copy = why_copy(took.copy);
  positions_.take_on(took.keep, took.copy);
  took.copy.for_each([&](int slot) { queue_.push_back(slot); });
  out.emplace_back(took);
  go_back(out);
  if (!took.keep.empty()) send(wire::Placed{took.keep}, out);
  ask_slots(out);
}

// ---- copies

void FollowSession::ask_slots(Actions& out) {
  std::deque<int> later;
  while (!queue_.empty() && copies_.size() < static_cast<size_t>(config_.limits.fetch_window)) {
    int slot = queue_.front();
    queue_.pop_front();
    if (!positions_.follows(slot) || positions_.position(slot)) continue;
    if (copies_.contains(slot)) {  // an unwanted copy still comes
      later.push_back(slot);
      continue;
    }
    copies_[slot] = {};
    send(wire::Fetch{slot}, out);
  }
  queue_.insert(queue_.begin(), later.begin(), later.end());
}

void FollowSession::said(const wire::Chunk& message, Actions& out) {
  auto it = copies_.find(message.slot);
  if (it == copies_.end() || it->second.storing) {
    return fail(Fail::Kind::kRetry, Status::corrupt("a piece of a slot nobody asked for"), out);
  }
  if (it->second.unwanted) return;
  ++it->second.chunks;
  it->second.bytes += message.bytes.size();
  out.emplace_back(follow::StoreChunk{message});
}

void FollowSession::said(const wire::CopyDone& message, Actions& out) {
  auto it = copies_.find(message.slot);
  if (it != copies_.end() && it->second.unwanted) {
    copies_.erase(it);
    return ask_slots(out);
  }
  bool fits = it != copies_.end() && !it->second.storing && message.chunks == it->second.chunks &&
              message.bytes == it->second.bytes && is_history_id(message.at.history);
  if (!fits) {
    return fail(Fail::Kind::kRetry, Status::corrupt("the copy of a slot is not complete"), out);
  }
  it->second.storing = message;
  master_seq_ = std::max(master_seq_, message.at.seq);
  bool last = reload_ && copies_.size() == 1 && queue_.empty();
  out.emplace_back(follow::StoreSlot{message, last ? std::optional(reload_->seq) : std::nullopt});
}

void FollowSession::on(const follow::Stored& event, Actions& out) {
  auto it = copies_.find(event.slot);
  if (it == copies_.end() || !it->second.storing) return;
  Position at = it->second.storing->at;
  bool wanted = !it->second.unwanted && positions_.follows(event.slot);
  copies_.erase(it);
  if (wanted) positions_.set_copied(event.slot, at);
  if (reload_ && copies_.empty() && queue_.empty()) {
    positions_.advance(reload_->seq);
    reload_.reset();
    state_ = State::kStreaming;
    send(wire::StreamFrom{{positions_.history(), positions_.stream()}}, out);
    ack(out);
  } else if (wanted) {
    go_back(out);
  }
  if (wanted) send(wire::Placed{SlotSet::of(event.slot)}, out);
  ask_slots(out);
}

// ---- the stream

void FollowSession::start_stream(Actions& out) {
  auto lowest = positions_.lowest();
  bool ready = lowest && (!config_.full || positions_.without_position().empty());
  if (state_ != State::kCopying || !ready) return;
  // Every position is in the master's log, so the newest name covers the lowest too.
  positions_.begin_stream(*lowest);
  state_ = State::kStreaming;
  out.emplace_back(follow::BeginStream{*lowest});
  send(wire::StreamFrom{{chain_.current(), *lowest}}, out);
  ack(out);
}

// A slot got a position. If the stream has passed it, the stream goes back there; the frames under
// way all begin further on, and so do not fit any more.
void FollowSession::go_back(Actions& out) {
  if (state_ == State::kCopying) return start_stream(out);
  if (state_ != State::kStreaming || !positions_.rewind()) return;
  discarding_ = true;
  discarding_us_ = now_us_;
  ++rewinds_;
  synced_ = std::min(synced_, positions_.cursor());
  send(wire::StreamFrom{{chain_.current(), positions_.cursor()}}, out);
  ack(out);
}

// True: the message is not to be looked at.
bool FollowSession::out_of_place(uint64_t from, const char* what, Actions& out) {
  bool fits = state_ == State::kStreaming && !applying_;
  if (fits && from == positions_.cursor()) {
    discarding_ = false;
    return false;
  }
  if (fits && discarding_ && from > positions_.cursor()) return true;
  fail(Fail::Kind::kRetry,
       Status::corrupt(cat("a ", what, " from ", from, " came at ", positions_.cursor(),
                           "; the link starts anew")),
       out);
  return true;
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
  if (out_of_place(message.from, "frame", out)) return;
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
      if (op.family == wire::kRecordFamily && config_.full) {
        mine.ops.push_back(op);
        continue;
      }
      if (Status s = wire::filter_op(op, wanted, arena_, &mine.ops); !s) {
        return fail(Fail::Kind::kRetry, s, out);
      }
    }
    if (config_.full || !mine.ops.empty()) apply.records.push_back(std::move(mine));
  }
  begin_apply(std::move(apply), out);
}

void FollowSession::begin_apply(follow::Apply apply, Actions& out) {
  SlotPositions::Moves moves = positions_.moves(apply.to);
  apply.joined = moves.joined;
  apply.moved = moves.moved;
  apply.joined.remove(apply.lost);
  apply.moved.remove(apply.lost);
  apply.stream = std::max(apply.to, positions_.stream());
  master_seq_ = std::max(master_seq_, apply.to);
  losing_ = apply.lost;
  applying_ = true;
  out.emplace_back(std::move(apply));
}

void FollowSession::on(const follow::Applied& event, Actions& out) {
  applying_ = false;
  positions_.need_copy(losing_);
  losing_.for_each([&](int slot) { queue_.push_back(slot); });
  losing_ = {};
  positions_.advance(event.to);
  ack(out);
  ask_slots(out);
}

void FollowSession::said(const wire::Reload& message, Actions& out) {
  if (out_of_place(message.from, "reload", out)) return;
  SlotSet hit;
  message.slots.for_each([&](int slot) {
    if (positions_.wants(slot, message.seq)) hit.add(slot);  // others have a newer copy
  });
  follow::Apply apply{message.from, message.seq, message.time_ms, 0, {}, {}};
  if (!config_.full) {
    apply.lost = hit;
    return begin_apply(std::move(apply), out);
  }
  if (hit.size() > 1) {
    return fail(Fail::Kind::kCopyAgain, Status::corrupt("several slots were ingested as one"), out);
  }
  if (hit.empty()) {
    apply.records.push_back({message.seq, message.time_ms, {}});
    begin_apply(std::move(apply), out);
    return send(wire::StreamFrom{{positions_.history(), message.seq}}, out);
  }
  master_seq_ = std::max(master_seq_, message.seq);
  reload_ = message;
  state_ = State::kReloading;
  copies_[hit.first()] = {};
  send(wire::Fetch{hit.first()}, out);
}

void FollowSession::said(const wire::NewHistory& message, Actions& out) {
  const History& history = message.history;
  std::string before = chain_.current();
  bool passed = positions_.streaming() && positions_.cursor() > history.fork;
  if (passed || applying_ || !chain_.add(history)) {
    return fail(Fail::Kind::kRetry, Status::corrupt("a history out of place"), out);
  }
  positions_.relabel(before, history.id);
  out.emplace_back(follow::AdoptHistory{history});
}

void FollowSession::said(const wire::Ping& message, Actions& out) {
  if (state_ != State::kStreaming || discarding_) return;
  if (message.sent != 0 && !applying_ && message.sent != positions_.cursor()) {
    return fail(Fail::Kind::kRetry,
                Status::corrupt(cat("the master sent up to ", message.sent, ", here is ",
                                    positions_.cursor(), "; the link starts anew")),
                out);
  }
  if (message.time_ms != 0) out.emplace_back(follow::MasterTime{message.time_ms});
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
  uint64_t applied = positions_.streaming() ? positions_.cursor() : 0;
  send(wire::Ack{applied, std::min(synced_, applied)}, out);
}

void FollowSession::on(const follow::Synced& event, Actions& out) {
  synced_ = event.seq;
  if (state_ == State::kStreaming) ack(out);
}

void FollowSession::said(const wire::GetAck&, Actions& out) {
  out.emplace_back(follow::SyncNow{});
}

void FollowSession::on(const follow::Failed& event, Actions& out) {
  fail(Fail::Kind::kRetry, event.why, out);
}

void FollowSession::on(const follow::Dropped& event, Actions& out) {
  if (state_ < State::kHello) return;
  for (SlotSet& asked : asks_) asked.remove(event.slots);
  for (auto& [slot, copy] : copies_) {
    if (event.slots.contains(slot)) copy.unwanted = true;
  }
  send(wire::Drop{event.slots}, out);
}

void FollowSession::on(const follow::Changed&, Actions& out) {
  want_added(out);
}

void FollowSession::on(const follow::Tick&, Actions& out) {
  if (now_us_ - heard_us_ > config_.limits.silence_us) {
    return fail(Fail::Kind::kRetry,
                Status::timeout(cat("the master said nothing for ",
                                    config_.limits.silence_us / 1'000'000, " s")),
                out);
  }
  if (discarding_ && now_us_ - discarding_us_ > config_.limits.silence_us) {
    return fail(Fail::Kind::kRetry,
                Status::timeout(cat("the master did not go back to ", positions_.cursor(), " for ",
                                    config_.limits.silence_us / 1'000'000, " s")),
                out);
  }
  if (state_ >= State::kCopying && now_us_ - acked_us_ >= config_.limits.ack_us) ack(out);
}

}  // namespace sf
