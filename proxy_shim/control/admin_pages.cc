#include "proxy_shim/control/admin_pages.h"

#include <httplib.h>

#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "proxy_shim/control/metrics_page.h"

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr const char* kJsonType = "application/json";
constexpr const char* kTextType = "text/plain; charset=utf-8";
constexpr size_t kEventsAtOnce = 100;
constexpr std::chrono::seconds kKeepAlive{10};
constexpr size_t kThreads = AdminPages::kWatchersMax + 4;  // a watcher holds one

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

void say(httplib::Response& response, int code, const std::string& text) {
  response.status = code;
  response.set_content(dump({{"error", text}}), kJsonType);
}

}  // namespace

AdminPages::AdminPages(ReportNow report, EventFeed* feed, std::string password)
    : report_(std::move(report)), feed_(feed), password_(std::move(password)) {}

AdminPages::~AdminPages() {
  stop();
}

Status AdminPages::start() {
  server_ = std::make_unique<httplib::Server>();
  server_->new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server_->set_keep_alive_max_count(1);  // a thread is worth more than a connection here
  show("/metrics", false, &AdminPages::metrics);
  show("/healthz", true, &AdminPages::health);
  show("/api/v1/status", false, &AdminPages::status);
  show("/api/v1/slots", false, &AdminPages::slots);
  show("/api/v1/events", false, &AdminPages::events);
  server_->set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    say(response, response.status,
        cat(request.path,
            " is not here: /metrics, /healthz, /api/v1/status, /api/v1/slots, "
            "/api/v1/events"));
  });
  port_ = server_->bind_to_any_port("127.0.0.1");
  if (port_ <= 0) return Status::io("admin pages: no port to listen on");
  thread_ = std::thread([this] { server_->listen_after_bind(); });
  return Status::ok();
}

void AdminPages::stop() {
  feed_->close();
  if (!thread_.joinable()) return;
  // Before it runs, stop() would be lost.
  while (!server_->is_running()) std::this_thread::yield();
  server_->stop();
  thread_.join();
}

void AdminPages::show(const char* path, bool open, Handler handler) {
  server_->Get(
      path, [this, open, handler](const httplib::Request& request, httplib::Response& response) {
        if (open || allowed(request)) return (this->*handler)(request, response);
        response.set_header("WWW-Authenticate", "Basic realm=\"slotferry-shim\"");
        say(response, 401, "the admin password is needed: Bearer, or Basic with the user admin");
      });
}

bool AdminPages::allowed(const httplib::Request& request) const {
  if (password_.empty()) return true;
  const std::string given = request.get_header_value("Authorization");
  return given == "Bearer " + password_ ||
         given == httplib::make_basic_authentication_header("admin", password_).second;
}

void AdminPages::metrics(const httplib::Request&, httplib::Response& response) {
  response.set_content(metrics_page(*report_()), "text/plain; version=0.0.4; charset=utf-8");
}

void AdminPages::health(const httplib::Request&, httplib::Response& response) {
  const std::string unwell = report_()->unwell();
  response.status = unwell.empty() ? 200 : 503;
  response.set_content(unwell.empty() ? "ok\n" : unwell + "\n", kTextType);
}

void AdminPages::status(const httplib::Request&, httplib::Response& response) {
  const auto report = report_();
  Json out = Json::object();
  for (const ShimReport::Field& field : report->status()) {
    std::visit([&](const auto& value) { out[field.name] = value; }, field.value);
  }
  response.set_content(dump(out), kJsonType);
}

void AdminPages::slots(const httplib::Request& request, httplib::Response& response) {
  const auto report = report_();
  SlotSet wanted = report->slots();
  if (request.has_param("slots")) {
    const Result<SlotSet> parsed = SlotSet::parse(request.get_param_value("slots"));
    if (!parsed) return say(response, 400, parsed.status().text());
    wanted = *parsed;
  }
  Json rows = Json::array();
  wanted.for_each([&](int slot) {
    const ShimReport::Slot said = report->slot(slot);
    rows.push_back({{"slot", slot},
                    {"state", phase_name(said.row.phase)},
                    {"owner", said.owner},
                    {"epoch", said.row.epoch},
                    {"pause_us", said.row.pause_us},
                    {"held", said.row.held},
                    {"lag", said.row.lag},
                    {"auto", said.row.automatic},
                    {"text", said.row.text}});
  });
  response.set_content(dump({{"plan", report->plan_id()}, {"slots", rows}}), kJsonType);
}

// Server-sent events (WHATWG HTML, 9.2): each entry of the audit log from now on, or behind the
// entry named by Last-Event-ID or ?after=.
void AdminPages::events(const httplib::Request& request, httplib::Response& response) {
  std::string from = request.get_header_value("Last-Event-ID");
  if (request.has_param("after")) from = request.get_param_value("after");
  const auto asked = parse_uint64(from);
  if (!from.empty() && !asked) return say(response, 400, "after is the number of an audit entry");
  if (watchers_.fetch_add(1) >= kWatchersMax) {
    --watchers_;
    return say(response, 503, cat(kWatchersMax, " watch already; close one"));
  }
  response.set_header("Cache-Control", "no-store");
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, after = asked.value_or(feed_->newest()), greeted = false](
          size_t, httplib::DataSink& sink) mutable {
        std::string text;
        if (!greeted) text = ": the shim's audit log\n\n";
        const auto wait = greeted ? kKeepAlive : std::chrono::seconds(0);
        greeted = true;
        for (const FeedEvent& event : feed_->after(after, kEventsAtOnce, wait)) {
          text += cat("id: ", event.number, "\nevent: audit\ndata: ", event.json, "\n\n");
          after = event.number;
        }
        if (feed_->closed()) {
          sink.done();
          return true;
        }
        if (text.empty()) text = ": still here\n\n";
        return sink.write(text.data(), text.size());
      },
      [this](bool) { --watchers_; });
}

}  // namespace sf
