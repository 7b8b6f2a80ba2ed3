#include "tests/support/codis/proxy.h"

#include <sys/resource.h>
#include <unistd.h>

#include <future>

#include "common/net/uv_loop.h"
#include "common/resp/encoder.h"
#include "tests/support/codis/auth.h"
#include "tests/support/codis/slot_json.h"

namespace sf::codis {

struct Proxy::OnLoop {
  std::unique_ptr<Router> router;
  std::unique_ptr<Listener> listener;
  std::map<int64_t, std::unique_ptr<Session>> sessions;
  std::vector<std::unique_ptr<AcceptedSocket>> early;  // came before `start`
  ProxyCounters counters;
  bool online = false;
  int64_t next_session = 1;
};

namespace {

Status closed_proxy() {
  return Status::refused("use of closed proxy");
}

Json usage() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& t) { return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1000LL; };
  const int64_t memory = used.ru_maxrss * 1024LL;
  return {{"now", time_text()},
          {"cpu", 0},
          {"mem", memory},
          {"raw",
           {{"utime", ns(used.ru_utime)},
            {"stime", ns(used.ru_stime)},
            {"cutime", 0},
            {"cstime", 0},
            {"num_threads", 4},
            {"vm_size", memory},
            {"vm_rss", memory}}}};
}

}  // namespace

// Runs fn on the loop's thread and waits for what it returns.
template <class F>
auto Proxy::run_on_loop(F fn) {
  using T = decltype(fn());
  auto task = std::make_shared<std::packaged_task<T()>>(std::move(fn));
  auto result = task->get_future();
  loop_->post([task] { (*task)(); });
  return result.get();
}

// The same for what needs the proxy's lock: waits for a fillslots that drains (trap 12).
template <class T>
T Proxy::wait_unlocked(std::function<T()> read) {
  auto result = std::make_shared<std::promise<T>>();
  auto future = result->get_future();
  loop_->post([this, result, read = std::move(read)] {
    if (on_loop_->router == nullptr) return result->set_value(T());
    on_loop_->router->when_unlocked([result, read] { result->set_value(read()); });
  });
  try {
    return future.get();
  } catch (const std::future_error&) {
    return T();  // the proxy ended meanwhile
  }
}

Proxy::Proxy(ProxyOptions options, std::function<void()> on_shutdown)
    : options_(std::move(options)),
      on_shutdown_(std::move(on_shutdown)),
      start_time_(time_text()),
      loop_(make_uv_loop()),
      on_loop_(std::make_unique<OnLoop>()) {}

Proxy::~Proxy() {
  if (loop_thread_.joinable()) {
    // First what HTTP threads may be waiting for, then they.
    run_on_loop([this] {
      on_loop_->early.clear();
      on_loop_->listener.reset();
      on_loop_->sessions.clear();
      on_loop_->router.reset();
    });
  }
  http_.stop();
  if (http_thread_.joinable()) http_thread_.join();
  if (loop_thread_.joinable()) {
    loop_->stop();
    loop_thread_.join();
  }
}

Status Proxy::start() {
  prepare_server(http_);
  const auto admin = bind_http(http_, options_.bind, options_.admin_port);
  if (!admin) return admin.status();
  options_.admin_port = *admin;
  loop_thread_ = std::thread([this] { loop_->run(); });
  const Status listening = run_on_loop([this] { return listen(); });
  if (!listening) return listening;
  token_ = make_token(options_.product, address(), admin_address());
  add_open_routes();
  add_routes();
  http_thread_ = std::thread([this] { http_.listen_after_bind(); });
  while (!http_.is_running()) std::this_thread::yield();  // stop() before that would be lost
  return Status::ok();
}

Status Proxy::listen() {
  on_loop_->router = std::make_unique<Router>(*loop_, options_);
  auto listener =
      loop_->listen(options_.bind, options_.port,
                    [this](std::unique_ptr<AcceptedSocket> socket) { accept(std::move(socket)); });
  if (!listener) return listener.status();
  on_loop_->listener = std::move(*listener);
  options_.port = on_loop_->listener->port();
  return Status::ok();
}

std::string Proxy::address() const {
  return cat(options_.bind, ":", options_.port);
}
std::string Proxy::admin_address() const {
  return cat(options_.bind, ":", options_.admin_port);
}
std::string Proxy::xauth() const {
  return proxy_xauth(options_.product, options_.product_auth, token_);
}

void Proxy::accept(std::unique_ptr<AcceptedSocket> socket) {
  if (on_loop_->online) {
    serve(std::move(socket));
  } else {
    on_loop_->early.push_back(std::move(socket));
  }
}

void Proxy::serve(std::unique_ptr<AcceptedSocket> socket) {
  const int64_t id = on_loop_->next_session++;
  auto session = std::make_unique<Session>(*loop_, *on_loop_->router, options_, on_loop_->counters,
                                           static_cast<size_t>(id),
                                           [this, id] { on_loop_->sessions.erase(id); });
  session->adopt(std::move(socket));
  if (on_loop_->sessions.size() >= options_.clients_max) session->refuse_client();
  on_loop_->sessions[id] = std::move(session);
}

