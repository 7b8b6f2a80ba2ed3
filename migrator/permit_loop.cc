#include "migrator/permit_loop.h"

#include <chrono>

#include "migrator/proxy_readback.h"

namespace sf {
namespace {

constexpr auto kEvery = std::chrono::seconds(2);
}  // namespace

PermitLoop::PermitLoop(const MovePlan& plan, ShimLock lock)
    : plan_(plan),
      lock_(std::move(lock)),
      dashboard_(plan.dashboard, plan.product, plan.product_auth),
      shim_(plan.shim),
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
  return shim_.permit(plan_.slots, lock_);
}

}  // namespace sf
