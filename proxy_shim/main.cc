// slotferry-shim: settings, signals, the ready line. Everything else is in shim.h.
#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "common/ops/log.h"
#include "common/ops/process.h"
#include "common/ops/settings.h"
#include "proxy_shim/shim.h"

namespace sf {
namespace {

using Kind = SettingSpec::Kind;

std::vector<SettingSpec> specs() {
  return {
      {"port", "7100", "port for proxies and clients; 0 for any free one", Kind::kInteger, 0,
       65535},
      {"bind", "127.0.0.1", "address for proxies and clients", Kind::kText, 0, 0},
      {"dir", "./shim", "state folder: owner records and audit log", Kind::kText, 0, 0},
      {"threads", "2", "worker threads", Kind::kInteger, 1, 64},
      {"requirepass", "",
       "password asked of proxies and clients; the plan's product_auth by default", Kind::kText, 0,
       0},
      {"admin-port", "7101", "port for SHIM commands; 0 for any free one", Kind::kInteger, 0,
       65535},
      {"admin-bind", "127.0.0.1", "address for SHIM commands", Kind::kText, 0, 0},
      {"admin-password", "", "password asked on the admin port; the plan's by default", Kind::kText,
       0, 0},
      {"plan", "", "the plan file of the move", Kind::kText, 0, 0},
      {"init", "no", "first start for this plan: no record is there yet", Kind::kFlag, 0, 0},
      {"adopt", "no", "the plan file was changed on purpose: addresses, passwords, more slots",
       Kind::kFlag, 0, 0},
      {"adopt-lose", "no",
       "as adopt, and what a former master has and its successor has not is given up", Kind::kFlag,
       0, 0},
      {"log", "", "log file; standard error by default", Kind::kText, 0, 0},
      {"log-level", "info", "debug, info, warning or error", Kind::kText, 0, 0},
      {"backend-timeout", "10000", "milliseconds a server has for an answer", Kind::kInteger, 1,
       600'000},
      {"backend-wait", "5000", "milliseconds a start waits for servers that are down",
       Kind::kInteger, 0, 600'000},
      {"drain", "5000", "milliseconds a stop waits for answers", Kind::kInteger, 0, 600'000},
      {"held-requests-max", "100000", "requests held during a cutover before it is called off",
       Kind::kInteger, 1, 10'000'000},
      {"held-bytes-max", "67108864", "bytes held during a cutover before it is called off",
       Kind::kBytes, 1024, INT64_MAX},
      {"maxclients", "10000", "client connections", Kind::kInteger, 1, 1'000'000},
      {"client-output-bytes-max", "4194304", "unread replies of a client before it is not read",
       Kind::kBytes, 65'536, INT64_MAX},
      {"output-bytes-max", "268435456", "unread replies of all clients before some are closed",
       Kind::kBytes, 1 << 20, INT64_MAX},
      {"input-bytes-max", "1073741824", "requests not yet whole, of all clients", Kind::kBytes,
       1 << 20, INT64_MAX},
      {"reply-bytes-max", "67108864", "collected of a reply for a client that does not read it",
       Kind::kBytes, 65'536, INT64_MAX},
      {"client-requests-max", "10000", "unanswered requests of a client before it is not read",
       Kind::kInteger, 1, 1'000'000},
      {"requests-max", "1000000", "unanswered requests of all clients", Kind::kInteger, 64,
       100'000'000},
      {"backend-requests-max", "100000", "unanswered requests of one connection to a server",
       Kind::kInteger, 1, 10'000'000},
  };
}

ShimOptions options_of(const Settings& settings, const MovePlan& plan) {
  ShimOptions out;
  out.data.bind = settings.text("bind");
  out.data.port = static_cast<int>(settings.integer("port"));
  out.data.threads = static_cast<int>(settings.integer("threads"));
  // Proxies and dashboard log in with it, and a refused AUTH takes the whole connection (contracts/
  // codis 1.2).
  out.data.password =
      settings.given("requirepass") ? settings.text("requirepass") : plan.product_auth;
  out.data.backend_timeout_ms = settings.integer("backend-timeout");
  out.data.held_requests_max = static_cast<size_t>(settings.integer("held-requests-max"));
  out.data.held_bytes_max = static_cast<size_t>(settings.integer("held-bytes-max"));
  out.data.clients_max = static_cast<size_t>(settings.integer("maxclients"));
  out.data.client_output_bytes_max =
      static_cast<size_t>(settings.integer("client-output-bytes-max"));
  out.data.output_bytes_max = static_cast<size_t>(settings.integer("output-bytes-max"));
  out.data.input_bytes_max = static_cast<size_t>(settings.integer("input-bytes-max"));
  out.data.reply_bytes_max = static_cast<size_t>(settings.integer("reply-bytes-max"));
  out.data.client_requests_max = static_cast<size_t>(settings.integer("client-requests-max"));
  out.data.requests_max = static_cast<size_t>(settings.integer("requests-max"));
  out.data.backend_requests_max = static_cast<size_t>(settings.integer("backend-requests-max"));
  out.admin.bind = settings.text("admin-bind");
  out.admin.port = static_cast<int>(settings.integer("admin-port"));
  out.admin.password =
      settings.given("admin-password") ? settings.text("admin-password") : plan.shim.admin_password;
  out.dir = settings.text("dir");
  out.plan_file = settings.text("plan");
  out.init = settings.flag("init");
  out.adopt_lose = settings.flag("adopt-lose");
  out.adopt = settings.flag("adopt") || out.adopt_lose;
  out.backend_wait_ms = settings.integer("backend-wait");
  out.drain_ms = settings.integer("drain");
  return out;
}

int complain(const Status& status) {
  std::fprintf(stderr, "slotferry-shim: %s\n", status.text().c_str());
  return 1;
}

// Set by the signal thread, waited for by main.
class StopFlag {
 public:
  void set() {
    {
      std::lock_guard guard(mutex_);
      set_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

int run(int argc, char** argv) {
  StopFlag stop;
  StopSignals signals([&stop] { stop.set(); });
  Settings settings(specs());
  const Status parsed = settings.parse(argc, argv, "slotferry-shim",
                                       "Stands between Codis proxies and two groups, and switches "
                                       "slots from the old to the new one.");
  if (!parsed) return complain(parsed);
  if (settings.done()) return 0;
  if (settings.text("plan").empty()) {
    return complain(Status::invalid("--plan FILE is needed: the plan that `slotferry plan` wrote"));
  }
  Result<MovePlan> plan = MovePlan::load(settings.text("plan"));
  if (!plan) return complain(plan.status());
  Result<LogLevel> level = parse_log_level(settings.text("log-level"));
  if (!level) return complain(level.status());
  Result<std::shared_ptr<LogSink>> sink = open_log(settings.text("log"), *level);
  if (!sink) return complain(sink.status());
  Shim shim(options_of(settings, *plan), Log(*sink, "shim"));
  const Status started = shim.start();
  if (!started) return complain(started);
  print_ready("slotferry-shim",
              cat(settings.text("bind"), ":", shim.port(), ", admin ", settings.text("admin-bind"),
                  ":", shim.admin_port(), ", plan ", shim.plan_id()));
  stop.wait();
  shim.stop();
  return 0;
}

}  // namespace
}  // namespace sf

int main(int argc, char** argv) {
  return sf::run(argc, argv);
}
