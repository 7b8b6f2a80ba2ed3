#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/support/redis_process.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
int64_t resident_mib() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE) / (1 << 20);
}
}  // namespace

TEST_CASE("X04 I9: clients that do not read cost no more than the limit, and others are served") {
  RedisProcess redis;
  ShimFixture shim;
  shim.table.old_side.address.port = redis.port();
  shim.publish();
  TestClient other = shim.client();
  CHECK(reply_text(other.call({"SET", "big", std::string(1 << 20, 'b')})) == "+OK");
  const int64_t before = resident_mib();
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += resp::request({"GET", "big"});
  std::vector<std::unique_ptr<TestClient>> clients;
  int64_t peak = 0;
  int64_t slowest_ms = 0;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<TestClient>(shim.plane->port()));
    clients.back()->send_raw(bytes);
    const auto start = std::chrono::steady_clock::now();
    CHECK(reply_text(other.call({"GET", "small"})) == "nil");
    const auto took = std::chrono::steady_clock::now() - start;
    slowest_ms = std::max<int64_t>(
        slowest_ms, std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
    peak = std::max(peak, resident_mib() - before);
  }
  // 256 MiB of slow clients' replies, 4 MiB each of all clients below the limit, and slack for one
  // reply of each worker's connection.
  MESSAGE("peak MiB " << peak << ", slowest GET beside them ms " << slowest_ms);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  const int64_t shadow = 4;  // sanitizers' own memory
#else
  const int64_t shadow = 1;
#endif
  CHECK(peak < shadow * (256 + 60 * 4 + 128));
}

TEST_CASE("I9: a client that reads late gets everything; meanwhile it is not read") {
  ShimFixture shim;
  const std::string big(100'000, 'b');
  shim.old_server.set_value(0, "big", big);
  TestClient c = shim.client();
  c.limit_receive_buffer(256 * 1024);
  for (int i = 0; i < 100; ++i) {
    c.send({"GET", "small"});
    c.read();
  }
  std::string bytes;
  constexpr int kAsked = 400;
  for (int i = 0; i < kAsked; ++i) bytes += resp::request({"GET", "big"});
  c.send_raw(bytes);
  // What waits for it in the shim is over its limit: from now on it is not read, however many turns
  // the workers have.
  CHECK(eventually([&] { return shim.plane->stats().bytes_out > 4'000'000; }));
  c.send({"INCR", "n"});
  for (int i = 0; i < 300; ++i) CHECK(shim.ask({"GET", "n"}) == "nil");
  for (int i = 0; i < kAsked; ++i) CHECK(c.read().text.size() == big.size());
  CHECK(reply_text(c.read()) == ":1");
}

TEST_CASE("X15: clients that hang up on slow commands leave no sockets behind") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
  for (int round = 0; round < 3; ++round) {
    {
      std::vector<std::unique_ptr<TestClient>> clients;
      for (int i = 0; i < 100; ++i) {
        clients.push_back(std::make_unique<TestClient>(shim.plane->port()));
        clients.back()->send({"INCR", "k"});
      }
    }
    CHECK(eventually([&] { return shim.plane->stats().clients == 0; }));
  }
  shim.old_server.set_rule({});
  shim.old_server.release();
  CHECK(eventually([&] { return shim.plane->stats().inflight == 0; }));
  CHECK(shim.ask({"SET", "k", "v"}) == "+OK");
}
