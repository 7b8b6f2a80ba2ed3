#include "tests/support/fake_pika/unit.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf::fake_pika {
namespace {

constexpr uint64_t kBlock = 65'536;

std::string frame(const Words& words) {
  std::vector<std::string_view> views(words.begin(), words.end());
  std::string out;
  resp::request(out, views);
  return out;
}

Offset offset_of(const std::string& file, const std::string& offset) {
  return {static_cast<uint32_t>(parse_uint64(file).value_or(0)), parse_uint64(offset).value_or(0)};
}

}  // namespace

Offset Binlog::append(const Words& argv) {
  if (at_.offset > file_size_) at_ = {at_.file + 1, 0};
  size_t left = 34 + frame(argv).size();
  do {
    if (kBlock - at_.offset % kBlock < 8) at_.offset += kBlock - at_.offset % kBlock;
    const size_t room = kBlock - at_.offset % kBlock - 8;
    const size_t part = std::min(left, room);
    at_.offset += 8 + part;
    left -= part;
  } while (left > 0);
  items_.push_back({at_, argv});
  return at_;
}

void Binlog::append_at(const Offset& end, const Words& argv) {
  at_ = end;
  items_.push_back({end, argv});
}

void Binlog::restart_at(const Offset& at) {
  items_.clear();
  at_ = first_ = at;
}

bool Binlog::is_boundary(const Offset& at) const {
  if (at == first_ || at == at_) return true;
  const auto found =
      std::lower_bound(items_.begin(), items_.end(), at,
                       [](const Item& item, const Offset& o) { return item.end < o; });
  return found != items_.end() && found->end == at;
}

uint64_t Binlog::distance(const Offset& from) const {
  return (at_.file - from.file) * file_size_ + at_.offset - from.offset;
}

Pull::Pull(Unit& unit, Loop& loop, const std::string& host, int port)
    : unit_(unit), loop_(loop), host_(host), port_(port) {
  timer_ = loop_.call_after(unit.host().faults->attach_ms * 1000, [this] {
    timer_ = 0;
    stream_ = loop_.connect(host_, port_, 2'000'000, this);
  });
}

Pull::~Pull() {
  if (timer_ != 0) loop_.cancel(timer_);
}

void Pull::on_connected() {
  if (!unit_.host().password.empty()) stream_->write(frame({"AUTH", unit_.host().password}));
  sync();
}

void Pull::sync() {
  const Offset at = unit_.log().at();
  stream_->write(frame({"FAKE.SYNC", unit_.name(), std::to_string(unit_.host().port()),
                        cat("id", unit_.host().replication_id()), std::to_string(at.file),
                        std::to_string(at.offset), unit_.force() ? "force" : "no"}));
}

size_t Pull::on_data(std::string_view unread) {
  size_t used = 0;
  while (used < unread.size()) {
    // Answers to AUTH are status lines; everything else is framed as a request.
    if (unread[used] == '+' || unread[used] == '-') {
      const size_t end = unread.find("\r\n", used);
      if (end == std::string_view::npos) break;
      used = end + 2;
      continue;
    }
    Request request;
    const auto outcome = parser_.parse(unread.substr(used), &request);
    if (outcome != RequestParser::Outcome::kRequest) break;
    const Words message(request.argv.begin(), request.argv.end());
    used += parser_.consumed();
    act(message);
  }
  return used;
}

void Pull::act(const Words& message) {
  const std::string& what = message[0];
  if (what == "id" && message.size() > 1) {
    unit_.host().adopt_id(message[1]);
  } else if (what == "full") {
    unit_.set_state("kWaitDBSync");
  } else if (what == "incr") {
    unit_.set_state("kConnected");
  } else if (what == "error") {
    unit_.set_state(message.at(1));
  } else if (what == "copy") {
    std::vector<Words> commands;
    for (size_t i = 3; i < message.size();) {
      const size_t n = parse_uint64(message[i]).value_or(0);
      const auto first = message.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      commands.emplace_back(first, first + static_cast<std::ptrdiff_t>(n));
      i += n + 1;
    }
    unit_.load(offset_of(message.at(1), message.at(2)), commands);
    unit_.copied();
    sync();
  } else if (what == "item" && !refuses_) {
    const Offset end = offset_of(message.at(1), message.at(2));
    if (unit_.received(end, Words(message.begin() + 3, message.end()))) {
      stream_->write(frame({"FAKE.ACK", message[1], message[2]}));
    } else {
      ask_again();
    }
  }
}

// What cannot be applied is asked for again, for ever; in between the link looks up.
void Pull::ask_again() {
  refuses_ = true;
  timer_ = loop_.call_after(50'000, [this] {
    unit_.set_state("kTryConnect");
    timer_ = loop_.call_after(50'000, [this] {
      timer_ = 0;
      refuses_ = false;
      if (stream_ != nullptr) sync();
    });
  });
}

void Pull::on_closed(const Status&) {
  stream_.reset();
  parser_ = RequestParser();
  unit_.set_state("kTryConnect");
  if (timer_ != 0) loop_.cancel(timer_);
  refuses_ = false;
  timer_ = loop_.call_after(50'000, [this] {
    timer_ = 0;
    stream_ = loop_.connect(host_, port_, 2'000'000, this);
  });
}

Unit::Unit(std::string name, const UnitHost* host)
    : name_(std::move(name)), host_(host), log_(host->file_size) {
  workers_.resize(static_cast<size_t>(host->workers));
}

