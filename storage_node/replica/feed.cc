#include "storage_node/replica/feed.h"

#include <algorithm>

#include "common/base/coding.h"
#include "common/base/strings.h"

namespace sf {
namespace {

constexpr int64_t kTickUs = 250'000;
constexpr int64_t kLingerUs = 100'000;

std::string ip_of(const std::string& peer) {
  return peer.substr(0, peer.find_last_of(':'));
}

uint64_t lowest_of(const std::vector<SlotGroup>& groups, uint64_t lowest) {
  for (const SlotGroup& group : groups) {
    if (group.position) lowest = std::min(lowest, group.position->seq);
  }
  return lowest;
}

feed::LogRead::Entry feed_entry(const LogEntry& entry) {
  feed::LogRead::Entry out;
  out.record.seq = entry.seq;
  out.record.time_ms = entry.time_ms;
  out.reload = entry.kind == LogEntry::Kind::kReload;
  if (out.reload) out.reload_slots = entry.slots;
  if (!entry.ops) return out;
  out.record.ops.reserve(entry.ops->size());
  for (const WriteOp& op : *entry.ops) {
    out.record.ops.push_back(
        {static_cast<uint8_t>(op.kind), static_cast<uint8_t>(op.cf), op.key, op.value});
  }
  return out;
}

}  // namespace

Feed::Feed(uint64_t id, ReplicaState& state, Loop& loop, TakenConnection connection,
           FeedOptions options, std::function<void()> ended)
    : id_(id),
      state_(state),
      loop_(loop),
      options_(std::move(options)),
      ended_(std::move(ended)),
      session_(FeedLimits(), loop.now_us()),
      early_(std::move(connection.unread)),
      handler_(std::move(connection.handler)),
      stream_(std::move(connection.stream)) {
  report_.id = id;
  report_.ip = ip_of(connection.peer);
  report_.state = "wait";
  handler_->set_target(this);
  take_settings();
}

void Feed::take_settings() {
  const ReplicaSettings settings = options_.settings();
  FeedLimits limits;
  limits.ping_us = settings.ping_us();
  limits.silence_us = settings.silence_us();
  limits.exports = settings.copy_parallel;
  session_.set_limits(limits);
  unsent_max_ = static_cast<size_t>(settings.output_bytes);
  if (stream_) stream_->set_marks(unsent_max_ / 4, unsent_max_);
}

Feed::~Feed() {
  if (subscription_ != 0) state_.engine.unsubscribe(subscription_);
  state_.engine.drop_log_claim(claim_);
  loop_.cancel(tick_timer_);
  loop_.cancel(linger_timer_);
}

void Feed::start(wire::Sync sync) {
  // From here on the backlog is kept in memory and every commit wakes us.
  wake_ = std::make_shared<FeedWake>(loop_, weak_from_this());
  subscription_ = state_.engine.subscribe([wake = wake_](uint64_t) { post_wake(wake); });
  tick_timer_ = loop_.call_after(kTickUs, [this] { tick(); });
  feed::Asked asked;
  asked.last_seq = state_.engine.last_seq();
  claim_ = cat("replica ", report_.ip, ":", sync.port, " (", id_, ")");
  // Before asking what is there: none of it may go until the session says what it needs.
  state_.engine.claim_log_after(claim_, lowest_of(sync.groups, asked.last_seq));
  asked.time_ms = state_.engine.settled_time().time_ms;
  asked.oldest_seq = state_.engine.oldest_seq();
  asked.run_id = options_.run_id;
  if (sync.full) {
    for (const auto& [name, value] : state_.engine.scan_sys(std::string(kSharedPrefix))) {
      put_bytes(asked.records, name);
      put_bytes(asked.records, value);
    }
  }
  {
    const std::lock_guard lock(state_.mutex);
    asked.floor = state_.floor;
    asked.mirror = state_.full.has_value();
    if (state_.full && !state_.full->mirror) {
      asked.not_ready = cat("this node is itself being copied from ", state_.full->master.text());
    }
    HistoryLog::Snapshot histories = state_.histories.snapshot();
    asked.chain = std::move(histories.chain);
    histories_seen_ = histories.total;
    generation_ = histories.generation;
  }
  asked.sync = std::move(sync);
  step(asked);
}

void Feed::wake() {
  post_wake(wake_);
}

void Feed::want_synced(uint64_t seq) {
  loop_.post([weak = weak_from_this(), seq] {
    if (auto feed = weak.lock()) feed->step(feed::AckWanted{seq});
  });
}

// Commits come by the ten thousand a second; one post is enough for all of them until it has run.
void Feed::post_wake(const std::shared_ptr<FeedWake>& wake) {
  if (!wake || wake->posted.exchange(true)) return;
  wake->loop.post([wake] {
    wake->posted.store(false);
    if (auto feed = wake->feed.lock()) feed->step(feed::LogMoved{});
  });
}

void Feed::step(const feed::Event& event) {
  if (over_) return;
  for (const feed::Action& action : session_.step(event, loop_.now_us())) {
    carry_out(action);
    if (over_) return;
  }
  publish();
}

void Feed::carry_out(const feed::Action& action) {
  if (const auto* send = std::get_if<feed::Send>(&action)) {
    stream_->write(send->bytes);
  } else if (const auto* read = std::get_if<feed::ReadLog>(&action)) {
    read_log(read->after);
  } else if (const auto* slot = std::get_if<feed::Export>(&action)) {
    start_export(slot->slot);
  } else if (const auto* keep = std::get_if<feed::KeepLog>(&action)) {
    state_.engine.claim_log_after(claim_, keep->from);
  } else if (const auto* close_action = std::get_if<feed::Close>(&action)) {
    end(close_action->why);
  }
}

// Slots of other masters among our own: the entries here are of several clocks.
bool Feed::mixed() const {
  const int followed = state_.engine.followed_slots();
  return followed != 0 && followed != kSlotCount;
}

void Feed::read_log(uint64_t after) {
  settled_ = {};
  if (mixed()) settled_ = state_.engine.settled_time();
  if (auto recent = state_.engine.read_backlog(after, kReadBytes)) {
    return give_log(after, std::move(*recent));
  }
  options_.log_thread->run(
      [weak = weak_from_this(), &engine = state_.engine, &loop = loop_, after] {
        auto entries =
            std::make_shared<Result<std::vector<LogEntry>>>(engine.read_log(after, kReadBytes));
        loop.post([weak, after, entries] {
          if (auto feed = weak.lock(); feed && !feed->over_) feed->give_log(after, *entries);
        });
      });
}

// Reads on until there is nothing more, the socket is behind, or the turn is long enough.
void Feed::give_log(uint64_t after, const Result<std::vector<LogEntry>>& entries) {
  if (end_if_replaced()) return;
  if (!entries) {
    if (entries.status().code() == Code::kNotFound) {
      end_if_cut();
      return step(feed::LogPurged{after});
    }
    return end(entries.status());
  }
  feed::LogRead read;
  read.after = after;
  read.entries.reserve(entries->size());
  for (const LogEntry& entry : *entries) read.entries.push_back(feed_entry(entry));
  read.version = state_.engine.next_version();
  read.mixed = settled_.time_ms != 0 || mixed();
  uint64_t last = entries->empty() ? after : entries->back().seq;
  if (last >= settled_.seq) read.wall_ms = settled_.time_ms;
  read.histories = state_.histories.since(generation_, &histories_seen_);
  bool any = !read.entries.empty();
  for (const feed::Action& action : session_.step(read, loop_.now_us())) {
    // Another read is put off to the next turn, so that the frame leaves first.
    if (std::holds_alternative<feed::ReadLog>(action) && any) {
      loop_.post([weak = weak_from_this(), next = std::get<feed::ReadLog>(action).after] {
        if (auto feed = weak.lock(); feed && !feed->over_) feed->read_log(next);
      });
    } else {
      carry_out(action);
    }
    if (over_) return;
  }
  note_room();
  publish();
}

void Feed::note_room() {
  if (!over_ && stream_->unsent_bytes() > unsent_max_) step(feed::Room{false});
}

// ---- copies

void Feed::start_export(int slot) {
  idle_exporter().start(slot);
}

// The session has no more exports under way than its limit: an exporter is idle, or one more is
// made.
FeedExporter& Feed::idle_exporter() {
  for (auto& exporter : exporters_) {
    if (exporter->idle()) return *exporter;
  }
  auto weak = weak_from_this();
  Loop& loop = loop_;
  auto self = std::make_shared<FeedExporter*>(nullptr);
  exporters_.push_back(std::make_unique<FeedExporter>(
      state_.engine, state_.histories, options_.copy_rate,
      [weak, &loop, self](int slot, Engine::SstChunk chunk) {
        loop.post([weak, self, slot, chunk = std::make_shared<Engine::SstChunk>(std::move(chunk))] {
          auto feed = weak.lock();
          if (feed && !feed->over_) feed->on_chunk(*self, slot, *chunk);
        });
      },
      [weak, &loop](FeedExporter::Done done) {
        loop.post([weak, done = std::move(done)] {
          auto feed = weak.lock();
          if (feed && !feed->over_) feed->on_export_done(done);
        });
      }));
  *self = exporters_.back().get();
  return **self;
}

void Feed::on_chunk(FeedExporter* exporter, int slot, const Engine::SstChunk& chunk) {
  step(feed::ExportChunk{slot, static_cast<uint8_t>(chunk.cf), chunk.entries, chunk.bytes});
  if (over_) return;
  held_chunks_.push_back(exporter);
  if (stream_->unsent_bytes() <= unsent_max_) on_drained();
}

void Feed::on_export_done(FeedExporter::Done done) {
  for (auto& exporter : exporters_) exporter->finished(done.slot);
  if (!done.status) return step(feed::ExportFailed{done.status});
  if (end_if_replaced()) return;
  step(feed::ExportDone{done.slot, done.at, done.version,
                        state_.histories.since(generation_, &histories_seen_)});
}

// ---- the socket

void Feed::take_messages(std::string_view data, size_t* used) {
  *used = 0;
  while (*used < data.size() && !over_) {
    Request request;
    auto outcome = parser_.parse(data.substr(*used), &request);
    if (outcome == RequestParser::Outcome::kError) {
      return end(Status::corrupt(cat("no replication message: ", parser_.error())));
    }
    if (outcome == RequestParser::Outcome::kNeedMore) {
      *used += parser_.consumed();
      return;
    }
    auto message = wire::decode_replica(request.argv);
    *used += parser_.consumed();
    if (!message) return end(message.status());
    if (auto* want = std::get_if<wire::Want>(&*message)) {
      take_want(std::move(*want));
    } else {
      step(feed::Said{std::move(*message)});
    }
  }
}

void Feed::take_want(wire::Want want) {
  feed::Wanted wanted;
  wanted.want = std::move(want);
  wanted.last_seq = state_.engine.last_seq();
  // As in start(): before asking what is there.
  const uint64_t lowest = lowest_of(wanted.want.groups, session_.kept());
  if (lowest < session_.kept()) state_.engine.claim_log_after(claim_, lowest);
  wanted.oldest_seq = state_.engine.oldest_seq();
  {
    const std::lock_guard lock(state_.mutex);
    wanted.floor = state_.floor;
    wanted.mirror = state_.full.has_value();
  }
  if (end_if_replaced()) return;
  wanted.histories = state_.histories.since(generation_, &histories_seen_);
  step(wanted);
}

size_t Feed::on_data(std::string_view unread) {
  size_t used = 0;
  if (early_.empty()) {
    take_messages(unread, &used);
    return over_ ? unread.size() : used;
  }
  early_.append(unread);
  std::string data = std::move(early_);
  take_messages(data, &used);
  early_ = data.substr(std::min(used, data.size()));
  return unread.size();
}

void Feed::on_drained() {
  for (FeedExporter* exporter : held_chunks_) exporter->release();
  held_chunks_.clear();
  step(feed::Room{true});
}

void Feed::on_closed(const Status& why) {
  end(why);
}

void Feed::close() {
  end(Status::unavailable("the node stops"));
}

void Feed::end(const Status& why) {
  if (over_) return;
  over_ = true;
  {
    const std::lock_guard lock(report_mutex_);
    report_.over = true;
  }
  FeedReport last = report();
  state_.log.info(cat("replica ", last.ip, ":", last.port, " is gone: ", why.text()));
  loop_.cancel(tick_timer_);
  for (auto& exporter : exporters_) exporter->stop();
  // The last words (why it was refused) still have to leave; then the owner lets go of us.
  if (stream_) stream_->close_after_flush();
  linger_timer_ = loop_.call_after(kLingerUs, [weak = weak_from_this()] {
    if (auto feed = weak.lock()) feed->ended_();
  });
}

// What is read or was copied now is not of the log this session speaks of.
bool Feed::end_if_replaced() {
  if (state_.histories.generation() == generation_) return false;
  end(Status::unavailable("the log here was replaced by another master's"));
  return true;
}

// The engine let go of log this replica still needs.
void Feed::end_if_cut() {
  const std::string lost = state_.engine.lost_log_claim(claim_);
  if (!lost.empty()) step(feed::LogCut{cat(report_.ip, ":", session_.peer().port), lost});
}

void Feed::tick() {
  tick_timer_ = loop_.call_after(kTickUs, [this] { tick(); });
  end_if_cut();
  if (over_) return;
  take_settings();
  const Engine::SettledTime settled = state_.engine.settled_time();
  step(feed::Tick{settled.time_ms, settled.seq});
}

// ---- for INFO

void Feed::publish() {
  bool news = session_.acked_us() != told_acked_us_ || session_.state() != told_state_;
  told_acked_us_ = session_.acked_us();
  told_state_ = session_.state();
  publish_report();
  if (news && session_.full()) options_.acked(report());
}

void Feed::publish_report() {
  const std::lock_guard lock(report_mutex_);
  report_.port = session_.peer().port;
  report_.full = session_.full();
  report_.slots = session_.slots();
  report_.copying = session_.copying();
  report_.sent = session_.sent();
  report_.acked = session_.acked();
  report_.synced = session_.synced();
  report_.acked_us = session_.acked_us();
  bool streaming = session_.state() == FeedSession::State::kStreaming;
  report_.state = streaming                                       ? "online"
                  : session_.state() == FeedSession::State::kOpen ? "copying"
                                                                  : "wait";
}

FeedReport Feed::report() const {
  const std::lock_guard lock(report_mutex_);
  return report_;
}

}  // namespace sf
