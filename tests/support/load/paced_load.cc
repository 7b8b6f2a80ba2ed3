#include "tests/support/load/paced_load.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "common/resp/reply_parser.h"
#include "tests/support/loopback.h"

namespace sf::load {
namespace {

constexpr size_t kBatchesMax = 64;  // unanswered on one connection
constexpr size_t kTextsMax = 5;
constexpr int64_t kLastAnswersUs = 10'000'000;
constexpr uint64_t kControl = UINT64_MAX;

struct Window {
  PacedWindow facts;
  std::vector<uint32_t> waits;
};

struct Batch {
  int64_t since_us;
  int left;
  Window* window;  // in which it was sent
};

struct Connection {
  int fd = -1;
  int port = 0;
  bool wants_out = false;
  std::string out;
  std::string in;
  ReplyParser parser;
  std::deque<Batch> batches;
};

class PacedLoad {
 public:
  explicit PacedLoad(const PacedOptions& options)
      : options_(options), random_(options.seed), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~PacedLoad() {
    for (const auto& c : connections_) {
      if (c->fd >= 0) ::close(c->fd);
    }
    ::close(epoll_);
  }
  PacedLoad(const PacedLoad&) = delete;
  PacedLoad& operator=(const PacedLoad&) = delete;

  Result<PacedResult> run();

 private:
  Status open(Connection& c);
  void turn(int64_t until_us);
  void send_due();
  void send_batch(Connection& c, int64_t since_us);
  void flush(Connection& c);
  void receive(Connection& c);
  size_t take_replies(Connection& c, int64_t now);
  void broken(Connection& c, const std::string& why);
  void read_control();
  void begin_window(const std::string& name);
  void end_window();
  static PacedWindow judged(Window& window);
  void note_error(Window& window, std::string text, int64_t count = 1);
  std::string request_of(const std::string& key) const;
  std::vector<std::string> requests_of(const std::vector<std::string>& keys) const;
  Connection* next_with_room();
  bool waiting() const;
  int64_t now() const { return clock_.mono_us(); }

  const PacedOptions& options_;
  const SystemClock clock_;
  Random random_;
  int epoll_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::string> requests_;
  std::vector<std::string> hot_;
  std::string control_;
  size_t turn_ = 0;
  int64_t begin_us_ = 0;
  int64_t batches_sent_ = 0;
  bool blocked_ = false;  // the batch that is due found no connection with room
  bool over_ = false;
  PacedResult result_;
  std::vector<std::unique_ptr<Window>> windows_;
  Window* window_ = nullptr;  // the one that runs
  int64_t window_begin_us_ = 0;
};

std::string PacedLoad::request_of(const std::string& key) const {
  if (options_.command == "get") return resp::request({"GET", key});
  return resp::request({"SET", key, std::string(static_cast<size_t>(options_.value_bytes), 'x')});
}

std::vector<std::string> PacedLoad::requests_of(const std::vector<std::string>& keys) const {
  std::vector<std::string> out;
  for (const std::string& key : keys) out.push_back(request_of(key));
  return out;
}

Status PacedLoad::open(Connection& c) {
  c.fd = connect_loopback(c.port);
  if (c.fd < 0) return Status::unavailable(cat("nothing listens on port ", c.port));
  ::fcntl(c.fd, F_SETFL, O_NONBLOCK);
  c.wants_out = false;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &c;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, c.fd, &event);
  return Status::ok();
}

void PacedLoad::begin_window(const std::string& name) {
  const auto found = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const auto& w) { return w->facts.name == name; });
  if (found == windows_.end()) {
    windows_.push_back(std::make_unique<Window>());
    windows_.back()->facts.name = name;
    window_ = windows_.back().get();
  } else {
    window_ = found->get();
  }
  window_begin_us_ = now();
}

void PacedLoad::end_window() {
  window_->facts.seconds += static_cast<double>(now() - window_begin_us_) / 1e6;
}

PacedWindow PacedLoad::judged(Window& window) {
  std::vector<uint32_t>& waits = window.waits;
  std::sort(waits.begin(), waits.end());
  const auto at = [&waits](double share) {
    const double last = static_cast<double>(waits.size()) - 1;
    return waits.empty() ? 0 : int64_t{waits[static_cast<size_t>(share * last)]};
  };
  PacedWindow out = window.facts;
  out.answered = static_cast<int64_t>(waits.size());
  out.p50_us = at(0.5);
  out.p99_us = at(0.99);
  out.max_us = at(1);
  return out;
}

void PacedLoad::note_error(Window& window, std::string text, int64_t count) {
  window.facts.errors += count;
  if (result_.error_texts.size() < kTextsMax) result_.error_texts.push_back(std::move(text));
}

void PacedLoad::broken(Connection& c, const std::string& why) {
  const std::string text = cat("connection to port ", c.port, ": ", why);
  if (c.batches.empty()) note_error(*window_, text);
  for (const Batch& batch : c.batches) note_error(*batch.window, text, batch.left);
  ::close(c.fd);
  const int port = c.port;
  c = Connection();
  c.port = port;
  if (!open(c)) over_ = true;
}

void PacedLoad::flush(Connection& c) {
  while (!c.out.empty()) {
    const ssize_t n = ::send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return broken(c, "send failed");
    if (n < 0) break;
    c.out.erase(0, static_cast<size_t>(n));
  }
  if (c.wants_out == !c.out.empty()) return;
  c.wants_out = !c.out.empty();
  epoll_event event{};
  event.events = c.wants_out ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &c;
  ::epoll_ctl(epoll_, EPOLL_CTL_MOD, c.fd, &event);
}

