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

RequestLimits stream_limits() {
  RequestLimits limits;
  limits.args_max = 1 << 16;
  limits.bulk_bytes_max = 1200UL << 20;  // one batch with the largest value, and then some
  limits.request_bytes_max = 1300UL << 20;
  return limits;
}

}  // namespace

Link::Link(ReplicaState& state, Loop& loop, std::shared_ptr<Source> source,
           std::function<FollowConfig()> config)
    : state_(state),
      loop_(loop),
      source_(std::move(source)),
      config_(std::move(config)),
      store_(state_, source_),
      files_(state_.engine.dir(), source_->master.text()),
      backoff_(kFirstRetryUs, kLastRetryUs, Random::system_seed()),
      parser_(stream_limits()),
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

bool Link::stale() const {
  return source_->gone || source_->restart != restart_seen_;
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
    restart_seen_ = source_->restart;
    source_->positions.end_session();
    lower(Source::Link::kConnecting);
    source_->dropped = {};
    config.full = source_->full;
    session_.emplace(std::move(config), source_->positions, loop_.now_us());
  }
  parser_ = RequestParser(stream_limits());
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
  bool anew = false;
  SlotSet dropped;
  {
    const std::lock_guard lock(state_.mutex);
    if (source_->gone) return;
    anew = source_->restart != restart_seen_;
    std::swap(dropped, source_->dropped);
  }
  if (anew) {
    backoff_.reset();
    connect();
  } else if (!dropped.empty()) {
    step(follow::Dropped{dropped});
  }
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

size_t Link::take_one(std::string_view data) {
  if (data[0] == '+' || data[0] == '-') {
    size_t end = data.find("\r\n");
    if (end == std::string_view::npos) return 0;
    step(follow::Line{std::string(data.substr(0, end))});
    return end + 2;
  }
  Request request;
  auto outcome = parser_.parse(data, &request);
  size_t used = parser_.consumed();
  if (outcome == RequestParser::Outcome::kError) {
    step(follow::Failed{Status::corrupt(cat("no replication stream: ", parser_.error()))});
    return data.size();
  }
  if (outcome == RequestParser::Outcome::kNeedMore) return used;
  auto message = wire::decode_master(request.argv);
  if (message) {
    step(follow::Said{std::move(*message)});
  } else {
    step(follow::Failed{message.status()});
  }
  return used;
}

size_t Link::on_data(std::string_view unread) {
  size_t used = 0;
  while (used < unread.size() && !broken_) {
    size_t taken = take_one(unread.substr(used));
    if (taken == 0) break;
    used += taken;
  }
  return broken_ ? unread.size() : used;
}

void Link::step(const follow::Event& event) {
  Lock lock(state_.mutex);
  if (!session_ || broken_) return;
  if (stale()) {
    begin_anew();
    return;
  }
  run(session_->step(event, loop_.now_us()), lock);
  show_state();
}

// The session is void: at the turn's end a new one begins, unless look() was faster.
void Link::begin_anew() {
  broken_ = true;
  loop_.defer([self = self_, number = session_number_] {
    if (*self != nullptr && (*self)->session_number_ == number) (*self)->connect();
  });
}

void Link::run(std::vector<follow::Action> actions, Lock& lock) {
  for (auto& action : actions) queue_.push_back(std::move(action));
  while (!queue_.empty() && !broken_) {
    follow::Action action = std::move(queue_.front());
    queue_.pop_front();
    carry_out(action, lock);
  }
  queue_.clear();
}

// What the session asks in answer comes before what it had asked to be done after.
void Link::answer(const follow::Event& event) {
  auto actions = session_->step(event, loop_.now_us());
  queue_.insert(queue_.begin(), std::make_move_iterator(actions.begin()),
                std::make_move_iterator(actions.end()));
}

