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
  sent_us_ = now_us_;
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
  wire::Hello hello;
  uint64_t needed = event.last_seq;
  for (const SlotGroup& group : sync_.groups) {
    slots_.add(group.slots);
    const auto& at = group.position;
    if (at && event.mirror && at->history == event.chain.current() && at->seq > event.last_seq) {
      return refuse(true, cat("this node is a replica itself and only at ", event.last_seq), out);
    }
    bool keep = at && event.chain.is_prefix(*at, event.last_seq) &&
                at->seq + 1 >= event.oldest_seq && at->seq >= event.floor;
    if (keep) needed = std::min(needed, at->seq);
    (keep ? hello.keep : hello.copy).add(group.slots);
  }
  chain_ = event.chain;
  hello.run_id = event.run_id;
  hello.seq = event.last_seq;
  hello.chain = event.chain;
  state_ = State::kOpen;
  out.emplace_back(feed::KeepLog{needed});
  send(hello, out);
}

// ---- what the replica says

void FeedSession::on(const feed::Said& event, Actions& out) {
  heard_us_ = now_us_;
  std::visit([&](const auto& m) { said(m, out); }, event.message);
}

void FeedSession::said(const wire::Sync&, Actions& out) {
  close(Status::corrupt("a second SYNC"), out);
}

void FeedSession::said(const wire::Fetch& message, Actions& out) {
  if (state_ == State::kWaiting || !slots_.contains(message.slot)) {
    return close(Status::corrupt(cat("fetch of slot ", message.slot, " was not agreed")), out);
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
  out.emplace_back(feed::KeepLog{sent_});
  want_log(out);
}

void FeedSession::said(const wire::Ack& message, Actions& out) {
  if (state_ == State::kStreaming && message.applied > sent_) {
    return close(Status::corrupt(cat("the replica says it applied ", message.applied,
                                     ", but was sent only up to ", sent_)),
                 out);
  }
  ack_ = message;
  if (state_ == State::kStreaming && message.synced > 0) {
    out.emplace_back(feed::KeepLog{std::min(message.synced, sent_)});
  }
}

void FeedSession::said(const wire::Drop& message, Actions&) {
  slots_.remove(message.slots);
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
  wire::Frame frame{from, from, event.wall_ms, event.version, {}};
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
  }
  if (frame.to > from) {
    frame.records = records;
    send(frame, out);
    sent_ = frame.to;
  }
  if (reload != nullptr && reload->record.seq == sent_ + 1) {
    SlotSet slots;
    reload->reload_slots.for_each([&](int s) {
      if (slots_.contains(s)) slots.add(s);
    });
    send(wire::Reload{sent_, sent_ + 1, reload->record.time_ms, slots}, out);
    sent_ += 1;
    state_ = State::kOpen;  // the replica fetches, then asks for the stream again
    return;
  }
  if (again) want_log(out);
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
  std::string text =
      state_ == State::kStreaming
          ? cat("replica ", event.replica, " fell too far behind and was cut: ", event.why,
                "; it copies again")
          : cat("the copy of replica ", event.replica, " cannot finish: ", event.why,
                "; raise the limit, speed the copy up or slow the writes; it begins again");
  send(wire::Lost{text}, out);
  close(Status::unavailable(text), out);
}

// ---- copies

void FeedSession::want_export(Actions& out) {
  if (exporting_ || fetches_.empty()) return;
  exporting_ = true;
  export_chunks_ = export_bytes_ = export_entries_ = 0;
  out.emplace_back(feed::Export{fetches_.front()});
}

void FeedSession::on(const feed::ExportChunk& event, Actions& out) {
  std::string bytes;
  wire::encode_chunk(bytes, event.slot, event.family, event.entries, event.bytes);
  sent_us_ = now_us_;
  ++export_chunks_;
  export_bytes_ += event.bytes.size();
  export_entries_ += event.entries;
  out.emplace_back(feed::Send{std::move(bytes)});
}

void FeedSession::on(const feed::ExportDone& event, Actions& out) {
  exporting_ = false;
  if (fetches_.empty() || fetches_.front() != event.slot) {
    return close(Status::corrupt("an export nobody asked for"), out);
  }
  if (Status s = announce(event.histories, out); !s) return close(s, out);
  fetches_.pop_front();
  send(wire::CopyDone{event.slot, event.at, event.version, export_chunks_, export_bytes_,
                      export_entries_},
       out);
  want_export(out);
}

void FeedSession::on(const feed::ExportFailed& event, Actions& out) {
  exporting_ = false;
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
  if (state_ != State::kWaiting && now_us_ - sent_us_ >= limits_.ping_us) {
    send(wire::Ping{event.wall_ms, state_ == State::kStreaming ? sent_ : 0}, out);
  }
}

}  // namespace sf