void PacedLoad::send_batch(Connection& c, int64_t since_us) {
  for (int i = 0; i < options_.pipeline; ++i) {
    const bool hot = !hot_.empty() && random_.below(1000) < options_.hot_share * 1000;
    const auto& from = hot ? hot_ : requests_;
    c.out += from[random_.below(from.size())];
  }
  c.batches.push_back({since_us, options_.pipeline, window_});
  flush(c);
}

Connection* PacedLoad::next_with_room() {
  for (size_t tried = 0; tried < connections_.size(); ++tried) {
    Connection& c = *connections_[turn_++ % connections_.size()];
    if (c.batches.size() < kBatchesMax) return &c;
  }
  return nullptr;
}

int64_t due_of(int64_t begin_us, int64_t batches, const PacedOptions& options) {
  const double gap_us = 1e6 * options.pipeline / options.rate;
  return begin_us + static_cast<int64_t>(static_cast<double>(batches) * gap_us);
}

void PacedLoad::send_due() {
  while (!over_) {
    const int64_t due = due_of(begin_us_, batches_sent_, options_);
    const int64_t moment = now();
    if (due > moment) return;
    Connection* c = next_with_room();
    if (c == nullptr) {
      blocked_ = true;
      return;
    }
    if (!blocked_) window_->facts.late_max_us = std::max(window_->facts.late_max_us, moment - due);
    ++batches_sent_;
    send_batch(*c, blocked_ ? due : moment);
    blocked_ = due_of(begin_us_, batches_sent_, options_) <= moment && blocked_;
  }
}

size_t PacedLoad::take_replies(Connection& c, int64_t moment) {
  size_t used = 0;
  while (!c.batches.empty()) {
    const std::string_view rest = std::string_view(c.in).substr(used);
    const auto outcome = c.parser.parse(rest);
    if (outcome == ReplyParser::Outcome::kNeedMore) break;
    if (outcome != ReplyParser::Outcome::kReply) return std::string::npos;
    Window& window = *c.batches.front().window;
    if (rest[0] == '-') note_error(window, printable(rest.substr(0, c.parser.size()), 200));
    used += c.parser.size();
    window.waits.push_back(static_cast<uint32_t>(moment - c.batches.front().since_us));
    if (--c.batches.front().left == 0) c.batches.pop_front();
  }
  return used;
}

void PacedLoad::receive(Connection& c) {
  char buf[64 << 10];
  const ssize_t n = ::recv(c.fd, buf, sizeof(buf), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return broken(c, n == 0 ? "closed by its peer" : "broken");
  c.in.append(buf, static_cast<size_t>(n));
  const size_t used = take_replies(c, now());
  if (used == std::string::npos) return broken(c, "not a reply");
  c.in.erase(0, used);
  if (options_.rate <= 0 && c.batches.empty() && !over_) send_batch(c, now());
}

void PacedLoad::read_control() {
  char buf[4096];
  const ssize_t n = ::read(options_.control_fd, buf, sizeof(buf));
  if (n <= 0) {
    over_ = true;
    return;
  }
  control_.append(buf, static_cast<size_t>(n));
  for (size_t end = control_.find('\n'); end != std::string::npos; end = control_.find('\n')) {
    const std::string line = control_.substr(0, end);
    control_.erase(0, end + 1);
    if (line.starts_with("mark ")) {
      end_window();
      begin_window(line.substr(5));
    } else if (options_.on_line) {
      hot_ = requests_of(options_.on_line(line));
    }
  }
}

// One wait for what arrives, until `until_us` at most.
void PacedLoad::turn(int64_t until_us) {
  const int64_t left_us = std::max<int64_t>(until_us - now(), 0);
  const timespec wait{left_us / 1'000'000, (left_us % 1'000'000) * 1000};
  epoll_event events[128];
  const int n = ::epoll_pwait2(epoll_, events, 128, &wait, nullptr);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 == kControl) {
      read_control();
      continue;
    }
    auto& c = *static_cast<Connection*>(events[i].data.ptr);
    if ((events[i].events & EPOLLOUT) != 0) flush(c);
    if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) receive(c);
  }
}

bool PacedLoad::waiting() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& c) { return !c->batches.empty(); });
}

Result<PacedResult> PacedLoad::run() {
  ::prctl(PR_SET_TIMERSLACK, 1);
  requests_ = requests_of(options_.keys);
  if (requests_.empty() || options_.ports.empty()) return Status::invalid("no keys or no ports");
  for (int i = 0; i < options_.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>());
    connections_.back()->port = options_.ports[static_cast<size_t>(i) % options_.ports.size()];
    if (Status s = open(*connections_.back()); !s) return s;
  }
  if (options_.control_fd >= 0) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kControl;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, options_.control_fd, &event);
  }
  begin_us_ = now();
  begin_window("start");
  if (options_.rate <= 0) {
    for (const auto& c : connections_) send_batch(*c, now());
  }
  const int64_t end_us = options_.duration_us > 0 ? begin_us_ + options_.duration_us : INT64_MAX;
  while (!over_ && now() < end_us) {
    int64_t until = std::min(end_us, now() + 100'000);
    if (options_.rate > 0) {
      send_due();
      if (!blocked_) until = std::min(until, due_of(begin_us_, batches_sent_, options_));
    }
    turn(until);
  }
  over_ = true;
  const int64_t give_up_us = now() + kLastAnswersUs;
  end_window();  // the last answers count in it, the time they take does not
  while (waiting() && now() < give_up_us) turn(now() + 100'000);
  if (waiting()) return Status::timeout("requests were not answered within 10 s of the end");
  for (const auto& window : windows_) result_.windows.push_back(judged(*window));
  return result_;
}

}  // namespace

Result<PacedResult> run_paced(const PacedOptions& options) {
  return PacedLoad(options).run();
}

}  // namespace sf::load