Status Proxy::go_online() {
  return run_on_loop([this] {
    if (on_loop_->router == nullptr) return closed_proxy();
    on_loop_->online = true;
    auto early = std::move(on_loop_->early);
    on_loop_->early.clear();
    for (auto& socket : early) serve(std::move(socket));
    return Status::ok();
  });
}

Status Proxy::fill(std::vector<SlotFill> slots) {
  auto result = std::make_shared<std::promise<Status>>();
  auto future = result->get_future();
  loop_->post([this, result, slots = std::move(slots)]() mutable {
    if (on_loop_->router == nullptr) return result->set_value(closed_proxy());
    on_loop_->router->fill(std::move(slots), [result](const Status& s) { result->set_value(s); });
  });
  try {
    return future.get();
  } catch (const std::future_error&) {
    return closed_proxy();
  }
}

Json Proxy::model() const {
  return {
      {"token", token_},         {"start_time", start_time_}, {"admin_addr", admin_address()},
      {"proto_type", "tcp4"},    {"proxy_addr", address()},   {"product_name", options_.product},
      {"pid", getpid()},         {"pwd", working_folder()},   {"sys", uname_text()},
      {"hostname", host_name()}, {"datacenter", ""}};
}

Json Proxy::stats(int flags) {
  return wait_unlocked<Json>([this, flags] {
    const ProxyCounters& counters = on_loop_->counters;
    Json ops = {{"total", counters.requests},
                {"fails", counters.failures},
                {"redis", {{"errors", 0}}},
                {"qps", 0}};
    if ((flags & 1) != 0) ops["cmd"] = Json::array();
    Json out = {{"online", on_loop_->online},
                {"closed", false},
                {"sentinels", Json::object()},
                {"ops", ops},
                {"sessions", {{"total", counters.sessions}, {"alive", counters.alive}}},
                {"rusage", usage()},
                {"backend", {{"primary_only", false}}}};
    if ((flags & 4) != 0) out["runtime"] = Json::object();
    return out;
  });
}

Json Proxy::slots() {
  return wait_unlocked<Json>([this] {
    Json out = Json::array();
    for (int i = 0; i < kSlots; ++i) out.push_back(to_json(on_loop_->router->slot(i).as_filled));
    return out;
  });
}

void Proxy::add_open_routes() {
  http_.Get("/", [](const httplib::Request&, httplib::Response& r) { r.set_redirect("/proxy"); });
  http_.Get("/proxy", [this](const httplib::Request&, httplib::Response& r) {
    reply_json(r, {{"version", "3.2.2-standin"},
                   {"config",
                    {{"proto_type", "tcp4"},
                     {"proxy_addr", address()},
                     {"admin_addr", admin_address()},
                     {"product_name", options_.product},
                     {"backend_number_databases", options_.databases},
                     {"backend_primary_parallel", options_.parallel}}},
                   {"model", model()},
                   {"stats", stats(7)},
                   {"slots", slots()}});
  });
  const auto send_model = [this](const httplib::Request&, httplib::Response& r) {
    reply_json(r, model());
  };
  http_.Get("/proxy/model", send_model);
  http_.Get("/api/proxy/model", send_model);
  http_.Get("/proxy/stats",
            [this](const httplib::Request&, httplib::Response& r) { reply_json(r, stats(7)); });
  http_.Get("/proxy/slots",
            [this](const httplib::Request&, httplib::Response& r) { reply_json(r, slots()); });
}

void Proxy::add_routes() {
  // Every route below has the xauth as its first path part.
  const auto guarded = [this](std::function<void(const httplib::Request&, httplib::Response&)> fn) {
    return [this, fn = std::move(fn)](const httplib::Request& q, httplib::Response& r) {
      if (q.matches[1] != xauth()) return reply_error(r, bad_xauth());
      fn(q, r);
    };
  };
  const auto ok = [](const httplib::Request&, httplib::Response& r) { reply_ok(r); };
  http_.Get(R"(/api/proxy/xping/([^/]+))", guarded(ok));
  http_.Get(R"(/api/proxy/stats/([^/]+)(?:/(\d+))?)", guarded([this](const auto& q, auto& r) {
              reply_json(r, stats(q.matches[2].matched ? std::stoi(q.matches[2]) : 0));
            }));
  http_.Get(R"(/api/proxy/slots/([^/]+))",
            guarded([this](const auto&, auto& r) { reply_json(r, slots()); }));
  http_.Put(R"(/api/proxy/start/([^/]+))",
            guarded([this](const auto&, auto& r) { reply(r, go_online()); }));
  http_.Put(R"(/api/proxy/fillslots/([^/]+))",
            guarded([this](const auto& q, auto& r) { reply(r, fill(fills_from_text(q.body))); }));
  http_.Put(R"(/api/proxy/shutdown/([^/]+))", guarded([this](const auto&, auto& r) {
              reply_ok(r);
              on_shutdown_();
            }));
  http_.Put(R"(/api/proxy/stats/reset/([^/]+))", guarded(ok));
  http_.Put(R"(/api/proxy/forcegc/([^/]+))", guarded(ok));
  http_.Put(R"(/api/proxy/loglevel/([^/]+)/([^/]+))", guarded(ok));
  http_.Put(R"(/api/proxy/sentinels/([^/]+))", guarded(ok));
  http_.Put(R"(/api/proxy/sentinels/([^/]+)/rewatch)", guarded(ok));
}

}  // namespace sf::codis
