#include "tests/support/codis/fake_server.h"

#include <chrono>
#include <deque>
#include <future>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/net/uv_loop.h"
#include "common/resp/encoder.h"
#include "common/resp/request_parser.h"

namespace sf::codis {

class FakeServer::Connection final : public StreamHandler {
 public:
  Connection(FakeServer& server, int id, std::unique_ptr<AcceptedSocket> socket)
      : server_(server), id_(id), stream_(server.loop_->adopt(std::move(socket), this)) {}
  ~Connection() override { server_.loop_->cancel(timer_); }

  size_t on_data(std::string_view unread) override {
    size_t used = 0;
    while (used < unread.size()) {
      Request request;
      const auto outcome = parser_.parse(unread.substr(used), &request);
      if (outcome == RequestParser::Outcome::kError) return unread.size();
      used += parser_.consumed();
      if (outcome == RequestParser::Outcome::kNeedMore) break;
      waiting_.emplace_back(request.argv.begin(), request.argv.end());
    }
    serve();
    return used;
  }
  void on_closed(const Status&) override { leave(); }

 private:
  void serve() {
    while (!waiting_.empty() && timer_ == 0 && !gone_) {
      const auto argv = std::move(waiting_.front());
      waiting_.pop_front();
      {
        const std::lock_guard lock(server_.mutex_);
        server_.asked_.push_back({id_, argv});
      }
      server_.changed_.notify_all();
      FakeRule rule;
      const bool ruled = server_.take_rule(argv, &rule);
      if (ruled && rule.delay_ms > 0) {
        timer_ = server_.loop_->call_after(rule.delay_ms * 1000LL, [this, argv, rule] {
          timer_ = 0;
          act(argv, &rule);
          serve();
        });
        return;
      }
      act(argv, ruled ? &rule : nullptr);
    }
  }

  void act(const std::vector<std::string>& argv, const FakeRule* rule) {
    if (rule != nullptr && rule->close) {
      stream_->close_after_flush();
      leave();
    } else if (rule == nullptr || !rule->drop) {
      const bool told = rule != nullptr && !rule->reply.empty();
      stream_->write(told ? rule->reply : server_.answer(argv));
    }
  }

  void leave() {
    if (gone_) return;
    gone_ = true;
    server_.loop_->post([&server = server_, id = id_] { server.connections_.erase(id); });
  }

  FakeServer& server_;
  const int id_;
  std::unique_ptr<Stream> stream_;
  RequestParser parser_;
  std::deque<std::vector<std::string>> waiting_;
  TimerId timer_ = 0;
  bool gone_ = false;
};

FakeServer::FakeServer(int port) : loop_(make_uv_loop()) {
  thread_ = std::thread([this] { loop_->run(); });
  run([this, port] { listen(port); });
}

FakeServer::~FakeServer() {
  run([this] {
    listener_.reset();
    connections_.clear();
  });
  loop_->stop();
  thread_.join();
}

void FakeServer::run(const std::function<void()>& fn) {
  std::promise<void> done;
  loop_->post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

void FakeServer::listen(int port) {
  auto listener = loop_->listen("127.0.0.1", port, [this](std::unique_ptr<AcceptedSocket> socket) {
    const int id = ++accepted_;
    connections_[id] = std::make_unique<Connection>(*this, id, std::move(socket));
    {
      const std::lock_guard lock(mutex_);
      ever_ = accepted_;
    }
    changed_.notify_all();
  });
  SF_CHECK(listener.is_ok());
  listener_ = std::move(*listener);
  port_ = listener_->port();
}

void FakeServer::rule(FakeRule rule) {
  const std::lock_guard lock(mutex_);
  rules_.push_back(std::move(rule));
}

void FakeServer::clear_rules() {
  const std::lock_guard lock(mutex_);
  rules_.clear();
}

void FakeServer::close_connections() {
  run([this] { connections_.clear(); });
}

void FakeServer::stop_listening() {
  run([this] {
    listener_.reset();
    connections_.clear();
  });
}

void FakeServer::listen_again() {
  run([this] { listen(port_); });
}

std::vector<FakeServer::Asked> FakeServer::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

std::vector<std::string> FakeServer::lines(const std::string& command) const {
  std::vector<std::string> out;
  for (const Asked& one : asked()) {
    const std::string name = to_upper(one.argv[0]);
    const bool quiet =
        name == "PING" || name == "INFO" || name == "CONFIG" || name == "SELECT" || name == "AUTH";
    if (command.empty() ? quiet : name != command) continue;
    std::string line;
    for (const auto& arg : one.argv) line += (line.empty() ? "" : " ") + arg;
    out.push_back(line);
  }
  return out;
}

void FakeServer::forget() {
  const std::lock_guard lock(mutex_);
  asked_.clear();
}

int FakeServer::connections() const {
  const std::lock_guard lock(mutex_);
  return ever_;
}

bool FakeServer::wait(const std::function<bool(const FakeServer&)>& enough) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!enough(*this)) {
    std::unique_lock lock(mutex_);
    if (std::chrono::steady_clock::now() > deadline) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  return true;
}

void FakeServer::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  values_[key] = value;
}

