#include "tests/support/fake_server.h"

#include <chrono>
#include <condition_variable>
#include <thread>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/net/uv_loop.h"
#include "common/resp/encoder.h"
#include "common/resp/request_parser.h"

namespace sf {

namespace {
// Told by every arrival, to whoever waits in wait_for().
std::condition_variable& arrivals() {
  static std::condition_variable condition;
  return condition;
}
}  // namespace

class FakeServer::Conn final : public StreamHandler {
 public:
  Conn(FakeServer& server, int64_t id) : server_(server), id_(id) {}

  void open(Loop& loop, std::unique_ptr<AcceptedSocket> socket) {
    loop_ = &loop;
    stream_ = loop.adopt(std::move(socket), this);
  }

  size_t on_data(std::string_view unread) override {
    size_t used = 0;
    while (!waits_ && !gone_) {
      const auto outcome = parser_.parse(unread.substr(used), &request_);
      used += parser_.consumed();
      if (outcome != RequestParser::Outcome::kRequest) break;
      answer(Words(request_.argv.begin(), request_.argv.end()));
    }
    if (waits_) stream_->pause_reading();
    return used;
  }

  void release() {
    if (!waits_) return;
    waits_ = false;
    stream_->write(late_);
    stream_->resume_reading();
  }

  void on_closed(const Status&) override { leave(); }
  void leave() {
    gone_ = true;
    loop_->defer([&server = server_, id = id_] { server.conns_.erase(id); });
  }

  void answer(const Words& request) {
    const FakeAction action = server_.act(request);
    switch (action.kind) {
      case FakeAction::Kind::kReply:
        stream_->write(action.bytes);
        return;
      case FakeAction::Kind::kWait:
        waits_ = true;
        late_ = action.bytes.empty() ? server_.usual(*this, request) : action.bytes;
        return;
      case FakeAction::Kind::kBreak:
        stream_->write(action.bytes);
        stream_->close_after_flush();
        leave_later();
        return;
      case FakeAction::Kind::kUsual:
        stream_->write(server_.usual(*this, request));
        return;
    }
  }

  int db = 0;
  bool authenticated = false;

 private:
  // The stream has to live until its bytes are sent.
  void leave_later() {
    gone_ = true;
    loop_->call_after(50'000, [&server = server_, id = id_] { server.conns_.erase(id); });
  }

  FakeServer& server_;
  const int64_t id_;
  Loop* loop_ = nullptr;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  Request request_;
  bool waits_ = false;
  bool gone_ = false;
  std::string late_;
};

FakeServer::FakeServer(std::string password, int port) : password_(std::move(password)) {
  pool_ = std::make_unique<WorkerPool>(1, "fake", make_uv_loop);
  pool_->run_on(0, [&] {
    auto listener = pool_->loop(0).listen("127.0.0.1", port, [this](auto socket) {
      const int64_t id = ++next_conn_;
      auto conn = std::make_unique<Conn>(*this, id);
      conn->open(pool_->loop(0), std::move(socket));
      conns_.emplace(id, std::move(conn));
    });
    SF_CHECK(listener.is_ok());
    listener_ = std::move(*listener);
    port_ = listener_->port();
  });
}

FakeServer::~FakeServer() {
  pool_->run_on(0, [&] {
    listener_.reset();
    conns_.clear();
  });
}

void FakeServer::set_rule(FakeRule rule) {
  const std::lock_guard lock(mutex_);
  rule_ = std::move(rule);
}

void FakeServer::release() {
  pool_->run_on(0, [&] {
    for (auto& [id, conn] : conns_) conn->release();
  });
}

void FakeServer::close_connections() {
  pool_->run_on(0, [&] { conns_.clear(); });
}

std::vector<Words> FakeServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

int64_t FakeServer::count(std::string_view command) const {
  const std::lock_guard lock(mutex_);
  int64_t n = 0;
  for (const auto& request : requests_) n += equals_ignore_case(request[0], command) ? 1 : 0;
  return n;
}

bool FakeServer::wait_for(std::string_view command, int64_t n) const {
  std::unique_lock lock(mutex_);
  return arrivals().wait_for(lock, std::chrono::seconds(5), [&] {
    int64_t seen = 0;
    for (const auto& request : requests_) seen += equals_ignore_case(request[0], command) ? 1 : 0;
    return seen >= n;
  });
}

std::string FakeServer::value(int db, const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find({db, key});
  return found == values_.end() ? std::string() : found->second;
}

void FakeServer::set_value(int db, const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[{db, key}] = value;
}

int64_t FakeServer::connections() const {
  int64_t n = 0;
  pool_->run_on(0, [&] { n = static_cast<int64_t>(conns_.size()); });
  return n;
}

FakeAction FakeServer::act(const Words& request) {
  FakeRule rule;
  {
    const std::lock_guard lock(mutex_);
    const bool is_login =
        equals_ignore_case(request[0], "AUTH") || equals_ignore_case(request[0], "SELECT");
    if (!is_login) requests_.push_back(request);
    rule = rule_;
  }
  arrivals().notify_all();
  return rule ? rule(request) : FakeAction{};
}

std::string FakeServer::usual(Conn& conn, const Words& request) {
  const std::lock_guard lock(mutex_);
  std::string out;
  const std::string name = to_upper(request[0]);
  const auto at = [&](size_t i) { return std::pair(conn.db, request[i]); };
  if (name == "AUTH") {
    conn.authenticated = request.back() == password_;
    conn.authenticated ? resp::status(out, "OK") : resp::error(out, "WRONGPASS invalid password");
  } else if (!password_.empty() && !conn.authenticated) {
    resp::error(out, "NOAUTH Authentication required.");
  } else if (name == "SELECT") {
    conn.db = static_cast<int>(parse_int64(request[1]).value_or(0));
    resp::status(out, "OK");
  } else if (name == "PING") {
    resp::status(out, "PONG");
  } else if (name == "SET") {
    values_[at(1)] = request[2];
    resp::status(out, "OK");
  } else if (name == "GET") {
    const auto found = values_.find(at(1));
    found == values_.end() ? resp::nil(out) : resp::bulk(out, found->second);
  } else if (name == "INCR") {
    std::string& value = values_[at(1)];
    const int64_t now = parse_int64(value).value_or(0);
    value = std::to_string(now == INT64_MAX ? now : now + 1);
    resp::integer(out, *parse_int64(value));
  } else if (name == "APPEND") {
    std::string& value = values_[at(1)];
    value += request[2];
    resp::integer(out, static_cast<int64_t>(value.size()));
  } else if (name == "MGET") {
    resp::array(out, request.size() - 1);
    for (size_t i = 1; i < request.size(); ++i) {
      const auto found = values_.find(at(i));
      found == values_.end() ? resp::nil(out) : resp::bulk(out, found->second);
    }
  } else if (name == "MSET") {
    for (size_t i = 1; i + 1 < request.size(); i += 2) values_[at(i)] = request[i + 1];
    resp::status(out, "OK");
  } else if (name == "DEL" || name == "EXISTS") {
    int64_t n = 0;
    for (size_t i = 1; i < request.size(); ++i) {
      n += static_cast<int64_t>(name == "DEL" ? values_.erase(at(i)) : values_.count(at(i)));
    }
    resp::integer(out, n);
  } else {
    resp::error(out, cat("ERR unknown command '", request[0], "'"));
  }
  return out;
}

}  // namespace sf
