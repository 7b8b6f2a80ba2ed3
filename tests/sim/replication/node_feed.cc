// The master side of a model node, as storage_node/replica/feed and feed_exporter.
#include <algorithm>

#include "common/resp/request_parser.h"
#include "tests/sim/replication/node.h"
#include "tests/sim/replication/violation.h"

namespace sf::sim {
namespace {

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

wire::FromReplica read_message(std::string_view bytes) {
  RequestParser parser;
  Request request;
  if (parser.parse(bytes, &request) != RequestParser::Outcome::kRequest) {
    throw Violation("a message that is none");
  }
  auto message = wire::decode_replica(request.argv);
  if (!message) throw Violation(cat("unreadable: ", message.status().text()));
  return std::move(*message);
}

}  // namespace

Feed* Node::feed_on(int conn) {
  for (auto& feed : feeds_) {
    if (feed->conn == conn) return feed.get();
  }
  return nullptr;
}

void Node::drop_ended_feeds() {
  std::erase_if(feeds_, [](const auto& feed) { return feed->over; });
}

void Node::asked(int conn, std::string_view bytes) {
  auto message = read_message(bytes);
  auto* sync = std::get_if<wire::Sync>(&message);
  if (sync == nullptr) throw Violation("a session that does not begin with SYNC");
  feeds_.push_back(std::make_unique<Feed>(conn, context_.now));
  Feed& feed = *feeds_.back();
  feed::Asked asked;
  asked.last_seq = image().last();
  asked.oldest_seq = image().first;
  asked.run_id = cat("run-", id_, "-", life_);
  asked.floor = image().floor;
  asked.mirror = image().full.has_value();
  if (image().full && !image().full->mirror) asked.not_ready = "this node is itself being copied";
  asked.chain = context_.oracle.chain(image().histories);
  feed.histories_seen = image().histories.size();
  feed.generation = generation_;
  asked.sync = std::move(*sync);
  for (const SlotGroup& group : asked.sync.groups) {
    if (!group.position) continue;
    const bool known = asked.chain.is_prefix({group.position->history, 0}, UINT64_MAX);
    if (known && !asked.chain.is_prefix(*group.position, asked.last_seq)) {
      context_.note(Fault::kForked);
    }
  }
  step(feed, asked);
}

void Node::said(Feed& feed, std::string_view bytes) {
  auto message = read_message(bytes);
  auto* want = std::get_if<wire::Want>(&message);
  if (want == nullptr) return step(feed, feed::Said{std::move(message)});
  if (feed.generation != generation_) {
    return end(feed, Status::unavailable("the log here was replaced by another master's"));
  }
  feed::Wanted wanted;
  wanted.want = std::move(*want);
  wanted.last_seq = image().last();
  wanted.oldest_seq = image().first;
  wanted.floor = image().floor;
  wanted.mirror = image().full.has_value();
  wanted.histories = histories_since(feed);
  step(feed, wanted);
}

void Node::want_ack(Feed& feed) {
  step(feed, feed::AckWanted{image().last()});
}

void Node::closed(Feed& feed) {
  end(feed, Status::unavailable("closed"));
}

void Node::wake(Feed& feed) {
  feed.woken = false;
  step(feed, feed::LogMoved{});
}

void Node::step(Feed& feed, const feed::Event& event) {
  if (feed.over) return;
  for (const feed::Action& action : feed.session.step(event, context_.now)) {
    carry_out(feed, action);
    if (feed.over) return;
  }
}

void Node::carry_out(Feed& feed, const feed::Action& action) {
  if (const auto* send = std::get_if<feed::Send>(&action)) {
    Conn* conn = context_.conn(feed.conn);
    if (conn != nullptr && !conn->cut) {
      conn->down.push_back({context_.stamp++, send->bytes});
    }
  } else if (const auto* read = std::get_if<feed::ReadLog>(&action)) {
    if (feed.read || feed.got) throw Violation("a second read of the log");
    feed.read = read->after;
  } else if (const auto* slot = std::get_if<feed::Export>(&action)) {
    feed.exports.push_back(slot->slot);
  } else if (const auto* keep = std::get_if<feed::KeepLog>(&action)) {
    note_claim(feed, keep->from);
  } else if (const auto* why = std::get_if<feed::Close>(&action)) {
    end(feed, why->why);
  }
}

void Node::note_claim(Feed& feed, uint64_t from) {
  feed.claim = std::max<uint64_t>(1, from);
  if (feed.session.acked() == 0) feed.first_claim = feed.claim;
}

void Node::end(Feed& feed, const Status& why) {
  context_.say("node ", id_, " feed ", feed.conn, " ends: ", why.text());
  feed.over = true;
  if (Conn* conn = context_.conn(feed.conn)) conn->master_gone = true;
}

// ---- the log

void Node::read(Feed& feed) {
  Feed::Got got;
  got.after = *feed.read;
  feed.read.reset();
  got.purged = got.after + 1 < image().first;
  const uint64_t most = 1 + context_.random.below(4);
  for (uint64_t seq = got.after + 1;
       !got.purged && seq <= image().last() && got.entries.size() < most; ++seq) {
    got.entries.emplace_back(seq, image().log[seq - image().first]);
  }
  feed.got = std::move(got);
  if (context_.random.chance(0.6)) give(feed);
}

std::vector<History> Node::histories_since(Feed& feed) const {
  std::vector<History> out;
  if (feed.generation != generation_) return out;
  for (; feed.histories_seen < image().histories.size(); ++feed.histories_seen) {
    out.push_back(context_.oracle.full(image().histories[feed.histories_seen]));
  }
  return out;
}

void Node::give(Feed& feed) {
  Feed::Got got = std::move(*feed.got);
  feed.got.reset();
  if (feed.generation != generation_) {
    return end(feed, Status::unavailable("the log here was replaced by another master's"));
  }
  if (got.purged && feed.kept) {
    throw Violation(cat("node ", id_, " lost the log after ", got.after,
                        " under a feed that claims it from ", feed.claim));
  }
  if (got.purged) return step(feed, feed::LogPurged{got.after});
  feed::LogRead read;
  read.after = got.after;
  read.wall_ms = context_.now / 1000;
  for (const auto& [seq, number] : got.entries) {
    const Entry& entry = context_.entries[number];
    feed::LogRead::Entry out;
    out.record.seq = seq;
    out.record.time_ms = entry.time_ms;
    out.reload = entry.reload;
    if (entry.reload) out.reload_slots = entry.slots;
    for (const Op& op : entry.ops) out.record.ops.push_back(op.view());
    read.entries.push_back(std::move(out));
  }
  read.histories = histories_since(feed);
  step(feed, read);
}

void Node::set_room(Feed& feed, bool room) {
  feed.room = room;
  step(feed, feed::Room{room});
}

// ---- copies

// The snapshot, then the name of its position, then piece by piece.
void Node::go_on_exporting(Feed& feed) {
  if (!feed.exports.empty() && (feed.exporting.empty() || context_.random.chance(0.5))) {
    return begin_export(feed);
  }
  const size_t which = context_.random.below(feed.exporting.size());
  Feed::Exporting& job = feed.exporting[which];
  if (!job.at) job.at = Pos{image().history(), job.seq};
  if (job.sent < job.pieces.size()) {
    const std::string piece = job.pieces[job.sent++];
    return step(feed, feed::ExportChunk{job.slot, 0, piece.size() / 9, piece});
  }
  Feed::Exporting done = std::move(job);
  feed.exporting.erase(feed.exporting.begin() + static_cast<std::ptrdiff_t>(which));
  if (feed.generation != generation_) {
    return end(feed, Status::unavailable("the log here was replaced by another master's"));
  }
  auto histories = histories_since(feed);
  step(feed, feed::ExportDone{done.slot, context_.oracle.named(*done.at), 1, std::move(histories)});
}

void Node::begin_export(Feed& feed) {
  Feed::Exporting job;
  job.slot = feed.exports.front();
  feed.exports.pop_front();
  job.seq = image().last();
  // A full replica's slot may be ahead of its log: a copy fetched by itself.
  const auto& ahead = image().ahead[at(job.slot)];
  if (image().full && image().full->mirror && ahead && ahead->history < 0) {
    return step(feed, feed::ExportFailed{Status::unavailable("the slot is being stored here")});
  }
  if (image().full && image().full->mirror && ahead) job.seq = std::max(job.seq, ahead->seq);
  job.pieces = pack_slot(image().slots[at(job.slot)], 1 + context_.random.below(8));
  feed.exporting.push_back(std::move(job));
}

void Node::tick(Feed& feed) {
  if (feed.cut) step(feed, feed::LogCut{cat("c", feed.conn), "its claim was let go of"});
  step(feed, feed::Tick{context_.now / 1000, image().last()});
}

}  // namespace sf::sim
