#include "replication/feed_session.h"

#include <algorithm>

#include "common/base/strings.h"

namespace sf {

std::vector<feed::Action> FeedSession::step(const feed::Event& event, int64_t now_us) {
  Actions out;
  now_us_ = now_us;
  if (state_ == State::kClosed) return out;
  std::visit([&](const auto& e) { on(e, out); }, event);
  return out;
}

void FeedSession::send(const wire::FromMaster& message, Actions& out) {
  std::string bytes;
  wire::encode(bytes, message);
  out.emplace_back(feed::Send{std::move(bytes)});
}

void FeedSession::close(Status why, Actions& out) {
  state_ = State::kClosed;
  out.emplace_back(feed::Close{std::move(why)});
}

void FeedSession::refuse(bool retry, std::string text, Actions& out) {
  send(wire::Refuse{retry, text}, out);
  close(Status::refused(std::move(text)), out);
}

// ---- the handshake

void FeedSession::on(const feed::Asked& event, Actions& out) {
  heard_us_ = now_us_;
  if (state_ != State::kWaiting) return close(Status::corrupt("a second SYNC"), out);
  sync_ = event.sync;
  if (sync_.protocol != wire::kProtocol) {
    return refuse(false,
                  cat("this node speaks replication protocol ", wire::kProtocol, ", not ",
                      sync_.protocol, "; run one version on both"),
                  out);
  }
  if (sync_.run_id == event.run_id) return refuse(false, "a node cannot follow itself", out);
  if (!event.not_ready.empty()) return refuse(true, event.not_ready, out);
  chain_ = event.chain;
  wire::Hello hello;
  const LogState log{event.last_seq, event.oldest_seq, event.floor, event.mirror};
  if (Status s = judge(sync_.groups, log, &hello.keep, &hello.copy); !s) {
    return refuse(true, s.text(), out);
  }
  // Until the replica says where it wants the stream from, the slots kept are what needs the log.
  base_ = event.last_seq;
  for (const auto& [slot, seq] : holds_) base_ = std::min(base_, seq);
  holds_.clear();
  hello.run_id = event.run_id;
  hello.seq = event.last_seq;
  hello.time_ms = event.time_ms;
  hello.chain = event.chain;
  if (sync_.full && !hello.copy.empty()) hello.records = event.records;
  state_ = State::kOpen;
  keep_log(out);
  send(hello, out);
}

// A slot is kept on where it is if that is a state this log went through and the log can lead on
// from.
Status FeedSession::judge(const std::vector<SlotGroup>& groups, const LogState& log, SlotSet* keep,
                          SlotSet* copy) {
  known_ = std::max(known_, log.last_seq);
  for (const SlotGroup& group : groups) {
    const auto& at = group.position;
    if (at && log.mirror && at->history == chain_.current() && at->seq > log.last_seq) {
      return Status::refused(cat("this node is a replica itself and only at ", log.last_seq));
    }
    bool kept = at && chain_.is_prefix(*at, log.last_seq) && at->seq + 1 >= log.oldest_seq &&
                at->seq >= log.floor;
    (kept ? keep : copy)->add(group.slots);
    if (kept) group.slots.for_each([&](int slot) { holds_[slot] = at->seq; });
    slots_.add(group.slots);
  }
  copying_.add(*copy);
  return Status::ok();
}

void FeedSession::on(const feed::Wanted& event, Actions& out) {
  heard_us_ = now_us_;
  if (state_ == State::kWaiting || sync_.full) {
    return close(Status::corrupt("want is for a replica of some slots, after SYNC"), out);
  }
  if (Status s = announce(event.histories, out); !s) return close(s, out);
  wire::Took took;
  const LogState log{event.last_seq, event.oldest_seq, event.floor, event.mirror};
  if (Status s = judge(event.want.groups, log, &took.keep, &took.copy); !s) {
    return refuse(true, s.text(), out);
  }
  kept_ = UINT64_MAX;  // the shell claimed more, to be sure
  keep_log(out);
  send(took, out);
}

// The lowest of what the stream and the slots on their way need; told when it changes.
void FeedSession::keep_log(Actions& out) {
  uint64_t from = base_;
  for (const auto& [slot, seq] : holds_) from = std::min(from, seq);
  if (from == kept_) return;
  kept_ = from;
  out.emplace_back(feed::KeepLog{from});
}

// ---- what the replica says

void FeedSession::on(const feed::Said& event, Actions& out) {
  heard_us_ = now_us_;
  std::visit([&](const auto& m) { said(m, out); }, event.message);
}

void FeedSession::said(const wire::Sync&, Actions& out) {
  close(Status::corrupt("a second SYNC"), out);
}

void FeedSession::said(const wire::Want&, Actions& out) {
  close(Status::corrupt("a want without the state of the log"), out);
}

void FeedSession::said(const wire::Fetch& message, Actions& out) {
  if (state_ == State::kWaiting || !slots_.contains(message.slot)) {
    return close(Status::corrupt(cat("fetch of slot ", message.slot, " was not agreed")), out);
  }
  if (exporting_.contains(message.slot)) {
    return close(Status::corrupt(cat("fetch of slot ", message.slot, " while it is copied")), out);
  }
  fetches_.push_back(message.slot);
  want_export(out);
}

void FeedSession::said(const wire::StreamFrom& message, Actions& out) {
  if (state_ == State::kWaiting || !chain_.is_prefix(message.at, UINT64_MAX)) {
    return close(Status::corrupt(cat("stream from ", message.at.text(), " is no position here")),
                 out);
  }
  state_ = State::kStreaming;
  sent_ = message.at.seq;
  base_ = std::min(base_, sent_);  // only what is on the replica's disk raises it
  // What was acknowledged before is not true of the slots it goes back for.
  ack_.applied = std::min(ack_.applied, sent_);
  ack_.synced = std::min(ack_.synced, sent_);
  keep_log(out);
  want_log(out);
}

void FeedSession::said(const wire::Ack& message, Actions& out) {
  if (state_ == State::kStreaming && message.applied > sent_) {
    return close(Status::corrupt(cat("the replica says it applied ", message.applied,
                                     ", but was sent only up to ", sent_)),
                 out);
  }
  ack_ = message;
  acked_us_ = now_us_;
  if (state_ == State::kStreaming && message.synced > 0) base_ = std::min(message.synced, sent_);
  keep_log(out);
}

void FeedSession::said(const wire::Placed& message, Actions& out) {
  copying_.remove(message.slots);
  message.slots.for_each([&](int slot) { holds_.erase(slot); });
  keep_log(out);
}

// A copy that has not begun is answered at once: the replica counts the answers.
void FeedSession::said(const wire::Drop& message, Actions& out) {
  slots_.remove(message.slots);
  copying_.remove(message.slots);
  message.slots.for_each([&](int slot) { holds_.erase(slot); });
  std::deque<int> left;
  for (int slot : fetches_) {
    if (message.slots.contains(slot)) {
      send(wire::CopyDone{slot, {chain_.current(), 0}, 0, 0, 0, 0}, out);
    } else {
      left.push_back(slot);
    }
  }
  fetches_ = std::move(left);
  keep_log(out);
}

// ---- the stream

void FeedSession::want_log(Actions& out) {
  if (state_ != State::kStreaming) return;
  if (reading_ || !room_) {
    more_ = true;
    return;
  }
  reading_ = true;
  more_ = false;
  out.emplace_back(feed::ReadLog{sent_});
}

void FeedSession::on(const feed::LogMoved&, Actions& out) {
  want_log(out);
}

// A history is told before the first batch that is only in it, and may be told earlier: a position
// at or before the fork is the same state under both names.
Status FeedSession::announce(const std::vector<History>& histories, Actions& out) {
  for (const History& history : histories) {
    if (Status s = chain_.add(history); !s) return s;
    send(wire::NewHistory{history}, out);
  }
  return Status::ok();
}

bool FeedSession::add_entry(const feed::LogRead::Entry& entry, std::string& records) {
  wire::KeyArena arena;
  wire::Record record{entry.record.seq, entry.record.time_ms, {}};
  auto wanted = [this](int slot) { return slots_.contains(slot); };
  for (const wire::StreamOp& op : entry.record.ops) {
    if (op.family == wire::kRecordFamily) {
      if (sync_.full) record.ops.push_back(op);
      continue;
    }
    if (!wire::filter_op(op, wanted, arena, &record.ops)) return false;
  }
  if (sync_.full || !record.ops.empty()) wire::encode_record(records, record);
  return true;
}

void FeedSession::on(const feed::LogRead& event, Actions& out) {
  reading_ = false;
  if (Status s = announce(event.histories, out); !s) return close(s, out);
  if (state_ != State::kStreaming) return;
  if (event.after != sent_) return want_log(out);  // the replica asked anew meanwhile
  bool again = more_ || !event.entries.empty();
  uint64_t from = sent_;
  wire::Frame frame{from, from, 0, event.version, {}};
  std::string records;
  const feed::LogRead::Entry* reload = nullptr;
  for (const auto& entry : event.entries) {
    if (entry.record.seq <= from) continue;
    if (entry.reload && entry.reload_slots.intersects(slots_)) {
      reload = &entry;
      break;
    }
    if (!add_entry(entry, records)) return close(Status::corrupt("unreadable log entry"), out);
    frame.to = entry.record.seq;
    // Not the present: what was written after this may have given a key more time.
    frame.time_ms = event.mixed ? 0 : entry.record.time_ms;
  }
  bool all = event.entries.empty() || frame.to == event.entries.back().record.seq;
  if (event.mixed && all) frame.time_ms = event.wall_ms;
  if (frame.to > from) {
    frame.records = records;
    send(frame, out);
    told_us_ = now_us_;
    sent_ = frame.to;
    known_ = std::max(known_, sent_);
    send_getack(out);
  }
  if (reload != nullptr && reload->record.seq == sent_ + 1) {
    send_reload(*reload, out);
    if (state_ == State::kOpen) return;
  }
  if (again) want_log(out);
}

// A full replica has no room in its log for what comes after until it has the slot; one of slots
// fetches it beside the stream.
void FeedSession::send_reload(const feed::LogRead::Entry& entry, Actions& out) {
  SlotSet slots;
  entry.reload_slots.for_each([&](int s) {
    if (slots_.contains(s)) slots.add(s);
  });
  send(wire::Reload{sent_, sent_ + 1, entry.record.time_ms, slots}, out);
  sent_ += 1;
  known_ = std::max(known_, sent_);
  if (sync_.full) state_ = State::kOpen;
}

void FeedSession::on(const feed::LogPurged& event, Actions& out) {
  reading_ = false;
  if (event.after != sent_) return want_log(out);
  std::string text =
      cat("the log after ", sent_, " is no longer kept here (wal-keep limits); copy again");
  send(wire::Lost{text}, out);
  close(Status::unavailable(text), out);
}

// A copy that outlived the log it needs would never end: it is called off, and said so (R08).
void FeedSession::on(const feed::LogCut& event, Actions& out) {
  if (state_ == State::kWaiting) return;
  const bool copying = state_ != State::kStreaming || kept_ < base_;
  std::string text =
      !copying ? cat("replica ", event.replica, " fell too far behind and was cut: ", event.why,
                     "; it copies again")
               : cat("the copy of replica ", event.replica, " cannot finish: ", event.why,
                     "; raise the limit, speed the copy up or slow the writes; it begins again");
  send(wire::Lost{text}, out);
  close(Status::unavailable(text), out);
}

// ---- copies

void FeedSession::want_export(Actions& out) {
  while (!fetches_.empty() && exporting_.size() < static_cast<size_t>(limits_.exports)) {
    int slot = fetches_.front();
    fetches_.pop_front();
    exporting_[slot] = {};
    copying_.add(slot);
    holds_[slot] = known_;  // before the snapshot, which is not before it
    keep_log(out);
    out.emplace_back(feed::Export{slot});
  }
}

void FeedSession::on(const feed::ExportChunk& event, Actions& out) {
  auto it = exporting_.find(event.slot);
  if (it == exporting_.end()) return close(Status::corrupt("an export nobody asked for"), out);
  std::string bytes;
  wire::encode_chunk(bytes, event.slot, event.family, event.entries, event.bytes);
  ++it->second.chunks;
  it->second.bytes += event.bytes.size();
  it->second.entries += event.entries;
  out.emplace_back(feed::Send{std::move(bytes)});
}

void FeedSession::on(const feed::ExportDone& event, Actions& out) {
  auto it = exporting_.find(event.slot);
  if (it == exporting_.end()) return close(Status::corrupt("an export nobody asked for"), out);
  if (Status s = announce(event.histories, out); !s) return close(s, out);
  const Export sum = it->second;
  exporting_.erase(it);
  known_ = std::max(known_, event.at.seq);
  if (auto hold = holds_.find(event.slot); hold != holds_.end()) hold->second = event.at.seq;
  keep_log(out);
  send(wire::CopyDone{event.slot, event.at, event.version, sum.chunks, sum.bytes, sum.entries},
       out);
  want_export(out);
}

void FeedSession::on(const feed::ExportFailed& event, Actions& out) {
  exporting_.clear();
  refuse(true, cat("the copy failed on the master: ", event.why.text()), out);
}

// ---- time and room

void FeedSession::on(const feed::Room& event, Actions& out) {
  room_ = event.room;
  if (room_ && more_) want_log(out);
}

void FeedSession::on(const feed::Tick& event, Actions& out) {
  if (now_us_ - heard_us_ > limits_.silence_us) {
    return close(
        Status::timeout(cat("the replica said nothing for ", limits_.silence_us / 1'000'000, " s")),
        out);
  }
  if (state_ == State::kWaiting || now_us_ - told_us_ < limits_.ping_us) return;
  told_us_ = now_us_;
  bool lags = state_ != State::kStreaming || reading_ || more_ || event.last_seq > sent_;
  send(wire::Ping{lags ? 0 : event.wall_ms, state_ == State::kStreaming ? sent_ : 0}, out);
}

void FeedSession::on(const feed::AckWanted& event, Actions& out) {
  if (event.seq <= ack_.synced) return;
  ack_wanted_ = std::max(ack_wanted_, event.seq);
  send_getack(out);
}

// Behind the frame with the batch that is waited for: what the replica syncs then has it.
void FeedSession::send_getack(Actions& out) {
  if (ack_wanted_ == 0 || state_ != State::kStreaming || sent_ < ack_wanted_) return;
  ack_wanted_ = 0;
  send(wire::GetAck{}, out);
}

}  // namespace sf
