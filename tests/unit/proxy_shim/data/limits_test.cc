// I9: the limits of the data path on bytes and requests, a client's, a connection's and in total.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

DataPlaneOptions one_thread() {
  DataPlaneOptions options = ShimFixture::test_options();
  options.threads = 1;
  return options;
}

// INCR waits until release(); everything else is answered.
void let_increments_wait(ShimFixture& shim) {
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
}

std::string increments(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += resp::request({"INCR", "n"});
  return bytes;
}

}  // namespace

TEST_CASE("I9: a connection to a server has a limit of unanswered requests, over all its clients") {
  DataPlaneOptions options = one_thread();
  options.backend_requests_max = 50;
  ShimFixture shim(options);
  let_increments_wait(shim);
  TestClient a = shim.client();
  TestClient b = shim.client();
  TestClient c = shim.client();
  a.send_raw(increments(300));
  // A client whose replies are not known yet has 4 MiB / 128 KiB requests at a time.
  CHECK(eventually([&] { return shim.plane->stats().inflight == 33; }));
  b.send_raw(increments(300));
  CHECK(eventually([&] { return shim.plane->stats().inflight == 51; }));
  // One is over it, then everybody waits.
  c.send_raw(increments(300));
  CHECK(shim.ask({"PING"}) == "+PONG");
  CHECK(shim.plane->stats().inflight == 51);
  shim.old_server.set_rule({});
  shim.old_server.release();
  for (int i = 0; i < 300; ++i) {
    CHECK(a.read().type == Reply::Type::kInteger);
    CHECK(b.read().type == Reply::Type::kInteger);
    CHECK(c.read().type == Reply::Type::kInteger);
  }
}

TEST_CASE("I9: requests of all clients have a limit; beyond it each client has one at a time") {
  DataPlaneOptions options = one_thread();
  options.requests_max = 100;
  ShimFixture shim(options);
  let_increments_wait(shim);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<TestClient>(shim.plane->port()));
    clients.back()->send_raw(increments(200));
  }
  CHECK(eventually([&] { return shim.plane->stats().inflight >= 102; }));
  CHECK(shim.plane->stats().inflight <= 106);
  CHECK(shim.ask({"PING"}) == "+PONG");
  shim.old_server.set_rule({});
  shim.old_server.release();
  for (auto& client : clients) {
    for (int i = 0; i < 200; ++i) CHECK(client->read().type == Reply::Type::kInteger);
  }
  CHECK(shim.ask({"GET", "n"}) == "\"1000\"");
}

TEST_CASE("I9: unfinished requests have a limit in total; who goes over it is told and closed") {
  DataPlaneOptions options = one_thread();
  options.input_bytes_max = 4UL << 20;
  ShimFixture shim(options);
  TestClient first = shim.client();
  const std::string half = cat("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$6000000\r\n");
  first.send_raw(half + std::string(3'000'000, 'x'));
  CHECK(eventually([&] { return shim.plane->stats().clients == 1; }));
  CHECK(shim.ask({"SET", "k", "small"}) == "+OK");
  TestClient second = shim.client();
  second.send_raw("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$6000000\r\n" + std::string(2'000'000, 'y'));
  // One of the two has gone over it, whichever came later; the other's request is taken.
  const bool second_went = second.has_reply_within(2'000);
  TestClient& gone = second_went ? second : first;
  CHECK(reply_text(gone.read()).starts_with("-ERR no room for a request of this size"));
  CHECK(gone.is_closed());
  CHECK(shim.ask({"GET", "k"}) == "\"small\"");
}

TEST_CASE("I9: large requests to a server that stands still stay with their clients") {
  DataPlaneOptions options = one_thread();
  options.input_bytes_max = 8UL << 20;
  ShimFixture shim(options);
  let_increments_wait(shim);
  TestClient first = shim.client();
  first.send({"INCR", "n"});
  REQUIRE(shim.old_server.wait_for("INCR", 1));
  constexpr int kClients = 20;
  const std::string value(6UL << 20, 'x');
  std::atomic<int> refused{0};
  std::atomic<int> served{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&] {
      TestClient c = shim.client();
      c.send({"SET", "k", value});
      const auto reply = c.try_read();
      ++(reply && !reply->is_error() ? served : refused);
    });
  }
  // The connection takes 4 MiB and one request more, the kernel some; two more are in the budget.
  CHECK(eventually([&] { return refused >= kClients / 2; }));
  CHECK(shim.plane->stats().inflight <= kClients / 2);
  shim.old_server.set_rule({});
  shim.old_server.release();
  for (std::thread& thread : threads) thread.join();
  CHECK(refused + served == kClients);
  CHECK(served > 0);
  CHECK(reply_text(first.read()) == ":1");
}

TEST_CASE("I9: a reply that is larger than reply_bytes_max goes to a client that reads it") {
  DataPlaneOptions options = one_thread();
  options.reply_bytes_max = 1UL << 20;
  ShimFixture shim(options);
  const std::string big(8UL << 20, 'b');
  shim.old_server.set_value(0, "big", big);
  for (int i = 0; i < 5; ++i) {
    TestClient c = shim.client();
    CHECK(c.call({"GET", "big"}).text.size() == big.size());
  }
}

TEST_CASE("6.5: a reply that does not fit is read off and its client closed; others are served") {
  DataPlaneOptions options = one_thread();
  options.reply_bytes_max = 1UL << 20;
  options.client_output_bytes_max = 64UL << 10;
  ShimFixture shim(options);
  shim.old_server.set_value(0, "big", std::string(64UL << 20, 'b'));
  TestClient sleeper = shim.client();
  sleeper.limit_receive_buffer(16 * 1024);
  TestClient other = shim.client();
  sleeper.send({"GET", "big"});
  // Alone it is waited for. With another client's request behind it the connection is read on.
  CHECK(shim.old_server.wait_for("GET", 1));
  CHECK(reply_text(other.call({"SET", "k", "v"})) == "+OK");
  CHECK(eventually([&] { return shim.plane->stats().clients == 1; }));
  CHECK(reply_text(other.call({"GET", "k"})) == "\"v\"");
  CHECK(shim.plane->stats().inflight == 0);
}

TEST_CASE("6.5: the part of a split reply that is too large is an error of the whole command") {
  DataPlaneOptions options = one_thread();
  options.reply_bytes_max = 1UL << 20;
  ShimFixture shim(options);
  shim.publish(SlotSet::range(0, 511), SlotPhase::kNew);
  const std::string a = key_in(100);
  const std::string b = key_in(700);
  shim.new_server.set_value(0, a, std::string(4UL << 20, 'b'));
  shim.old_server.set_value(0, b, "small");
  CHECK(shim.ask({"MGET", a, b}).starts_with("-ERR the part of the reply"));
  CHECK(shim.ask({"MGET", b, key_in(50)}) == "[\"small\" nil]");
}
