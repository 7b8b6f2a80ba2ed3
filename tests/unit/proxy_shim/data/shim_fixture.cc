#include "tests/unit/proxy_shim/data/shim_fixture.h"

#include <chrono>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace sf {

std::string key_in(int slot, int n) {
  int seen = 0;
  for (int i = 0;; ++i) {
    std::string key = cat("k", i);
    if (slot_of(key) == slot && seen++ == n) return key;
  }
}

DataPlaneOptions ShimFixture::test_options() {
  DataPlaneOptions options;
  options.threads = 2;
  options.run_id = std::string(40, 'a');
  options.backend_timeout_ms = 5'000;
  return options;
}

ShimFixture::ShimFixture(DataPlaneOptions options) : ShimFixture([](DataPlane&) {}, options) {}

ShimFixture::ShimFixture(const std::function<void(DataPlane&)>& prepare, DataPlaneOptions options)
    : plane(make_data_plane(options, Log())) {
  prepare(*plane);
  table.epoch = 1;
  table.phase.fill(SlotPhase::kOld);
  table.old_side = {{"127.0.0.1", old_server.port()}, ""};
  table.new_side = {{"127.0.0.1", new_server.port()}, ""};
  SF_CHECK(plane->start(std::make_shared<RouteTable>(table)).is_ok());
}

void ShimFixture::set(const SlotSet& slots, SlotPhase phase) {
  slots.for_each([&](int slot) { table.phase[static_cast<size_t>(slot)] = phase; });
}

void ShimFixture::publish() {
  ++table.epoch;
  SF_CHECK(plane->publish(std::make_shared<RouteTable>(table)).is_ok());
}

void ShimFixture::publish(const SlotSet& slots, SlotPhase phase) {
  set(slots, phase);
  publish();
}

std::string ShimFixture::ask(std::initializer_list<std::string_view> argv) const {
  TestClient c(plane->port());
  return reply_text(c.call(argv));
}

bool eventually(const std::function<bool()>& check) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < deadline) {
    if (check()) return true;
    std::this_thread::yield();
  }
  return check();
}

}  // namespace sf
