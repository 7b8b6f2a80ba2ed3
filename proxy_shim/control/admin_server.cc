#include "proxy_shim/control/admin_server.h"

#include <future>

#include "common/base/strings.h"
#include "common/net/uv_loop.h"
#include "common/resp/encoder.h"
#include "common/resp/request_parser.h"
#include "proxy_shim/control/http_tunnel.h"

namespace sf {
namespace {

constexpr RequestLimits kLimits{.args_max = 64,
                                .bulk_bytes_max = 16 * 1024,
                                .inline_bytes_max = 16 * 1024,
                                .request_bytes_max = 64 * 1024};

}  // namespace

class AdminServer::Session : public StreamHandler {
 public:
  Session(AdminServer* server, uint64_t id) : server_(server), id_(id), parser_(kLimits) {}

  void begin(std::unique_ptr<Stream> stream) { stream_ = std::move(stream); }

  size_t on_data(std::string_view unread) override {
    if (tunnel_) {
      tunnel_->forward(unread);
      return unread.size();
    }
    if (fresh_ && server_->pages_port_ != 0) {
      const HttpTunnel::Verdict verdict = HttpTunnel::looks_like_http(unread);
      if (verdict == HttpTunnel::Verdict::kNeedMore) return 0;
      fresh_ = false;
      if (verdict == HttpTunnel::Verdict::kYes) return begin_tunnel(unread);
    }
    size_t used = 0;
    while (!busy_ && used < unread.size()) {
      Request request;
      const auto outcome = parser_.parse(unread.substr(used), &request);
      if (outcome == RequestParser::Outcome::kError) {
        resp::error(stream_->output(), "ERR Protocol error: " + parser_.error());
        leave();
        return unread.size();
      }
      if (outcome == RequestParser::Outcome::kRequest) {
        handle({request.argv.begin(), request.argv.end()});
      }
      used += parser_.consumed();
      if (outcome == RequestParser::Outcome::kNeedMore) break;
    }
    return used;
  }

  void on_drained() override {
    if (tunnel_) tunnel_->client_drained();
  }
  void on_closed(const Status&) override { server_->forget(id_); }

  // Loop's thread.
  void answered(const std::string& reply) {
    stream_->write(reply);
    busy_ = false;
    stream_->resume_reading();
  }

 private:
  size_t begin_tunnel(std::string_view unread) {
    tunnel_ = std::make_unique<HttpTunnel>(*server_->loop_, server_->pages_port_, *stream_, [this] {
      stream_->close_after_flush();
      server_->forget(id_);
    });
    tunnel_->forward(unread);
    return unread.size();
  }

  // The stream says nothing more once it is told to close, so the session goes by itself.
  void leave() {
    busy_ = true;
    stream_->close_after_flush();
    server_->loop_->defer([server = server_, id = id_] { server->forget(id); });
  }

  void handle(std::vector<std::string> argv) {
    if (equals_ignore_case(argv[0], "AUTH")) return authenticate(argv);
    if (!server_->options_.password.empty() && !authenticated_) {
      resp::error(stream_->output(), "NOAUTH Authentication required.");
      return;
    }
    if (equals_ignore_case(argv[0], "QUIT")) {
      resp::status(stream_->output(), "OK");
      return leave();
    }
    // The answer may come from another thread, after this session is gone.
    busy_ = true;
    stream_->pause_reading();
    AdminServer* server = server_;
    const uint64_t id = id_;
    server_->commands_()->run(argv, stream_->peer(), [server, id](std::string reply) {
      server->loop_->post([server, id, reply = std::move(reply)] {
        const auto found = server->sessions_.find(id);
        if (found != server->sessions_.end()) found->second->answered(reply);
      });
    });
  }

  void authenticate(const std::vector<std::string>& argv) {
    const std::string& password = server_->options_.password;
    if (password.empty()) {
      resp::error(stream_->output(), "ERR Client sent AUTH, but no password is set");
    } else if (argv.size() >= 2 && argv.back() == password) {
      authenticated_ = true;
      resp::status(stream_->output(), "OK");
    } else {
      resp::error(stream_->output(), "WRONGPASS invalid admin password");
      server_->log_.warning(cat("wrong admin password from ", stream_->peer()));
    }
  }

  AdminServer* const server_;
  const uint64_t id_;
  RequestParser parser_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<HttpTunnel> tunnel_;  // uses stream_
  bool fresh_ = true;                   // nothing has come in yet
  bool authenticated_ = false;
  bool busy_ = false;
};

AdminServer::AdminServer(AdminOptions options, CommandsNow commands, int pages_port, Log log)
    : options_(std::move(options)),
      commands_(std::move(commands)),
      pages_port_(pages_port),
      log_(std::move(log)) {}

AdminServer::~AdminServer() {
  stop();
}

Status AdminServer::start() {
  loop_ = make_uv_loop();
  std::promise<Status> listening;
  thread_ = std::thread([this, &listening] {
    Result<std::unique_ptr<Listener>> listener = loop_->listen(
        options_.bind, options_.port,
        [this](std::unique_ptr<AcceptedSocket> socket) { accept(std::move(socket)); });
    const bool listens = listener.is_ok();
    if (listens) listener_ = std::move(*listener);
    if (listens) port_ = listener_->port();
    listening.set_value(listener.status());
    if (listens) loop_->run();
    sessions_.clear();
    listener_.reset();
  });
  Status status = listening.get_future().get();
  if (!status) stop();
  return status.with_context("admin port");
}

void AdminServer::stop() {
  if (loop_) loop_->stop();
  if (thread_.joinable()) thread_.join();
}

void AdminServer::accept(std::unique_ptr<AcceptedSocket> socket) {
  if (sessions_.size() >= options_.connections_max) return;  // closed: nobody needs so many
  const uint64_t id = next_session_++;
  auto session = std::make_unique<Session>(this, id);
  session->begin(loop_->adopt(std::move(socket), session.get()));
  sessions_.emplace(id, std::move(session));
}

void AdminServer::forget(uint64_t id) {
  sessions_.erase(id);
}

}  // namespace sf
