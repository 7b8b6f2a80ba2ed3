#include "proxy_shim/control/admin_server.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "tests/support/test_client.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

struct AdminRig {
  explicit AdminRig(const std::string& password = "") : board(plan), permits(&clock) {
    store = std::move(*StateStore::open(dir.path(), plan, true, &clock));
    board.attach(&plane);
    ports = {&plan, store.get(), &board, &permits, &driver, &plane, &stats, &clock, Log()};
    RunnerOptions options;
    options.state_dir = dir.path();
    options.attempts_max = 1;
    runner = std::make_unique<CutoverRunner>(ports, options);
    report = std::make_unique<ShimReport>(ports, "0123");
    commands = std::make_shared<AdminCommands>(ports, runner.get(), report.get());
    AdminOptions admin;
    admin.password = password;
    server = std::make_unique<AdminServer>(
        admin, [this] { return commands; }, 0, Log());
    REQUIRE(server->start().is_ok());
    runner->start();
  }
  ~AdminRig() {
    runner->stop();
    server->stop();
  }

  TempDir dir;
  SystemClock clock;
  MovePlan plan = test_plan();
  std::unique_ptr<StateStore> store;
  SlotBoard board;
  Permits permits;
  FakeDriver driver;
  FakePlane plane;
  PauseStats stats;
  RunPorts ports;
  std::unique_ptr<CutoverRunner> runner;
  std::unique_ptr<ShimReport> report;
  std::shared_ptr<AdminCommands> commands;
  std::unique_ptr<AdminServer> server;
};

TEST_CASE("admin port: password") {
  AdminRig rig("secret");
  TestClient client(rig.server->port());
  CHECK(reply_text(client.call({"SHIM", "STATUS"})).find("NOAUTH") != std::string::npos);
  CHECK(reply_text(client.call({"AUTH", "wrong"})).find("WRONGPASS") != std::string::npos);
  CHECK(reply_text(client.call({"SHIM", "STATUS"})).find("NOAUTH") != std::string::npos);
  CHECK(reply_text(client.call({"AUTH", "secret"})) == "+OK");
  CHECK(client.call({"SHIM", "STATUS"}).elements.size() == 74);
  CHECK(reply_text(client.call({"QUIT"})) == "+OK");
  CHECK(client.is_closed());
}

TEST_CASE("I9: connections that quit or break the protocol leave room for others") {
  AdminRig rig;
  for (int i = 0; i < 300; ++i) {
    TestClient quits(rig.server->port());
    CHECK(reply_text(quits.call({"QUIT"})) == "+OK");
    TestClient breaks(rig.server->port());
    breaks.send_raw("*x\r\n");
    CHECK(reply_text(breaks.read()).starts_with("-ERR Protocol error"));
  }
  TestClient next(rig.server->port());
  CHECK(reply_text(next.call({"PING"})) == "+PONG");
}

TEST_CASE("I6: reads and guard are set by command, audited, and refused when they make no sense") {
  AdminRig rig;
  TestClient c(rig.server->port());
  CHECK(c.call({"SHIM", "READS"}).elements.at(1).text == "owner");
  CHECK(reply_text(c.call({"SHIM", "READS", "compare", "20"})) == "+OK");
  CHECK(rig.plane.rules().reads == ReadPolicy::kCompare);
  CHECK(rig.plane.rules().compare_percent == 20);
  CHECK(reply_text(c.call({"SHIM", "GUARD", "pika-3.5"})) == "+OK");
  CHECK(reply_text(c.call({"SHIM", "GUARD"})) == "\"pika-3.5\"");
  CHECK(rig.plane.rules().reads == ReadPolicy::kCompare);
  CHECK(c.call({"SHIM", "READS", "owner", "20"}).is_error());
  CHECK(c.call({"SHIM", "READS", "compare", "0"}).is_error());
  CHECK(c.call({"SHIM", "READS", "compare", "101"}).is_error());
  CHECK(c.call({"SHIM", "READS", "both"}).is_error());
  CHECK(c.call({"SHIM", "GUARD", "pika"}).is_error());
}

TEST_CASE("admin port: the lock's owner is text; the shim lives on after bytes that are none") {
  AdminRig rig;
  TestClient client(rig.server->port());
  CHECK(reply_text(client.call({"SHIM", "LOCK", "\xaa\xfe"})).starts_with("-ERR the lock's owner"));
  CHECK(client.call({"SHIM", "LOCK", "me"}).type == Reply::Type::kInteger);
}

TEST_CASE("admin port: a long command holds up its own connection only, and keeps its order") {
  AdminRig rig;
  std::atomic<bool> go{false};
  rig.driver.on_call = [&](const std::string& name) {
    while (name == "announce" && !go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  TestClient busy(rig.server->port());
  TestClient other(rig.server->port());
  CHECK(reply_text(busy.call({"SHIM", "PERMIT", "901"})) == "+OK");
  busy.send({"SHIM", "CUTOVER", "901"});
  busy.send({"PING"});
  for (int i = 0; i < 50; ++i) CHECK(reply_text(other.call({"PING"})) == "+PONG");
  CHECK(!busy.has_reply_within(20));
  go = true;
  CHECK(busy.read().elements.at(0).elements.at(1).text == "NEW");
  CHECK(reply_text(busy.read()) == "+PONG");
}

TEST_CASE("admin port: pipelines, inline lines, a client that goes away, garbage") {
  AdminRig rig;
  TestClient client(rig.server->port());
  client.send_raw("PING\r\nshim help\r\n*1\r\n$4\r\nPING\r\n");
  CHECK(reply_text(client.read()) == "+PONG");
  CHECK(client.read().elements.size() == 16);
  CHECK(reply_text(client.read()) == "+PONG");
  {
    TestClient gone(rig.server->port());
    gone.send({"SHIM", "PERMIT", "901"});
    gone.send({"SHIM", "CUTOVER", "901"});
  }
  TestClient bad(rig.server->port());
  bad.send_raw("*99999999\r\n");
  CHECK(reply_text(bad.read()).find("Protocol error") != std::string::npos);
  CHECK(bad.is_closed());
  CHECK(reply_text(client.call({"PING"})) == "+PONG");
}

TEST_CASE("admin port: a port in use is one sentence") {
  AdminRig rig;
  AdminOptions options;
  options.port = rig.server->port();
  AdminServer second(
      options, [&rig] { return rig.commands; }, 0, Log());
  const Status status = second.start();
  CHECK(!status.is_ok());
  CHECK(status.text().find(std::to_string(options.port)) != std::string::npos);
}

}  // namespace
}  // namespace sf
