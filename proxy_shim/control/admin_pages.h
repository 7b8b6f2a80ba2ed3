// What the admin port shows to HTTP: /metrics, /healthz, /api/v1/status, /api/v1/slots,
// /api/v1/events (docs/COMMANDS.md). Listens on a loopback port of its own; the admin port hands
// HTTP connections on to it (http_tunnel.h).
//
// With a password all but /healthz ask for it: "Authorization: Bearer <password>", or Basic with
// the user "admin". Nothing here changes anything.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "proxy_shim/control/event_feed.h"
#include "proxy_shim/control/shim_report.h"

namespace httplib {
class Server;
struct Request;
struct Response;
}  // namespace httplib

namespace sf {

class AdminPages {
 public:
  static constexpr int kWatchersMax = 16;  // of /api/v1/events at a time; more get 503

  // Asked at each request: another plan's control may have taken over.
  using ReportNow = std::function<std::shared_ptr<const ShimReport>()>;
  // `feed` outlives it.
  AdminPages(ReportNow report, EventFeed* feed, std::string password);
  ~AdminPages();  // stops

  Status start();
  void stop();  // closes the feed: watchers are let go
  int port() const { return port_; }

 private:
  using Handler = void (AdminPages::*)(const httplib::Request&, httplib::Response&);
  void show(const char* path, bool open, Handler handler);
  bool allowed(const httplib::Request& request) const;

  void metrics(const httplib::Request& request, httplib::Response& response);
  void health(const httplib::Request& request, httplib::Response& response);
  void status(const httplib::Request& request, httplib::Response& response);
  void slots(const httplib::Request& request, httplib::Response& response);
  void events(const httplib::Request& request, httplib::Response& response);

  const ReportNow report_;
  EventFeed* const feed_;
  const std::string password_;
  std::atomic<int> watchers_{0};
  int port_ = 0;
  std::unique_ptr<httplib::Server> server_;
  std::thread thread_;
};

}  // namespace sf
