// codis-standin dashboard|proxy: the Codis of the tests and the demonstration. Serves in the
// foreground until SIGTERM, SIGINT or a shutdown call; one line on standard output when ready.
#include <sys/resource.h>

#include <boost/program_options.hpp>
#include <csignal>
#include <iostream>
#include <string>

#include "common/base/status.h"
#include "tests/support/codis/dashboard.h"
#include "tests/support/codis/proxy.h"

namespace {

namespace po = boost::program_options;
using sf::Status;
using sf::codis::Dashboard;
using sf::codis::Proxy;

void ask_to_end() {
  kill(getpid(), SIGTERM);
}

int complain(const Status& error) {
  std::cerr << "codis-standin: " << error.text() << "\n";
  return 1;
}

// Blocks the ending signals for every thread, so that one place waits for them.
sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return set;
}

void many_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

template <class Server>
int serve(Server& server, const std::string& address, const std::string& admin,
          const sigset_t& signals) {
  (void)server;
  std::cout << "ready " << address << " " << admin << std::endl;
  int signal = 0;
  sigwait(&signals, &signal);
  return 0;
}

int run_dashboard(const po::variables_map& flags, const sigset_t& signals) {
  sf::codis::DashboardOptions options;
  options.bind = flags["bind"].as<std::string>();
  options.port = flags["port"].as<int>();
  options.product = flags["product"].as<std::string>();
  options.product_auth = flags["auth"].as<std::string>();
  options.state_file = flags["state"].as<std::string>();
  options.semi_async = flags["migration-method"].as<std::string>() != "sync";
  options.plain_redis = flags.count("plain-redis") > 0;
  Dashboard dashboard(options, ask_to_end);
  if (const Status started = dashboard.start(); !started) return complain(started);
  return serve(dashboard, dashboard.address(), dashboard.address(), signals);
}

int run_proxy(const po::variables_map& flags, const sigset_t& signals) {
  sf::codis::ProxyOptions options;
  options.bind = flags["bind"].as<std::string>();
  options.port = flags["port"].as<int>();
  options.admin_port = flags["admin-port"].as<int>();
  options.product = flags["product"].as<std::string>();
  options.product_auth = flags["auth"].as<std::string>();
  options.parallel = flags["parallel"].as<int>();
  options.databases = flags["databases"].as<int>();
  options.ping_period_us = flags["ping-period-ms"].as<int>() * 1000LL;
  options.recv_timeout_us = flags["recv-timeout-ms"].as<int>() * 1000LL;
  Proxy proxy(options, ask_to_end);
  if (const Status started = proxy.start(); !started) return complain(started);
  return serve(proxy, proxy.address(), proxy.admin_address(), signals);
}

}  // namespace

int main(int argc, char** argv) {
  const sigset_t signals = ending_signals();
  many_descriptors();
  const std::string role = argc > 1 ? argv[1] : "";
  po::options_description known("codis-standin dashboard|proxy, flags");
  const auto text = [](const char* value) {
    return po::value<std::string>()->default_value(value);
  };
  const auto number = [](int value) { return po::value<int>()->default_value(value); };
  known.add_options()("help", "this text")("bind", text("127.0.0.1"), "address to listen on")(
      "port", number(0), "data port, or the dashboard's HTTP port; 0: a free one")(
      "admin-port", number(0), "proxy: HTTP port")("product", text("codis-demo"), "product name")(
      "auth", text(""), "product auth: the servers' password")(
      "state", text(""), "dashboard: file that keeps groups, slots and proxies")(
      "migration-method", text("semi-async"), "dashboard: semi-async or sync")(
      "plain-redis", "dashboard: let servers without SLOTSINFO into groups (Codis does not)")(
      "parallel", number(1), "proxy: connections per database and server")(
      "databases", number(16), "proxy: databases")("ping-period-ms", number(5000), "proxy")(
      "recv-timeout-ms", number(30000), "proxy: of silence while a reply is due");
  po::variables_map flags;
  try {
    po::store(po::command_line_parser(argc - (argc > 1), argv + (argc > 1)).options(known).run(),
              flags);
    po::notify(flags);
  } catch (const po::error& error) {
    std::cerr << "codis-standin: " << error.what() << "; see --help\n";
    return 1;
  }
  for (const char* name : {"port", "admin-port"}) {
    const int port = flags[name].as<int>();
    if (port < 0 || port > 65535) {
      std::cerr << "codis-standin: --" << name << " " << port << " is no port; give 0 to 65535\n";
      return 1;
    }
  }
  if (role == "dashboard") return run_dashboard(flags, signals);
  if (role == "proxy") return run_proxy(flags, signals);
  std::cout << known << "\n";
  return role == "--help" ? 0 : 1;
}
