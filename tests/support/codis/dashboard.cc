#include "tests/support/codis/dashboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "common/base/strings.h"
#include "tests/support/codis/auth.h"

namespace sf::codis {
namespace {

Status write_synced(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Status::io(cat("cannot write ", temporary, ": ", std::strerror(errno)));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool synced = written && ::fsync(fd) == 0;
  ::close(fd);
  if (!synced || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return Status::io(cat("cannot write ", path, ": ", std::strerror(errno)));
  }
  return Status::ok();
}

}  // namespace

Dashboard::Dashboard(DashboardOptions options, std::function<void()> on_shutdown)
    : options_(std::move(options)),
      on_shutdown_(std::move(on_shutdown)),
      xauth_(dashboard_xauth(options_.product)),
      start_time_(time_text()) {}

Dashboard::~Dashboard() {
  {
    const std::lock_guard lock(end_mutex_);
    ending_ = true;
  }
  end_.notify_all();
  http_.stop();
  for (auto& thread : threads_) thread.join();
}

Status Dashboard::start() {
  if (!options_.state_file.empty()) {
    std::ifstream in(options_.state_file);
    std::stringstream text;
    if (in.good()) {
      text << in.rdbuf();
      const Json json = Json::parse(text.str(), nullptr, false);
      const Status loaded = json.is_discarded() ? Status::corrupt("the state file is no JSON")
                                                : topology_.from_json(json);
      if (!loaded) return loaded.with_context(options_.state_file);
    }
  }
  prepare_server(http_);
  const auto port = bind_http(http_, options_.bind, options_.port);
  if (!port) return port.status();
  options_.port = *port;
  token_ = make_token(options_.product, address(), address());
  add_open_routes();
  add_routes();
  add_group_routes();
  add_slot_routes();
  add_proxy_routes();
  threads_.emplace_back([this] { http_.listen_after_bind(); });
  while (!http_.is_running()) std::this_thread::yield();  // stop() before that would be lost
  threads_.emplace_back([this] { run_stats(); });
  threads_.emplace_back([this] { run_slot_actions(); });
  threads_.emplace_back([this] { run_syncs(); });
  return Status::ok();
}

std::string Dashboard::address() const {
  return cat(options_.bind, ":", options_.port);
}

Status Dashboard::change(const Mutation& mutation) {
  const std::lock_guard lock(mutex_);
  if (const Status done = mutation(); !done) return done;
  return save();
}

Status Dashboard::save() {
  if (options_.state_file.empty()) return Status::ok();
  return write_synced(options_.state_file, topology_.to_json().dump(1));
}

std::vector<SlotFill> Dashboard::fills_of_group(int id) const {
  std::vector<SlotFill> fills;
  for (const SlotMapping& slot : topology_.slots) {
    const bool touches = slot.group == id || (!slot.state.empty() && slot.target == id);
    if (touches) fills.push_back(topology_.fill_of(slot, forward_method()));
  }
  return fills;
}

bool Dashboard::pause(int ms) {
  std::unique_lock lock(end_mutex_);
  return !end_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return ending(); });
}

Json Dashboard::model() const {
  return {{"token", token_},         {"start_time", start_time_},
          {"admin_addr", address()}, {"product_name", options_.product},
          {"pid", getpid()},         {"pwd", working_folder()},
          {"sys", uname_text()}};
}

}  // namespace sf::codis