void Link::carry_out(follow::Action& action, Lock& lock) {
  Status done;
  if (auto* send = std::get_if<follow::Send>(&action)) {
    stream_->write(send->bytes);
  } else if (auto* accepted = std::get_if<follow::Accepted>(&action)) {
    done = store_.accepted(accepted->hello);
    if (!accepted->why_copy.empty()) {
      source_->error = accepted->why_copy;  // shown until the link is up
      state_.log.warning(accepted->why_copy);
    }
  } else if (auto* chunk = std::get_if<follow::StoreChunk>(&action)) {
    done = files_.add(static_cast<Cf>(chunk->chunk.family), chunk->chunk.bytes);
  } else if (auto* slot = std::get_if<follow::StoreSlot>(&action)) {
    return store_slot(*slot, lock);
  } else if (auto* begin = std::get_if<follow::BeginStream>(&action)) {
    done = store_.begin_stream(begin->seq);
    state_.positions_moved();
  } else if (auto* apply = std::get_if<follow::Apply>(&action)) {
    done = store_.apply(*apply);
    if (done) {
      answer(follow::Applied{apply->to});
      state_.positions_moved();
    }
  } else if (auto* adopt = std::get_if<follow::AdoptHistory>(&action)) {
    done = store_.adopt(adopt->history);
    state_.positions_moved();
  } else if (auto* time = std::get_if<follow::MasterTime>(&action)) {
    store_.master_time(time->time_ms);
  } else if (auto* fail = std::get_if<follow::Fail>(&action)) {
    return failed(*fail);
  }
  if (!done) answer(follow::Failed{done});
}

void Link::store_slot(const follow::StoreSlot& action, Lock& lock) {
  bool wanted = source_->positions.follows(action.done.slot);
  Status done;
  if (wanted) {
    StoreJob job = store_.store_job(action.done, action.reload_seq);
    source_->storing = action.done.slot;
    lock.unlock();
    done = job.run(state_.engine, files_.files());
    lock.lock();
    source_->storing = -1;
    if (done) store_.stored(action.done, action.reload_seq);
  }
  files_.clear();
  if (stale()) {
    // The copy is in place all the same; the next session need not fetch it again.
    if (wanted && done && !source_->gone) {
      source_->positions.set_copied(action.done.slot, action.done.at);
    }
    return begin_anew();
  }
  if (!done) return answer(follow::Failed{done.with_context("storing a copied slot")});
  answer(follow::Stored{action.done.slot});
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
      if (again) link.source_->positions.need_copy(link.source_->positions.slots());
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
  using State = FollowSession::State;
  Source::Link before = source_->link;
  switch (session_->state()) {
    case State::kStreaming:
      source_->link = Source::Link::kUp;
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
    backoff_.reset();
    state_.log.info(
        cat("link to ", source_->master.text(), " is up at ", source_->positions.stream()));
  }
}

// ---- time

void Link::tick() {
  tick_timer_ = loop_.call_after(kTickUs, [this] { tick(); });
  if (stream_ == nullptr || broken_) return;
  sync_disk();
  step(follow::Tick{});
}

// The master keeps its log until we say that what we applied is on disk.
void Link::sync_disk() {
  int64_t now = loop_.now_us();
  if (syncing_ || now - synced_us_ < kSyncEveryUs) return;
  synced_us_ = now;
  uint64_t seq = 0;
  {
    const std::lock_guard lock(state_.mutex);
    if (!source_->positions.streaming()) return;
    if (Status s = store_.save_position(); !s) state_.log.error(s.text());
    seq = source_->positions.stream();
  }
  if (seq == synced_seq_) return;
  syncing_ = true;
  disk_.run([self = self_, &loop = loop_, &engine = state_.engine, seq, session = session_number_] {
    const Status status = engine.flush_wal(true);
    loop.post([self, seq, session, status] {
      if (*self != nullptr) (*self)->on_synced(seq, session, status);
    });
  });
}

void Link::on_synced(uint64_t seq, uint64_t session, const Status& status) {
  syncing_ = false;
  if (!status) return state_.log.error(status.text());
  if (session != session_number_ || stream_ == nullptr || broken_) return;
  synced_seq_ = seq;
  step(follow::Synced{seq});
}

}  // namespace sf