std::string FakeServer::get(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  return found == values_.end() ? "" : found->second;
}

bool FakeServer::take_rule(const std::vector<std::string>& argv, FakeRule* rule) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < rules_.size(); ++i) {
    FakeRule& one = rules_[i];
    if (one.command != to_upper(argv[0])) continue;
    if (!one.arg1.empty() && (argv.size() < 2 || one.arg1 != argv[1])) continue;
    *rule = one;
    if (one.times > 0 && --one.times == 0) rules_.erase(rules_.begin() + static_cast<long>(i));
    return true;
  }
  return false;
}

std::string FakeServer::answer(const std::vector<std::string>& argv) {
  const std::lock_guard lock(mutex_);
  const std::string name = to_upper(argv[0]);
  const std::string key = argv.size() > 1 ? argv[1] : "";
  const auto found = values_.find(key);
  const bool there = found != values_.end();
  std::string out;
  const auto value_of = [&](const std::string& k) {
    const auto at = values_.find(k);
    at == values_.end() ? resp::nil(out) : resp::bulk(out, at->second);
  };
  if (name == "PING") {
    resp::status(out, "PONG");
  } else if (name == "GET") {
    value_of(key);
  } else if (name == "SET") {
    values_[key] = argv.at(2);
    resp::status(out, "OK");
  } else if (name == "MSET") {
    for (size_t i = 1; i + 1 < argv.size(); i += 2) values_[argv[i]] = argv[i + 1];
    resp::status(out, "OK");
  } else if (name == "MGET") {
    resp::array(out, argv.size() - 1);
    for (size_t i = 1; i < argv.size(); ++i) value_of(argv[i]);
  } else if (name == "DEL") {
    resp::integer(out, there ? 1 : 0);
    values_.erase(key);
  } else if (name == "EXISTS") {
    resp::integer(out, there ? 1 : 0);
  } else if (name == "STRLEN") {
    resp::integer(out, there ? static_cast<int64_t>(found->second.size()) : 0);
  } else if (name == "INFO") {
    const bool keyspace = to_lower(key) == "keyspace";
    resp::bulk(out, keyspace ? "# Keyspace\r\n"
                             : "# Server\r\nredis_version:3.2.11\r\nrun_id:a00\r\nrole:master\r\n"
                               "loading:0\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\n");
  } else if (name == "CONFIG" && to_lower(key) == "get") {
    resp::array(out, 2);
    resp::bulk(out, "maxmemory");
    resp::bulk(out, "0");
  } else if (name == "SLOTSINFO") {
    resp::array(out, 0);
  } else if (name == "SLOTSMGRTTAGSLOT-ASYNC" || name == "SLOTSMGRTTAGSLOT") {
    resp::array(out, 2);
    resp::integer(out, 0);
    resp::integer(out, 0);
  } else if (name == "EXEC") {
    resp::array(out, 0);
  } else if (name == "SLAVEOF" || name == "CONFIG" || name == "CLIENT") {
    resp::status(out, "QUEUED");
  } else if (name == "AUTH" || name == "SELECT" || name == "MULTI") {
    resp::status(out, "OK");
  } else {
    resp::error(out, cat("ERR unknown command '", argv[0], "'"));
  }
  return out;
}

}  // namespace sf::codis
