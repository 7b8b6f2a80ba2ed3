#include "migrator/permit_loop.h"

#include <chrono>

#include "migrator/proxy_readback.h"

namespace sf {
namespace {

constexpr auto kEvery = std::chrono::seconds(2);
constexpr std::string_view kOwnName = "slotferry";

// The value of `name=value` in one line of CLIENT LIST.
std::string_view field(std::string_view line, std::string_view name) {
  for (const std::string_view part : split(line, ' ')) {
    if (part.size() > name.size() && part.starts_with(name) && part[name.size()] == '=') {
      return part.substr(name.size() + 1);
    }
  }
  return {};
}

bool is_harmless(std::string_view line) {
  const std::string_view flags = field(line, "flags");
  if (flags.find('S') != std::string_view::npos || flags.find('M') != std::string_view::npos)
    return true;
  if (field(line, "name").starts_with(kOwnName)) return true;
  const std::string_view command = split(field(line, "cmd"), '|').front();
  return command == "info" || command == "config" || command == "auth" || command == "NULL" ||
         command == "replconf" || command == "psync" || command == "slotsinfo";
}

}  // namespace

std::string foreign_client(std::string_view client_list) {
  for (const std::string_view raw : split(client_list, '\n')) {
    const std::string_view line = trim(raw);
    if (line.empty() || is_harmless(line)) continue;
    return cat(field(line, "addr"), " (last command ", field(line, "cmd"), ")");
  }
  return {};
}

PermitLoop::PermitLoop(const MovePlan& plan, ShimLock lock)
    : plan_(plan),
      lock_(std::move(lock)),
      dashboard_(plan.dashboard, plan.product, plan.product_auth),
      shim_(plan.shim),
      old_master_(PeerOptions{.name = "old master",
                              .address = plan.old_side.master,
                              .password = plan.old_side.password,
                              .password_key = "plan key old.password",
                              .greetings = {{"CLIENT", "SETNAME", "slotferry-run"}}}),
      thread_([this] { loop(); }) {}

PermitLoop::~PermitLoop() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Status PermitLoop::state(int timeout_ms) {
  std::unique_lock<std::mutex> lock(mutex_);
  const bool came = changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                                      [this] { return rounds_ > 0; });
  if (!came)
    return Status::timeout("the proxies were not read back in time; look at the dashboard");
  return newest_;
}

void PermitLoop::loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Status found = round();
    lock.lock();
    newest_ = std::move(found);
    ++rounds_;
    changed_.notify_all();
    changed_.wait_for(lock, kEvery, [this] { return stop_; });
  }
}

Status PermitLoop::round() {
  const auto topology = dashboard_.topology();
  if (!topology) return topology.status();
  const auto expected = expect_slots(plan_.attached_slots(), plan_.shim.address.text());
  const auto found = read_back_proxies(dashboard_, *topology, expected);
  if (!found) return found.status();
  if (!found->ok()) return Status::unavailable("no permit to switch: " + found->text);
  if (plan_.old_side.kind == ServerKind::kRedis) {
    const auto clients = old_master_.expect({"CLIENT", "LIST"});
    if (!clients) return clients.status();
    const std::string foreign = foreign_client(clients->text);
    if (!foreign.empty()) {
      return Status::unavailable(cat("no permit to switch: ", old_master_.label(),
                                     " still has a client of its own, ", foreign,
                                     "; stop whatever writes past the proxies"));
    }
  }
  return shim_.permit(plan_.slots, lock_);
}

}  // namespace sf