Unit::~Unit() {
  *alive_ = false;
  for (Worker& worker : workers_) {
    if (worker.timer != 0) host_->loop->cancel(worker.timer);
  }
}

void Unit::feed_one(Feed& feed, const Offset& end, const Words& argv) {
  Words message{"item", std::to_string(end.file), std::to_string(end.offset)};
  message.insert(message.end(), argv.begin(), argv.end());
  feed.send(message);
  feed.sent = end;
}

void Unit::write(const std::vector<Words>& logs) {
  for (const Words& argv : logs) {
    const Offset end = log_.append(argv);
    for (const auto& feed : feeds_) {
      if (feed->state == "SlaveBinlogSync") feed_one(*feed, end, argv);
    }
  }
}

void Unit::follow(const std::string& host, int port, bool force) {
  if (host == master_host_ && port == master_port_) return;
  master_host_ = host;
  master_port_ = port;
  force_ = force;
  state_ = "kTryConnect";
  pull_ = std::make_unique<Pull>(*this, *host_->loop, host, port);
}

void Unit::leave() {
  pull_.reset();
  master_host_.clear();
  master_port_ = 0;
  state_ = "kNoConnect";
  if (!host_->faults->late_apply) drain();
}

bool Unit::between_steps() const {
  return state_ == "kTryDBSync" || state_ == "kWaitDBSync" || state_ == "kWaitReply";
}

void Unit::apply(const Words& argv) {
  (void)data_.execute(argv, host_->loop->wall_ms() / 1000, host_->faults->of_log());
}

bool Unit::received(const Offset& end, const Words& argv) {
  if (argv[0] == "pksetexat" && argv[2].size() > 10) return false;
  log_.append_at(end, argv);
  for (const auto& feed : feeds_) {
    if (feed->state == "SlaveBinlogSync") feed_one(*feed, end, argv);
  }
  if (argv[0] == "flushdb") drain();
  const std::string& by = argv.size() > 1 ? argv[1] : argv[0];
  const size_t worker = std::hash<std::string>{}(by) % workers_.size();
  if (!host_->faults->ack_before_apply) {
    apply(argv);
    return true;
  }
  workers_[worker].queue.push_back(argv);
  if (host_->faults->apply_delay_ms == 0 && workers_[worker].timer == 0) {
    run(worker);
  } else if (workers_[worker].timer == 0) {
    const int64_t delay = host_->faults->apply_delay_ms * (1 + static_cast<int64_t>(worker % 3));
    workers_[worker].timer = host_->loop->call_after(delay * 1000, [this, worker] { run(worker); });
  }
  return true;
}

void Unit::run(size_t index) {
  Worker& worker = workers_[index];
  worker.timer = 0;
  while (!worker.queue.empty()) {
    apply(worker.queue.front());
    worker.queue.pop_front();
  }
}

void Unit::drain() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].timer != 0) host_->loop->cancel(workers_[i].timer);
    run(i);
  }
}

size_t Unit::queued() const {
  size_t out = 0;
  for (const Worker& worker : workers_) out += worker.queue.size();
  return out;
}

void Unit::load(const Offset& at, const std::vector<Words>& commands) {
  drain();
  data_.clear();
  for (const Words& argv : commands) apply(argv);
  log_.restart_at(at);
  state_ = "kTryConnect";
}

void Unit::crash() {
  if (host_->faults->queue_lost_on_kill) {
    for (Worker& worker : workers_) worker.queue.clear();
  }
  drain();
  pull_.reset();
  feeds_.clear();
  master_host_.clear();
  master_port_ = 0;
  state_ = "kNoConnect";
}

void Unit::serve(const std::shared_ptr<Feed>& feed, const std::string& id, const Offset& at,
                 bool force) {
  if (std::find(feeds_.begin(), feeds_.end(), feed) == feeds_.end()) feeds_.push_back(feed);
  const std::string ours = host_->replication_id();
  if (!id.empty() && id != ours) {
    feed->send({"error", "kNoConnect"});
    return;
  }
  if (id.empty() && !ours.empty()) {
    feed->send({"id", ours});
    force = true;
  }
  if (purged_ || force || at < log_.first()) {
    feed->state = "SlaveDbSync";
    feed->send({"full"});
    host_->loop->call_after(host_->faults->copy_ms * 1000, [this, feed, alive = alive_] {
      if (*alive) copy_to(feed);
    });
    return;
  }
  if (at > log_.at() || !log_.is_boundary(at)) {
    feed->send({"error", "kError"});
    return;
  }
  feed->send({"incr"});
  feed->state = "SlaveBinlogSync";
  feed->sent = feed->acked = at;
  for (const Binlog::Item& item : log_.items()) {
    if (item.end > at) feed_one(*feed, item.end, item.argv);
  }
}

void Unit::copy_to(const std::shared_ptr<Feed>& feed) {
  if (std::find(feeds_.begin(), feeds_.end(), feed) == feeds_.end()) return;
  Words message{"copy", std::to_string(log_.at().file), std::to_string(log_.at().offset)};
  const int64_t now_s = host_->loop->wall_ms() / 1000;
  for (const Words& argv : data_.dump(!host_->faults->no_streams_in_copy, now_s)) {
    message.push_back(std::to_string(argv.size()));
    message.insert(message.end(), argv.begin(), argv.end());
  }
  feed->send(message);
}

}  // namespace sf::fake_pika
