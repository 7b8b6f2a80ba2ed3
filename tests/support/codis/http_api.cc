#include "tests/support/codis/http_api.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "common/base/strings.h"

namespace sf::codis {

constexpr size_t kHttpThreads = 32;

void prepare_server(httplib::Server& server) {
  server.set_tcp_nodelay(true);
  // No SO_REUSEPORT, which httplib sets by default: a second program on the port must fail.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  });
  server.set_keep_alive_max_count(1'000'000);
  // A connection kept alive holds one of these; so does a fillslots that drains.
  server.new_task_queue = [] { return new httplib::ThreadPool(kHttpThreads); };
  server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.status == 404) {
      response.set_content("404 page not found\n", "text/plain; charset=utf-8");
    }
  });
}

void reply_json(httplib::Response& response, const Json& body) {
  response.set_content(body.dump(4, ' ', false, Json::error_handler_t::replace),
                       "application/json; charset=utf-8");
}

void reply_ok(httplib::Response& response) {
  reply_json(response, "OK");
}

void reply_error(httplib::Response& response, const Status& error) {
  Json stack;
  if (error.code() != Code::kInvalid) {
    stack = Json::array({{{"Name", "codis/pkg/topom"}, {"File", "topom.go"}, {"Line", 1}}});
  }
  response.status = 800;
  reply_json(response, {{"Cause", error.text()}, {"Stack", stack}});
}

void reply(httplib::Response& response, const Status& status) {
  if (status.is_ok()) {
    reply_ok(response);
  } else {
    reply_error(response, status);
  }
}

Result<int> bind_http(httplib::Server& server, const std::string& host, int port) {
  const int bound =
      port == 0 ? server.bind_to_any_port(host) : (server.bind_to_port(host, port) ? port : -1);
  if (bound < 0) {
    return Status::io(cat("cannot listen on ", host, ":", port,
                          ": the port is in use or not allowed; choose another"));
  }
  return bound;
}

Status bad_xauth() {
  return Status::invalid("invalid xauth, please check product name & auth");
}

std::unique_ptr<httplib::Client> make_client(const std::string& address) {
  const auto host_port = parse_host_port(address);
  auto client = host_port ? std::make_unique<httplib::Client>(host_port->host, host_port->port)
                          : std::make_unique<httplib::Client>("127.0.0.1", 1);
  client->set_connection_timeout(1, 0);
  client->set_read_timeout(60, 0);
  client->set_write_timeout(60, 0);
  client->set_tcp_nodelay(true);
  return client;
}

Status check_answer(const std::string& method, const std::string& address, const std::string& path,
                    const httplib::Result& result) {
  const std::string call = cat(method, " \"http://", address, path, "\": ");
  if (!result) {
    const auto error = result.error();
    if (error == httplib::Error::Connection) {
      return Status::unavailable(cat(call, "dial tcp ", address, ": connect: connection refused"));
    }
    return Status::timeout(cat(call, httplib::to_string(error)));
  }
  if (result->status == 200) return Status::ok();
  const auto body = Json::parse(result->body, nullptr, false);
  if (body.is_object() && body.contains("Cause")) {
    return Status::refused(body["Cause"].get<std::string>());
  }
  return Status::refused(cat("[", result->status, "] ", path));
}

std::string time_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &utc);
  const std::string fraction = std::to_string(1000 + ms.count() % 1000).substr(1);
  return cat(text, ".", fraction, " +0000 UTC");
}

std::string uname_text() {
  utsname name{};
  uname(&name);
  return cat(name.sysname, " ", name.nodename, " ", name.release, " ", name.machine);
}

std::string host_name() {
  utsname name{};
  uname(&name);
  return name.nodename;
}

std::string working_folder() {
  char path[4096];
  return getcwd(path, sizeof(path)) == nullptr ? "" : path;
}

}  // namespace sf::codis
