#include "storage_node/replica/link.h"

#include <algorithm>

namespace sf {
namespace {

constexpr int64_t kConnectTimeoutUs = 3'000'000;
constexpr int64_t kTickUs = 200'000;
constexpr int64_t kSyncEveryUs = 1'000'000;
constexpr int64_t kFinalRetryUs = 5'000'000;
constexpr int64_t kPortRetryUs = 2'000;
constexpr int64_t kFirstRetryUs = 20'000;
constexpr int64_t kLastRetryUs = 1'000'000;

}  // namespace

Link::Link(ReplicaState& state, Loop& loop, std::shared_ptr<Source> source,
           std::function<FollowConfig()> config, PeerSessionMaker make_session)
    : state_(state),
      loop_(loop),
      source_(std::move(source)),
      config_(std::move(config)),
      make_session_(std::move(make_session)),
      store_(state_, source_),
      files_(state_.engine.dir(), source_->master.text()),
      backoff_(kFirstRetryUs, kLastRetryUs, Random::system_seed()),
      self_(std::make_shared<Link*>(this)) {
  {
    const std::lock_guard lock(state_.mutex);
    source_->link_since_us = loop_.now_us();
  }
  tick_timer_ = loop_.call_after(kTickUs, [this] { tick(); });
  connect();
}

Link::~Link() {
  *self_ = nullptr;
  loop_.cancel(retry_timer_);
  loop_.cancel(tick_timer_);
  const std::lock_guard lock(state_.mutex);
  source_->positions.end_session();
  lower(Source::Link::kDown);
}

// ---- connecting

void Link::connect() {
  end_stream();
  FollowConfig config = config_();
  // The node is starting and does not know its port yet, which the master shows to others.
  if (config.port == 0) return retry_after(kPortRetryUs);
  {
    const std::lock_guard lock(state_.mutex);
    if (source_->gone) return;
    // What is being stored has a position afterwards, which the master should hear.
    connect_waits_ = !source_->storing.empty();
    if (connect_waits_) return;
    source_->positions.end_session();
    lower(Source::Link::kConnecting);
    source_->dropped = {};
    config.full = source_->full;
    session_ = make_session_(std::move(config), source_->positions, loop_.now_us());
  }
  ++session_number_;
  broken_ = false;
  stream_ = loop_.connect(source_->master.host, source_->master.port, kConnectTimeoutUs, this);
}

void Link::end_stream() {
  loop_.cancel(retry_timer_);
  retry_timer_ = 0;
  stream_.reset();
  files_.clear();
}

void Link::retry_after(int64_t us) {
  loop_.cancel(retry_timer_);
  retry_timer_ = loop_.call_after(us, [this] { connect(); });
}

void Link::look() {
  if (stream_ != nullptr) step(follow::Changed{});
}

void Link::on_connected() {
  step(follow::Connected{});
}

void Link::on_closed(const Status& why) {
  if (broken_) return;  // the reason that is told is the first one
  {
    const std::lock_guard lock(state_.mutex);
    source_->positions.end_session();
  }
  failed({why.with_context(cat("link to ", source_->master.text())), follow::Fail::Kind::kRetry});
}

// ---- messages

size_t Link::on_data(std::string_view unread) {
  size_t used = 0;
  while (used < unread.size() && !broken_ && session_) {
    size_t taken = 0;
    const auto event = session_->read(unread.substr(used), &taken);
    used += taken;
    if (event) {
      step(*event);
    } else if (taken == 0) {
      break;
    }
  }
  return broken_ ? unread.size() : used;
}

void Link::step(const follow::Event& event) {
  const std::lock_guard lock(state_.mutex);
  if (!session_ || broken_) return;
  if (source_->gone) {  // match_links ends us
    broken_ = true;
    return;
  }
  tell_dropped();
  run(session_->step(event, loop_.now_us()));
  show_state();
}

// Before anything else: what comes for these slots from now on is not for whoever follows them
// anew.
void Link::tell_dropped() {
  if (source_->dropped.empty()) return;
  SlotSet dropped;
  std::swap(dropped, source_->dropped);
  dropped.for_each([&](int slot) { files_.clear(slot); });
  run(session_->step(follow::Dropped{dropped}, loop_.now_us()));
}

void Link::run(std::vector<follow::Action> actions) {
  for (auto& action : actions) queue_.push_back(std::move(action));
  while (!queue_.empty() && !broken_) {
    follow::Action action = std::move(queue_.front());
    queue_.pop_front();
    carry_out(action);
  }
  queue_.clear();
}

void Link::show_why_copy(const std::string& why) {
  if (why.empty()) return;
  source_->error = why;  // shown until the link is up
  state_.log.warning(why);
}

// What the session asks in answer comes before what it had asked to be done after.
void Link::answer(const follow::Event& event) {
  auto actions = session_->step(event, loop_.now_us());
  queue_.insert(queue_.begin(), std::make_move_iterator(actions.begin()),
                std::make_move_iterator(actions.end()));
}

void Link::carry_out(follow::Action& action) {
  Status done;
  if (auto* send = std::get_if<follow::Send>(&action)) {
    stream_->write(send->bytes);
  } else if (auto* accepted = std::get_if<follow::Accepted>(&action)) {
    done = store_.accepted(accepted->hello);
    show_why_copy(accepted->why_copy);
  } else if (auto* took = std::get_if<follow::Took>(&action)) {
    done = store_.took(*took);
    show_why_copy(took->why_copy);
  } else if (auto* chunk = std::get_if<follow::StoreChunk>(&action)) {
    const wire::Chunk& piece = chunk->chunk;
    done = files_.add(piece.slot, static_cast<Cf>(piece.family), piece.bytes);
    source_->copy.bytes += piece.bytes.size();
    source_->copy.entries += piece.entries;
  } else if (auto* slot = std::get_if<follow::StoreSlot>(&action)) {
    return store_slot(*slot);
  } else if (auto* begin = std::get_if<follow::BeginStream>(&action)) {
    done = store_.begin_stream(begin->seq);
    state_.positions_moved();
  } else if (auto* apply = std::get_if<follow::Apply>(&action)) {
    done = store_.apply(*apply);
    if (done) {
      answer(follow::Applied{apply->to});
      state_.positions_moved();
      backoff_.reset();  // not when it comes up: a full disk would be tried all the time
    }
  } else if (auto* adopt = std::get_if<follow::AdoptHistory>(&action)) {
    done = store_.adopt(adopt->history);
    state_.positions_moved();
  } else if (auto* time = std::get_if<follow::MasterTime>(&action)) {
    store_.master_time(time->time_ms);
    backoff_.reset();
  } else if (std::holds_alternative<follow::SyncNow>(action)) {
    sync_wanted_ = true;
    loop_.defer([self = self_] {
      if (*self != nullptr) (*self)->sync_disk();
    });
  } else if (auto* fail = std::get_if<follow::Fail>(&action)) {
    return failed(*fail);
  }
  if (!done) answer(follow::Failed{done});
}

// Verbs leave the slot alone until on_stored, so its record stays what the job was made from.
void Link::store_slot(const follow::StoreSlot& action) {
  const int slot = action.done.slot;
  ChunkFiles::Files files = files_.take(slot);
  if (!source_->positions.follows(slot)) {
    ChunkFiles::remove(files);
    return answer(follow::Stored{slot});
  }
  source_->storing.add(slot);
  ingest_.run([self = self_, &loop = loop_, &engine = state_.engine, action,
               job = store_.store_job(action.done, action.reload_seq), files = std::move(files),
               session = session_number_] {
    const Status done = job.run(engine, files);
    ChunkFiles::remove(files);
    loop.post([self, action, session, done] {
      if (*self != nullptr) (*self)->on_stored(action, session, done);
    });
  });
}

void Link::on_stored(const follow::StoreSlot& action, uint64_t session, const Status& done) {
  const int slot = action.done.slot;
  bool over = session != session_number_ || stream_ == nullptr || broken_;
  {
    const std::lock_guard lock(state_.mutex);
    source_->storing.remove(slot);
    if (done) store_.stored(action.done, action.reload_seq);
    // The copy is in place all the same; the next session need not fetch it again.
    if (over && done) {
      source_->positions.end_session();
      source_->positions.set_copied(slot, action.done.at);
      if (action.reload_seq) source_->positions.raise(*action.reload_seq);
    }
  }
  if (over) {
    if (connect_waits_) connect();
    return;
  }
  if (!done) return step(follow::Failed{done.with_context("storing a copied slot")});
  step(follow::Stored{slot});
  const std::lock_guard lock(state_.mutex);
  state_.positions_moved();
}

// May run with or without the mutex: touches only what the link's thread owns, and the error text.
void Link::failed(const follow::Fail& fail) {
  broken_ = true;
  queue_.clear();
  int64_t wait = fail.kind == follow::Fail::Kind::kFinal ? kFinalRetryUs : backoff_.next_us();
  bool again = fail.kind == follow::Fail::Kind::kCopyAgain;
  std::string text = fail.why.text();
  if (text != last_error_) state_.log.warning(text);
  last_error_ = text;
  loop_.defer([self = self_, wait, again, text, number = session_number_] {
    if (*self == nullptr || (*self)->session_number_ != number) return;
    Link& link = **self;
    link.end_stream();
    {
      const std::lock_guard lock(link.state_.mutex);
      link.lower(Source::Link::kDown);
      link.source_->error = text;
      if (again) {
        SlotSet left = link.source_->positions.slots();
        left.remove(link.source_->storing);
        link.source_->positions.need_copy(left);
      }
    }
    link.retry_after(wait);
  });
}

// A link that is down stays down while it tries again: only leaving "up" begins the time.
void Link::lower(Source::Link to) {
  if (source_->link == Source::Link::kUp) source_->link_since_us = loop_.now_us();
  source_->link = to;
}

void Link::show_state() {
  if (broken_) return;
  using State = PeerSession::State;
  Source::Link before = source_->link;
  switch (session_->state()) {
    case State::kStreaming:
      source_->link = source_->positions.without_position().empty() ? Source::Link::kUp
                                                                    : Source::Link::kCopying;
      break;
    case State::kCopying:
    case State::kReloading:
      source_->link = Source::Link::kCopying;
      break;
    default:
      source_->link = Source::Link::kConnecting;
  }
  source_->heard_us = session_->heard_us();
  source_->master_seq = std::max(source_->master_seq, session_->master_seq());
  if (before == source_->link) return;
  if (source_->link == Source::Link::kUp) {
    source_->link_since_us = loop_.now_us();
    source_->error.clear();
    last_error_.clear();
    state_.log.info(
        cat("link to ", source_->master.text(), " is up at ", source_->positions.stream()));
  }
}

// ---- time

void Link::tick() {
  tick_timer_ = loop_.call_after(kTickUs, [this] { tick(); });
  if (stream_ == nullptr || broken_) return;
  sync_disk();
  session_->set_limits(config_().limits);
  step(follow::Tick{});
}

// The master keeps its log until we say that what we applied is on disk.
void Link::sync_disk() {
  int64_t now = loop_.now_us();
  if (stream_ == nullptr || broken_ || syncing_) return;
  if (!sync_wanted_ && now - synced_us_ < kSyncEveryUs) return;
  synced_us_ = now;
  SyncPoint point{0, session_number_, session_->rewinds()};
  {
    const std::lock_guard lock(state_.mutex);
    if (!source_->positions.streaming()) return;
    if (Status s = store_.save_position(); !s) state_.log.error(s.text());
    point.seq = source_->positions.cursor();
  }
  if (point.seq == synced_seq_ && !sync_wanted_) return;
  syncing_ = true;
  sync_wanted_ = false;
  disk_.run([self = self_, &loop = loop_, &engine = state_.engine, point] {
    const Status status = engine.flush_wal(true);
    loop.post([self, point, status] {
      if (*self != nullptr) (*self)->on_synced(point, status);
    });
  });
}

void Link::on_synced(const SyncPoint& point, const Status& status) {
  syncing_ = false;
  if (!status) return state_.log.error(status.text());
  if (point.session != session_number_ || stream_ == nullptr || broken_) return;
  if (point.rewinds == session_->rewinds()) {
    synced_seq_ = point.seq;
    step(follow::Synced{point.seq});
  }
  if (sync_wanted_) sync_disk();
}

}  // namespace sf
