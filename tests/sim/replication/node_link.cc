// The replica side of a model node, as storage_node/replica/link and follow_store.
#include <algorithm>

#include "common/resp/request_parser.h"
#include "tests/sim/replication/node.h"
#include "tests/sim/replication/violation.h"

namespace sf::sim {
namespace {

size_t at(int slot) {
  return static_cast<size_t>(slot);
}

std::vector<Op> ops_of(const std::vector<wire::StreamOp>& ops) {
  std::vector<Op> out;
  out.reserve(ops.size());
  for (const wire::StreamOp& op : ops) out.emplace_back(op);
  return out;
}

SlotSet touched_by(const Slots& slots, const std::vector<Op>& ops) {
  Slots after = slots;
  SlotSet touched;
  for (const Op& op : ops) touched.add(apply_op(after, op.view()));
  return touched;
}

void unplace(Image& image, const SlotSet& slots) {
  for (int s = 0; s < kSlots; ++s) {
    if (!slots.contains(s)) continue;
    image.ahead[at(s)].reset();
    image.record[at(s)].placed = false;
  }
}

}  // namespace

// ---- connecting

Link* Node::link_on(int conn) {
  for (auto& link : links_) {
    if (link->conn == conn) return link.get();
  }
  return nullptr;
}

void Node::match_links() {
  match_ = false;
  for (auto it = links_.begin(); it != links_.end();) {
    Link& link = **it;
    auto found = sources_.find(link.source->master);
    if (found != sources_.end() && found->second == link.source) {
      ++it;
      continue;
    }
    for (Link::Store& store : link.stores) run_now(link, store);  // the thread is joined
    link.source->positions.end_session();
    end_stream(link);
    it = links_.erase(it);
  }
  for (auto& [master, source] : sources_) {
    auto it = std::find_if(links_.begin(), links_.end(),
                           [&, s = source](const auto& l) { return l->source == s; });
    if (it != links_.end()) {
      if ((*it)->conn != 0) step(**it, follow::Changed{});
      continue;
    }
    links_.push_back(std::make_unique<Link>());
    links_.back()->source = source;
    links_.back()->synced_at = context_.now;
    connect(*links_.back());
  }
  publish();  // wakes the feeds
}

void Node::connect(Link& link) {
  end_stream(link);
  Source& source = *link.source;
  if (source.gone) return;
  link.connect_waits = !source.storing.empty();
  if (link.connect_waits) return;
  link.down_later = false;
  source.positions.end_session();
  source.dropped = {};
  FollowConfig config;
  config.run_id = cat("run-", id_, "-", life_);
  config.port = 1000 + id_;
  config.full = source.full;
  config.limits = {Timing::kPing, Timing::kSilence, 2};
  link.session.emplace(std::move(config), source.positions, context_.now);
  ++link.number;
  link.broken = false;
  link.acked = 0;
  link.conn = context_.dial(id_, source.master);
}

void Node::end_stream(Link& link) {
  link.retry_at = -1;
  if (Conn* conn = context_.conn(link.conn)) conn->replica_gone = true;
  link.conn = 0;
  link.files.clear();
}

void Node::connected(Link& link) {
  step(link, follow::Connected{});
}

void Node::closed(Link& link) {
  if (link.broken) return;
  link.source->positions.end_session();
  failed(link, {Status::unavailable("the link broke"), follow::Fail::Kind::kRetry});
}

void Node::go_down(Link& link) {
  link.down_later = false;
  end_stream(link);
  if (link.copy_again) {
    SlotSet left = link.source->positions.slots();
    left.remove(link.source->storing);
    link.source->positions.need_copy(left);
  }
  link.retry_at = context_.now + link.wait;
}

// ---- messages

void Node::said(Link& link, std::string_view bytes) {
  RequestParser parser;
  Request request;
  if (parser.parse(bytes, &request) != RequestParser::Outcome::kRequest) {
    throw Violation("a message that is none");
  }
  auto message = wire::decode_master(request.argv);
  if (!message) return step(link, follow::Failed{message.status()});
  step(link, follow::Said{std::move(*message)});
}

void Node::step(Link& link, const follow::Event& event) {
  if (!link.session || link.broken) return;
  if (link.source->gone) {
    link.broken = true;
    return;
  }
  tell_dropped(link);
  run(link, link.session->step(event, context_.now));
}

void Node::tell_dropped(Link& link) {
  if (link.source->dropped.empty()) return;
  SlotSet dropped;
  std::swap(dropped, link.source->dropped);
  std::erase_if(link.files, [&](const auto& item) { return dropped.contains(item.first); });
  run(link, link.session->step(follow::Dropped{dropped}, context_.now));
}

void Node::run(Link& link, std::vector<follow::Action> actions) {
  for (auto& action : actions) link.queue.push_back(std::move(action));
  while (!link.queue.empty() && !link.broken) {
    follow::Action action = std::move(link.queue.front());
    link.queue.pop_front();
    carry_out(link, action);
  }
  link.queue.clear();
  if (!link.broken && link.session->up()) link.backoff = Timing::kFirstRetry;
}

void Node::answer(Link& link, const follow::Event& event) {
  auto actions = link.session->step(event, context_.now);
  link.queue.insert(link.queue.begin(), std::make_move_iterator(actions.begin()),
                    std::make_move_iterator(actions.end()));
}

void Node::send(Link& link, std::string bytes) {
  check_sent(link, bytes);
  Conn* conn = context_.conn(link.conn);
  if (conn != nullptr && !conn->cut) conn->up.push_back({context_.stamp++, std::move(bytes)});
}

void Node::carry_out(Link& link, follow::Action& action) {
  Source& source = *link.source;
  bool done = true;
  if (auto* send_action = std::get_if<follow::Send>(&action)) {
    send(link, std::move(send_action->bytes));
  } else if (auto* hello = std::get_if<follow::Accepted>(&action)) {
    done = accepted(source, hello->hello);
  } else if (auto* answer_to_want = std::get_if<follow::Took>(&action)) {
    done = took(source, *answer_to_want);
  } else if (auto* chunk = std::get_if<follow::StoreChunk>(&action)) {
    link.files[chunk->chunk.slot] += chunk->chunk.bytes;
  } else if (auto* slot = std::get_if<follow::StoreSlot>(&action)) {
    return store_slot(link, *slot);
  } else if (auto* begin = std::get_if<follow::BeginStream>(&action)) {
    done = begin_stream(source, begin->seq);
  } else if (auto* batches = std::get_if<follow::Apply>(&action)) {
    done = apply(source, *batches);
    if (done) answer(link, follow::Applied{batches->to});
  } else if (auto* history = std::get_if<follow::AdoptHistory>(&action)) {
    done = adopt(source, history->history);
  } else if (std::holds_alternative<follow::SyncNow>(action)) {
    link.sync_wanted = true;
    sync_disk(link);
  } else if (auto* fail = std::get_if<follow::Fail>(&action)) {
    return failed(link, *fail);
  }
  if (!done) answer(link, follow::Failed{Status::io("the disk failed")});
}

void Node::failed(Link& link, const follow::Fail& fail) {
  context_.say("node ", id_, " link to ", link.source->master, ": ", fail.why.text());
  link.broken = true;
  link.queue.clear();
  link.wait = link.backoff;
  if (fail.kind == follow::Fail::Kind::kFinal) {
    link.wait = Timing::kFinalRetry;
  } else {
    link.backoff = std::min(link.backoff * 2, Timing::kLastRetry);
  }
  link.copy_again = fail.kind == follow::Fail::Kind::kCopyAgain;
  link.down_later = true;
}

// ---- handshake and copies

bool Node::write_fails() {
  if (write_errors_ == 0) return false;
  --write_errors_;
  context_.note(Fault::kDiskError);
  context_.say("node ", id_, " cannot write");
  return true;
}

bool Node::accepted(Source& source, const wire::Hello& hello) {
  context_.say("node ", id_, " taken on by ", source.master, ": keep ", hello.keep.text(), " copy ",
               hello.copy.text());
  source.chain = hello.chain;
  if (hello.copy.empty()) return true;
  if (write_fails()) return false;
  std::vector<std::pair<int, Pos>> kept;
  bool unmirror = source.full && source.mirror;
  for (int s = 0; s < kSlots && unmirror; ++s) {
    if (!hello.keep.contains(s)) continue;
    if (auto p = source.positions.position(s)) kept.emplace_back(s, Oracle::numbered(*p));
  }
  SlotSet lost;
  for (int s = 0; s < kSlots; ++s) {
    if (hello.copy.contains(s) && source.positions.follows(s)) lost.add(s);
  }
  disk_.write(
      [kept, unmirror, lost](Image& image) {
        for (const auto& [slot, pos] : kept) image.ahead[at(slot)] = pos;
        if (unmirror) image.full->mirror = false;
        unplace(image, lost);
      },
      true);
  if (unmirror) ++generation_;
  if (source.full) source.mirror = false;
  return true;
}

bool Node::took(Source& source, const follow::Took& took) {
  context_.say("node ", id_, " also by ", source.master, ": keep ", took.keep.text(), " copy ",
               took.copy.text());
  SlotSet lost;
  for (int s = 0; s < kSlots; ++s) {
    if (took.copy.contains(s) && source.positions.follows(s)) lost.add(s);
  }
  if (lost.empty()) return true;
  if (write_fails()) return false;
  disk_.write([lost](Image& image) { unplace(image, lost); }, true);
  return true;
}

Disk::Batch Node::store_batch(Source& source, const follow::StoreSlot& action) const {
  const int slot = action.done.slot;
  const Pos pos = Oracle::numbered(action.done.at);
  auto reload = action.reload_seq;
  bool joined = reload && pos.seq == *reload;
  SlotSet caught_up;
  for (int s = 0; s < kSlots && reload; ++s) {
    auto own = source.positions.own(s);
    if (s != slot && own && *own <= *reload) caught_up.add(s);
  }
  auto place = [=](Image& image) {
    image.ahead[at(slot)].reset();
    if (!joined) image.ahead[at(slot)] = pos;
    for (int s = 0; s < kSlots; ++s) {
      if (caught_up.contains(s)) image.ahead[at(s)].reset();
    }
  };
  if (source.full) {
    return [pos, place, mirror = source.mirror](Image& image) {
      place(image);
      if (mirror) image.floor = std::max(image.floor, pos.seq);
    };
  }
  SlotState record = image().record[at(slot)];
  record.placed = true;
  return [slot, record, place](Image& image) {
    place(image);
    image.record[at(slot)] = record;
  };
}

void Node::store_slot(Link& link, const follow::StoreSlot& action) {
  const int slot = action.done.slot;
  std::string files = std::move(link.files[slot]);
  link.files.erase(slot);
  if (!link.source->positions.follows(slot)) return answer(link, follow::Stored{slot});
  Link::Store store;
  store.action = action;
  store.session = link.number;
  if (!unpack_slot(files, &store.data)) throw Violation("a copy that is no slot");
  store.batch = store_batch(*link.source, action);
  link.source->storing.add(slot);
  link.stores.push_back(std::move(store));
}

void Node::run_now(Link& link, Link::Store& store) {
  if (store.run) return;
  store.run = true;
  store.done = !write_fails();
  if (!store.done) return;
  const int slot = store.action.done.slot;
  std::optional<uint64_t> as_seq;
  if (link.source->full) as_seq = store.action.reload_seq;
  if (link.source->full && link.source->mirror) mark_torn(slot);
  append(
      true, SlotSet::of(slot), {},
      [slot, data = store.data, batch = store.batch](Image& image) {
        image.slots[at(slot)] = data;
        batch(image);
      },
      as_seq);
}

void Node::run_store(Link& link) {
  for (Link::Store& store : link.stores) {
    if (!store.run) return run_now(link, store);
  }
}

void Node::tell_stored(Link& link) {
  Link::Store store = std::move(link.stores.front());
  link.stores.pop_front();
  const int slot = store.action.done.slot;
  Source& source = *link.source;
  const bool over = store.session != link.number || link.conn == 0 || link.broken;
  source.storing.remove(slot);
  if (store.done && store.action.reload_seq) source.saved_seq = *store.action.reload_seq;
  if (over) {
    if (store.done) {
      source.positions.end_session();
      source.positions.set_copied(slot, store.action.done.at);
      if (store.action.reload_seq) source.positions.raise(*store.action.reload_seq);
    }
    if (link.connect_waits) connect(link);
    return;
  }
  if (!store.done) return step(link, follow::Failed{Status::io("storing a copied slot")});
  step(link, follow::Stored{slot});
}

// ---- the stream

bool Node::begin_stream(Source& source, uint64_t seq) {
  if (write_fails()) return false;
  if (source.full) return begin_mirror(source, seq);
  Pos stream{Oracle::number(source.positions.history()), seq};
  std::vector<std::pair<int, std::optional<Pos>>> ahead;
  for (int s = 0; s < kSlots; ++s) {
    if (!source.positions.position(s)) continue;  // stored, but not yet told
    std::optional<Pos> value;
    if (source.positions.own(s)) value = Oracle::numbered(*source.positions.position(s));
    ahead.emplace_back(s, value);
  }
  disk_.write(
      [stream, ahead, master = source.master](Image& image) {
        image.stream[at(master)] = stream;
        for (const auto& [slot, value] : ahead) image.ahead[at(slot)] = value;
      },
      false);
  source.saved_seq = seq;
  return true;
}

bool Node::begin_mirror(Source& source, uint64_t seq) {
  uint64_t floor = image().floor;
  std::array<std::optional<Pos>, kSlots> ahead;
  for (int s = 0; s < kSlots; ++s) {
    auto own = source.positions.own(s);
    if (!own) continue;
    ahead[at(s)] = Oracle::numbered(*source.positions.position(s));
    floor = std::max(floor, *own);
  }
  if (!source.mirror) floor = std::max(floor, seq);
  std::vector<int> histories;
  for (const History& h : source.chain.entries()) histories.push_back(Oracle::number(h.id));
  const bool reset = !source.mirror || seq != image().last();
  if (!reset && histories == image().histories && floor == image().floor) return true;
  disk_.write(
      [=](Image& image) {
        image.ahead = ahead;
        image.histories = histories;
        image.floor = floor;
        image.full->mirror = true;
        if (!reset) return;
        image.log.clear();
        image.first = seq + 1;
      },
      true);
  if (reset) slot_seq_.fill(seq);
  publish();
  ++generation_;
  source.mirror = true;
  return true;
}

bool Node::apply(Source& source, const follow::Apply& apply) {
  if (write_fails()) return false;
  return source.full ? apply_mirror(source, apply) : apply_slots(source, apply);
}

bool Node::apply_slots(Source& source, const follow::Apply& apply) {
  const bool saved_later = apply.joined.empty() && apply.moved.empty() && apply.lost.empty();
  if (apply.records.empty() && saved_later) return true;
  std::vector<Op> ops;
  for (const wire::Record& record : apply.records) {
    for (const wire::StreamOp& op : record.ops) ops.emplace_back(op);
  }
  const int history = Oracle::number(source.positions.history());
  auto sys = [history, to = apply.to, stream = apply.stream, joined = apply.joined,
              moved = apply.moved, lost = apply.lost, master = source.master](Image& image) {
    image.stream[at(master)] = Pos{history, stream};
    for (int s = 0; s < kSlots; ++s) {
      if (joined.contains(s)) image.ahead[at(s)].reset();
      if (moved.contains(s)) image.ahead[at(s)] = Pos{history, to};
    }
    unplace(image, lost);
  };
  source.saved_seq = apply.stream;
  if (ops.empty()) {
    disk_.write(sys, false);
  } else {
    SlotSet slots = touched_by(image().slots, ops);
    if (!source.positions.slots().contains(slots)) {
      throw Violation(cat("node ", id_, " follows slots ", source.positions.slots().text(), " of ",
                          source.master, " and is to change ", slots.text()));
    }
    append(false, slots, std::move(ops), sys, std::nullopt);
  }
  if (!apply.lost.empty()) disk_.sync();
  return true;
}

bool Node::apply_mirror(Source& source, const follow::Apply& apply) {
  for (const wire::Record& record : apply.records) {
    std::vector<Op> ops = ops_of(record.ops);
    SlotSet slots = touched_by(image().slots, ops);
    SlotSet joined;
    for (int s = 0; s < kSlots; ++s) {
      auto own = source.positions.own(s);
      if (own && *own <= record.seq && apply.joined.contains(s)) joined.add(s);
    }
    auto sys = [joined](Image& image) {
      for (int s = 0; s < kSlots; ++s) {
        if (joined.contains(s)) image.ahead[at(s)].reset();
      }
    };
    append(false, slots, std::move(ops), sys, record.seq);
  }
  return true;
}

bool Node::adopt(Source& source, const History& history) {
  if (Status s = source.chain.add(history); !s) return false;
  if (!source.full || !source.mirror) return true;
  if (write_fails()) return false;
  disk_.write([h = Oracle::number(history.id)](Image& image) { image.histories.push_back(h); },
              true);
  publish();
  return true;
}

bool Node::save_position(Source& source) {
  if (source.full || !source.positions.streaming()) return true;
  if (source.positions.stream() == source.saved_seq) return true;
  Pos stream{Oracle::number(source.positions.history()), source.positions.stream()};
  disk_.write([stream, master = source.master](Image& i) { i.stream[at(master)] = stream; }, false);
  source.saved_seq = stream.seq;
  return true;
}

// ---- time

void Node::tick(Link& link) {
  if (link.conn == 0 || link.broken) return;
  sync_disk(link);
  step(link, follow::Tick{});
}

void Node::sync_disk(Link& link) {
  Source& source = *link.source;
  if (link.conn == 0 || link.broken || link.syncing) return;
  if (!link.sync_wanted && context_.now - link.synced_at < Timing::kSync) return;
  link.synced_at = context_.now;
  if (!source.positions.streaming()) return;
  save_position(source);
  uint64_t seq = source.positions.cursor();
  if (seq == link.synced_seq && !link.sync_wanted) return;
  link.sync_wanted = false;
  link.syncing = Link::Syncing{seq, link.number, link.session->rewinds(), false};
}

void Node::disk_synced(Link& link) {
  disk_.sync();
  link.syncing->done = true;
}

void Node::tell_synced(Link& link) {
  Link::Syncing was = *link.syncing;
  link.syncing.reset();
  if (was.session != link.number || link.conn == 0 || link.broken) return;
  if (was.rewinds == link.session->rewinds()) {
    link.synced_seq = was.seq;
    step(link, follow::Synced{was.seq});
  }
  if (link.sync_wanted) sync_disk(link);
}

// ---- what is acknowledged

void Node::check_sent(Link& link, std::string_view bytes) {
  if (bytes.find("$3\r\nack\r\n") == std::string_view::npos &&
      bytes.find("$6\r\nstream\r\n") == std::string_view::npos) {
    return;
  }
  RequestParser parser;
  Request request;
  parser.parse(bytes, &request);
  auto message = wire::decode_replica(request.argv);
  if (!message) return;
  if (const auto* from = std::get_if<wire::StreamFrom>(&*message)) {
    link.acked = std::min(link.acked, from->at.seq);
  }
  if (const auto* ack = std::get_if<wire::Ack>(&*message)) check_ack(link, *ack);
}

uint64_t Node::safe_position(const Source& source, bool told) const {
  const Image& safe = disk_.durable();
  if (source.full) return safe.full && safe.full->mirror ? safe.last() : UINT64_MAX;
  uint64_t lowest = UINT64_MAX;
  for (int s = 0; s < kSlots; ++s) {
    const SlotState& record = safe.record[at(s)];
    if (!record.followed || !record.placed || record.master != source.master) continue;
    if (!source.positions.follows(s) || source.positions.unanswered().contains(s)) continue;
    if (told && (!source.positions.position(s) || source.storing.contains(s))) continue;
    auto pos = safe.ahead[at(s)] ? safe.ahead[at(s)] : safe.stream[at(source.master)];
    lowest = std::min(lowest, pos ? pos->seq : 0);
  }
  return lowest;
}

// Acks go back only with the stream, and what they call synced survives any crash.
void Node::check_ack(Link& link, const wire::Ack& ack) {
  if (ack.applied < link.acked) {
    throw Violation(cat("node ", id_, " acknowledged ", ack.applied, " after ", link.acked));
  }
  link.acked = ack.applied;
  if (ack.synced > ack.applied) throw Violation("an ack with more synced than applied");
  const uint64_t safe = safe_position(*link.source, true);
  if (ack.synced > safe) {
    throw Violation(
        cat("node ", id_, " called ", ack.synced, " synced; a power loss would leave ", safe));
  }
}

}  // namespace sf::sim
