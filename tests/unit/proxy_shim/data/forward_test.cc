#include <doctest/doctest.h>

#include <atomic>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

TEST_CASE("a request goes to the owner of its slot and its reply comes back") {
  ShimFixture shim;
  const std::string a = key_in(905);
  CHECK(shim.ask({"SET", a, "1"}) == "+OK");
  CHECK(shim.old_server.value(0, a) == "1");
  shim.publish(SlotSet::of(905), SlotPhase::kNew);
  CHECK(shim.ask({"GET", a}) == "nil");
  CHECK(shim.ask({"SET", a, "2"}) == "+OK");
  CHECK(shim.new_server.value(0, a) == "2");
  CHECK(shim.old_server.value(0, a) == "1");
}

TEST_CASE("M20: owners change in one table, and an older table never comes back") {
  ShimFixture shim;
  const RouteTable older = shim.table;
  const SlotSet moved = SlotSet::range(905, 906);
  shim.set(moved, SlotPhase::kNew);
  shim.publish();
  for (const int slot : {905, 906}) CHECK(shim.ask({"SET", key_in(slot), "1"}) == "+OK");
  const RouteTable newer = shim.table;
  // A publisher that comes late, with what was true before.
  CHECK(shim.plane->publish(std::make_shared<RouteTable>(older)).is_ok());
  RouteTable torn = older;
  torn.phase.fill(SlotPhase::kOutside);
  CHECK(shim.plane->publish(std::make_shared<RouteTable>(torn)).is_ok());
  for (int i = 0; i < 8; ++i) {  // whichever worker takes the connection
    for (const int slot : {905, 906}) CHECK(shim.ask({"INCR", key_in(slot)}) == cat(":", i + 2));
  }
  CHECK(shim.old_server.count("INCR") == 0);
  CHECK(shim.new_server.count("INCR") == 16);
  // The same table once more changes nothing; a later one does.
  CHECK(shim.plane->publish(std::make_shared<RouteTable>(newer)).is_ok());
  shim.publish(moved, SlotPhase::kOld);
  CHECK(shim.ask({"GET", key_in(905)}) == "nil");
}

TEST_CASE("the command name reaches the server as the client wrote it") {
  ShimFixture shim;
  CHECK(shim.ask({"gEt", "foo"}) == "nil");
  CHECK(shim.old_server.requests().back()[0] == "gEt");
}

TEST_CASE("inline commands are sent as arrays (contracts/codis 1.4)") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.send_raw("SET foo \"a b\\x41\"\nGET foo\r\n");
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "\"a bA\"");
}

TEST_CASE("P01 P02 P04 P05: odd beginnings, bad lengths, quotes") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.send_raw("*0\r\n*2\r\n$3\r\nget\r\n$3\r\nkey\r\n*-1\r\n\r\n   PING   \r\nPING\n");
  CHECK(reply_text(c.read()) == "nil");
  CHECK(reply_text(c.read()) == "+PONG");
  CHECK(reply_text(c.read()) == "+PONG");
  const std::pair<const char*, const char*> bad[] = {
      {"*2\r\n$3\r\nGET\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length"},
      {"*9223372036854775808\r\n", "-ERR Protocol error: invalid multibulk length"},
      {"set \"\"\"k\"\"\" v\r\n", "-ERR Protocol error: unbalanced quotes in request"},
  };
  for (const auto& [bytes, error] : bad) {
    TestClient broken = shim.client();
    broken.send_raw(bytes);
    CHECK(reply_text(broken.read()) == error);
    CHECK(broken.is_closed());
  }
}

TEST_CASE("P04: a protocol error is answered after the requests before it") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.send_raw("*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n!");
  CHECK(reply_text(c.read()) == "nil");
  CHECK(c.read().is_error());
  CHECK(c.is_closed());
}

TEST_CASE("P07 X05: a pipeline of 100,000 commands is slowed, not cut") {
  ShimFixture shim;
  TestClient c = shim.client();
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += resp::request({"INCR", "c"});
  std::thread writer([&] { c.send_raw(bytes); });
  int64_t wrong = 0;
  for (int64_t i = 1; i <= 100'000; ++i) wrong += c.read().integer == i ? 0 : 1;
  writer.join();
  CHECK(wrong == 0);
}

TEST_CASE("P08: local errors in a pipeline do not shift later replies") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.send({"MGET"});
  c.send({"PING"});
  c.send({"nosuch", "a"});
  c.send({"SET", "k", "v"});
  c.send({"SET"});
  c.send({"GET", "k"});
  CHECK(reply_text(c.read()) == "-ERR wrong number of arguments for 'mget' command");
  CHECK(reply_text(c.read()) == "+PONG");
  CHECK(reply_text(c.read()).starts_with("-ERR unknown command"));
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()).starts_with("-ERR wrong number of arguments"));
  CHECK(reply_text(c.read()) == "\"v\"");
}

TEST_CASE("P10: a password is asked for, also by inline AUTH") {
  DataPlaneOptions options = ShimFixture::test_options();
  options.password = "x y";
  ShimFixture shim(options);
  TestClient c = shim.client();
  CHECK(reply_text(c.call({"GET", "a"})) == "-NOAUTH Authentication required.");
  CHECK(reply_text(c.call({"nosuch", "a"})) == "-NOAUTH Authentication required.");
  CHECK(reply_text(c.call({"AUTH", "wrong"})).starts_with("-WRONGPASS"));
  c.send_raw("AUTH \"x y\"\r\n");
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.call({"GET", "a"})) == "nil");
  CHECK(shim.old_server.count("GET") == 1);
}

TEST_CASE("T23: each of 16 databases has its own connection to the server") {
  ShimFixture shim;
  TestClient c = shim.client();
  for (int db = 0; db < 16; ++db) {
    CHECK(reply_text(c.call({"SELECT", std::to_string(db)})) == "+OK");
    CHECK(reply_text(c.call({"SET", "a", std::to_string(db)})) == "+OK");
  }
  CHECK(reply_text(c.call({"SELECT", "16"})) == "-ERR DB index is out of range");
  for (int db = 0; db < 16; ++db) CHECK(shim.old_server.value(db, "a") == std::to_string(db));
}

TEST_CASE("I5: replies keep the order of requests over two servers of different speed") {
  ShimFixture shim;
  shim.publish(SlotSet::of(5), SlotPhase::kNew);
  const std::string on_old = key_in(4);
  const std::string on_new = key_in(5);
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
  TestClient c = shim.client();
  c.send({"INCR", on_old});
  c.send({"SET", on_new, "x"});
  c.send({"PING"});
  c.send({"GET", on_new});
  REQUIRE(shim.new_server.wait_for("GET", 1));
  CHECK_FALSE(c.has_reply_within(30));
  shim.old_server.release();
  CHECK(reply_text(c.read()) == ":1");
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "+PONG");
  CHECK(reply_text(c.read()) == "\"x\"");
}

TEST_CASE("a large reply is passed on whole, also when it waits for its turn") {
  ShimFixture shim;
  shim.publish(SlotSet::of(5), SlotPhase::kNew);
  const std::string on_old = key_in(4);
  const std::string on_new = key_in(5);
  const std::string big(3'000'000, 'b');
  shim.old_server.set_value(0, on_old, big);
  shim.new_server.set_value(0, on_new, big);
  TestClient c = shim.client();
  for (int round = 0; round < 3; ++round) {
    c.send({"GET", on_old});
    c.send({"GET", on_new});
    c.send({"PING"});
    CHECK(c.read().text == big);
    CHECK(c.read().text == big);
    CHECK(c.read().text == "PONG");
  }
}

TEST_CASE("X02 I4: a server that breaks in the middle of a reply shifts nothing") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    if (request[0] != "HGETALL") return FakeAction{};
    return FakeAction{FakeAction::Kind::kBreak, "*4\r\n$1\r\na\r\n$5\r\nhal"};
  });
  TestClient c = shim.client();
  TestClient other = shim.client();
  // At once: what comes after the break would go to the next connection, and be answered.
  c.send_raw(resp::request({"SET", "k", "v"}) + resp::request({"HGETALL", "h"}) +
             resp::request({"GET", "k"}) + resp::request({"GET", "k"}));
  CHECK(reply_text(c.read()) == "+OK");
  for (int i = 0; i < 3; ++i) {
    const Reply reply = c.read();
    CHECK(reply.is_error());
    CHECK(reply.text.find("may or may not have been executed") != std::string::npos);
  }
  CHECK(shim.old_server.count("HGETALL") == 1);
  CHECK(reply_text(c.call({"GET", "k"})) == "\"v\"");
  CHECK(reply_text(other.call({"GET", "k"})) == "\"v\"");
}

TEST_CASE("X02: if part of the reply is with the client already, its connection is closed") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    if (request[0] != "HGETALL") return FakeAction{};
    return FakeAction{FakeAction::Kind::kBreak,
                      "*2\r\n$1\r\na\r\n$1000000\r\n" + std::string(500'000, 'x')};
  });
  TestClient c = shim.client();
  c.send({"HGETALL", "h"});
  c.send({"GET", "k"});
  CHECK_FALSE(c.try_read().has_value());
}

TEST_CASE(
    "T12 I4: a command without an answer ends in an error at the timeout and is not sent again") {
  DataPlaneOptions options = ShimFixture::test_options();
  options.backend_timeout_ms = 200;
  ShimFixture shim(options);
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
  TestClient c = shim.client();
  c.send({"INCR", "k"});
  c.send({"SET", "k", "v"});
  CHECK(reply_text(c.read()).find("no answer within 200 ms") != std::string::npos);
  CHECK(c.read().is_error());
  shim.old_server.set_rule({});
  CHECK(reply_text(c.call({"SET", "k", "w"})) == "+OK");
  CHECK(shim.old_server.count("INCR") == 1);
}

TEST_CASE(
    "a server that is not there: an error at once that names it, and recovery without delay") {
  ShimFixture shim;
  auto gone = std::make_unique<FakeServer>();
  const int port = gone->port();
  gone.reset();
  shim.table.old_side = {{"127.0.0.1", port}, ""};
  shim.publish();
  TestClient c = shim.client();
  const std::string text = reply_text(c.call({"GET", "k"}));
  CHECK(text.starts_with(cat("-ERR server 127.0.0.1:", port, " is not reachable")));
  CHECK(c.call({"GET", "k"}).is_error());
  FakeServer back("", port);
  CHECK(eventually([&] { return reply_text(c.call({"SET", "k", "v"})) == "+OK"; }));
}

TEST_CASE("a server that refuses the password or the database serves nobody on that connection") {
  ShimFixture shim;
  FakeServer guarded("secret");
  shim.table.old_side = {{"127.0.0.1", guarded.port()}, "wrong"};
  shim.publish();
  CHECK(shim.ask({"GET", "k"}).find("refused the login") != std::string::npos);
  shim.table.old_side.password = "secret";
  shim.publish();
  CHECK(shim.ask({"GET", "k"}) == "nil");
  guarded.set_rule([](const Words& request) {
    if (request[0] != "SELECT") return FakeAction{};
    return FakeAction{FakeAction::Kind::kReply, "-ERR invalid DB index\r\n"};
  });
  TestClient c = shim.client();
  c.call({"SELECT", "3"});
  CHECK(reply_text(c.call({"GET", "k"})).find("refused the login") != std::string::npos);
  CHECK(guarded.count("GET") == 1);
}

TEST_CASE("I1 I6: a new connection that finds another process than the one judged is not used") {
  std::atomic<int> told{0};
  FakeServer server;
  std::atomic<char> life{'a'};
  server.set_rule([&life](const Words& request) {
    if (request[0] != "INFO") return FakeAction{};
    const std::string text =
        cat("# Server\r\nredis_version:7\r\nrun_id:", std::string(40, life), "\r\n");
    return FakeAction{FakeAction::Kind::kReply, cat("$", text.size(), "\r\n", text, "\r\n")};
  });
  ShimFixture other([&told](DataPlane& plane) { plane.on_stranger([&told] { ++told; }); });
  other.table.old_side = {{"127.0.0.1", server.port()}, "", std::string(40, 'a')};
  other.publish();
  TestClient c = other.client();
  CHECK(reply_text(c.call({"SET", "k", "1"})) == "+OK");
  life = 'b';  // it is another one from here on, and its connections are gone
  server.close_connections();
  CHECK(eventually([&] {
    return reply_text(c.call({"GET", "k"})).find("another process") != std::string::npos;
  }));
  CHECK(told > 0);
  CHECK(c.call({"SET", "k", "2"}).is_error());
  CHECK(server.value(0, "k") == "1");
  other.table.old_side.run_id = std::string(40, 'b');  // judged: it is the one
  other.publish();
  CHECK(reply_text(c.call({"SET", "k", "3"})) == "+OK");
  CHECK(server.value(0, "k") == "3");
}

TEST_CASE("a connection's name is asked for where one is wanted, and not insisted on") {
  for (const bool knows_names : {true, false}) {
    CAPTURE(knows_names);
    ShimFixture shim;
    TestClient c = shim.client();
    CHECK(reply_text(c.call({"SET", "k", "1"})) == "+OK");
    CHECK(shim.old_server.count("CLIENT") == 0);  // none by default
    shim.old_server.set_rule([knows_names](const Words& request) {
      if (request[0] != "CLIENT") return FakeAction{};
      return FakeAction{FakeAction::Kind::kReply,
                        knows_names ? "+OK\r\n" : "-ERR unknown command 'CLIENT'\r\n"};
    });
    shim.table.old_side.name = "slotferry-shim-data";
    shim.publish();
    shim.old_server.close_connections();
    CHECK(eventually([&] { return reply_text(c.call({"SET", "k", "2"})) == "+OK"; }));
    CHECK(shim.old_server.count("CLIENT") >= 1);
    CHECK(reply_text(c.call({"GET", "k"})) == "\"2\"");
  }
}

TEST_CASE("I1: a new connection that finds the owner demoted is not used (DESIGN 6.3)") {
  std::atomic<int> told{0};
  std::atomic<bool> is_replica{false};
  FakeServer server;
  server.set_rule([&is_replica](const Words& request) {
    if (request[0] != "INFO") return FakeAction{};
    std::string text = cat("# Server\r\nrun_id:", std::string(40, 'a'), "\r\n");
    if (request[1] == "replication") {
      text = is_replica ? "role:slave\r\nmaster_host:10.0.0.7\r\nmaster_port:6379\r\n"
                        : "role:master\r\n";
    }
    return FakeAction{FakeAction::Kind::kReply, cat("$", text.size(), "\r\n", text, "\r\n")};
  });
  ShimFixture shim([&told](DataPlane& plane) { plane.on_stranger([&told] { ++told; }); });
  shim.table.old_side = {{"127.0.0.1", server.port()}, "", std::string(40, 'a'), true};
  shim.publish();
  TestClient c = shim.client();
  CHECK(reply_text(c.call({"SET", "k", "1"})) == "+OK");
  CHECK(told == 0);
  is_replica = true;
  server.close_connections();
  CHECK(eventually([&] {
    return reply_text(c.call({"SET", "k", "2"})).find("it is a replica now, of 10.0.0.7:6379") !=
           std::string::npos;
  }));
  CHECK(told > 0);
  CHECK(server.value(0, "k") == "1");
  is_replica = false;
  CHECK(eventually([&] { return reply_text(c.call({"SET", "k", "3"})) == "+OK"; }));
}

TEST_CASE("T7: a reply that nobody asked for ends that connection, not the order") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    if (request[0] != "APPEND") return FakeAction{};
    return FakeAction{FakeAction::Kind::kReply, ":1\r\n:2\r\n"};
  });
  TestClient c = shim.client();
  CHECK(reply_text(c.call({"APPEND", "k", "x"})) == ":1");
  CHECK(eventually([&] { return shim.old_server.connections() < 4; }));
  for (int i = 0; i < 5; ++i) CHECK(reply_text(c.call({"SET", "k", "v"})) == "+OK");
  CHECK(reply_text(c.call({"GET", "k"})) == "\"v\"");
}

namespace {

// `command` waits until release(), and so does what comes behind it on its connection.
void let_wait(FakeServer& server, const std::string& command) {
  server.set_rule([command](const Words& request) {
    return FakeAction{request[0] == command ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
}

}  // namespace

TEST_CASE("I1: a new address: reads under way are answered by the server that was asked") {
  ShimFixture shim;
  FakeServer successor;
  shim.old_server.set_value(0, "k", "before");
  let_wait(shim.old_server, "GET");
  TestClient c = shim.client();
  c.send({"GET", "k"});
  REQUIRE(shim.old_server.wait_for("GET", 1));
  shim.table.old_side.address.port = successor.port();
  shim.publish();
  c.send({"SET", "k", "v"});
  REQUIRE(successor.wait_for("SET", 1));
  shim.old_server.release();
  CHECK(reply_text(c.read()) == "\"before\"");
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(eventually([&] { return shim.old_server.connections() == 0; }));
}

TEST_CASE("I1: a new address: a server that owns nothing any more acknowledges no write") {
  ShimFixture shim;
  FakeServer successor;
  let_wait(shim.old_server, "INCR");
  TestClient c = shim.client();
  c.send({"GET", "k"});
  c.send({"INCR", "k"});
  CHECK(reply_text(c.read()) == "nil");
  REQUIRE(shim.old_server.wait_for("INCR", 1));
  shim.table.old_side.address.port = successor.port();
  shim.publish();
  // Told while the former master still stands still: nobody can know what it will do.
  const std::string answer = reply_text(c.read());
  CHECK(answer.starts_with("-ERR server 127.0.0.1:"));
  CHECK(answer.find("another server has taken its place; the command may or may not have been "
                    "executed") != std::string::npos);
  shim.old_server.release();
  CHECK(reply_text(c.call({"GET", "k"})) == "nil");
  CHECK(eventually([&] { return shim.old_server.connections() == 0; }));
  const auto drained = shim.plane->drain(SlotSet::range(0, 1023), InFlight::kWrites, 1000);
  REQUIRE(drained.is_ok());
  CHECK(drained->unanswered == 1);
}

TEST_CASE("I1: a new address: what waits for a connection to the former one is not sent there") {
  ShimFixture shim;
  FakeServer silent("password");
  FakeServer successor;
  let_wait(silent, "INFO");
  // The server is asked who it is before anything else, and does not say it.
  shim.table.old_side = {{"127.0.0.1", silent.port()}, "password", std::string(40, 'a')};
  shim.publish();
  REQUIRE(silent.wait_for("INFO", 1));
  TestClient c = shim.client();
  c.send({"SET", "k", "v"});
  CHECK(eventually([&] { return shim.plane->stats().inflight == 1; }));
  shim.table.old_side = {{"127.0.0.1", successor.port()}, ""};
  shim.publish();
  CHECK(reply_text(c.read()).find("is not reachable: another server has taken its place") !=
        std::string::npos);
  silent.release();
  CHECK(eventually([&] { return silent.connections() == 0; }));
  CHECK(silent.count("SET") == 0);
}

TEST_CASE("I5: a new password or an identity known late lets no request overtake another") {
  for (const bool is_password : {true, false}) {
    CAPTURE(is_password);
    ShimFixture shim;
    let_wait(shim.old_server, "INCR");
    TestClient c = shim.client();
    c.send({"INCR", "n"});
    c.send({"SET", "k", "1"});
    REQUIRE(shim.old_server.wait_for("INCR", 1));
    if (is_password) {
      shim.table.old_side.password = "other";
    } else {
      shim.table.old_side.run_id = std::string(40, 'a');
    }
    shim.publish();
    c.send({"SET", "k", "2"});
    CHECK(eventually([&] { return shim.plane->stats().inflight == 3; }));
    CHECK(shim.old_server.count("SET") == 0);
    shim.old_server.set_rule({});
    shim.old_server.release();
    CHECK(reply_text(c.read()) == ":1");
    CHECK(reply_text(c.read()) == "+OK");
    CHECK(reply_text(c.read()) == "+OK");
    CHECK(shim.old_server.value(0, "k") == "2");
  }
}

TEST_CASE("slots outside the plan, in doubt, or of a group without a master are refused") {
  ShimFixture shim;
  shim.set(SlotSet::of(1), SlotPhase::kOutside);
  shim.set(SlotSet::of(2), SlotPhase::kDoubt);
  shim.set(SlotSet::of(3), SlotPhase::kStay);
  shim.table.old_writes_stopped = true;
  shim.publish();
  CHECK(shim.ask({"GET", key_in(1)}).starts_with("-ERR slot 1 is not behind this slotferry-shim"));
  CHECK(shim.ask({"GET", key_in(2)}).starts_with("-TRYAGAIN the owner of slot 2 is in doubt"));
  CHECK(shim.ask({"SET", key_in(3), "v"}).starts_with("-TRYAGAIN writes to slot 3 are stopped"));
  CHECK(shim.ask({"GET", key_in(3)}) == "nil");
  CHECK(shim.old_server.count("SET") == 0);
}

TEST_CASE("blocking commands and keyless ones are refused before sending") {
  ShimFixture shim;
  CHECK(shim.ask({"BLPOP", "k", "0"}).starts_with("-ERR 'blpop' is refused"));
  CHECK(shim.ask({"XREAD", "BLOCK", "0", "STREAMS", "k", "$"}).find("block") != std::string::npos);
  CHECK(shim.ask({"KEYS", "*"}).starts_with("-ERR 'keys' is refused"));
  CHECK(shim.ask({"SUBSCRIBE", "c"}).starts_with("-ERR 'subscribe' is refused"));
  CHECK(shim.ask({"EVAL", "return 1", "0"}).starts_with("-ERR 'eval' names no key"));
  CHECK(shim.old_server.requests().empty());
}

TEST_CASE("T11: two connections of one proxy have no order between them, each has its own") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
  TestClient quick = shim.client();
  TestClient other = shim.client();
  other.send({"INCR", "k"});
  REQUIRE(shim.old_server.wait_for("INCR", 1));
  quick.send({"SET", "j", "v"});
  quick.send({"GET", "j"});
  shim.old_server.release();
  CHECK(reply_text(quick.read()) == "+OK");
  CHECK(reply_text(quick.read()) == "\"v\"");
  CHECK(reply_text(other.read()) == ":1");
}

TEST_CASE("X18: one server that does not answer leaves the other's slots and local answers quick") {
  ShimFixture shim;
  shim.publish(SlotSet::of(5), SlotPhase::kNew);
  shim.old_server.set_rule([](const Words&) { return FakeAction{FakeAction::Kind::kWait, ""}; });
  TestClient stuck = shim.client();
  stuck.send({"GET", key_in(4)});
  REQUIRE(shim.old_server.wait_for("GET", 1));
  CHECK(shim.ask({"SET", key_in(5), "v"}) == "+OK");
  CHECK(shim.ask({"PING"}) == "+PONG");
  CHECK(shim.ask({"INFO", "server"}).size() > 100);
  shim.publish(SlotSet::of(6), SlotPhase::kHold);
  shim.old_server.release();
  CHECK(reply_text(stuck.read()) == "nil");
}

TEST_CASE("QUIT answers, after what came before it, and closes") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.send({"SET", "k", "v"});
  c.send({"QUIT"});
  c.send({"GET", "k"});
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(c.is_closed());
}

TEST_CASE("start says which address it cannot have; threads are checked") {
  ShimFixture shim;
  DataPlaneOptions options = ShimFixture::test_options();
  options.port = shim.plane->port();
  auto second = make_data_plane(options, Log());
  const Status status = second->start(std::make_shared<RouteTable>(shim.table));
  CHECK_FALSE(status.is_ok());
  CHECK(status.text().find(std::to_string(options.port)) != std::string::npos);
  options.threads = 0;
  CHECK(make_data_plane(options, Log())->start(std::make_shared<RouteTable>()).code() ==
        Code::kInvalid);
}

TEST_CASE("clients-max is kept, and a place is free again when a client leaves") {
  DataPlaneOptions options = ShimFixture::test_options();
  options.clients_max = 2;
  ShimFixture shim(options);
  auto a = std::make_unique<TestClient>(shim.plane->port());
  TestClient b = shim.client();
  a->call({"PING"});
  b.call({"PING"});
  TestClient third = shim.client();
  CHECK(third.is_closed());
  CHECK(shim.plane->stats().refused_clients == 1);
  const std::string info = reply_text(b.call({"INFO", "stats"}));
  CHECK(info.find("rejected_connections:1\r\n") != std::string::npos);
  CHECK(info.find("slotferry_refused_requests:0\r\n") != std::string::npos);
  a.reset();
  CHECK(eventually([&] { return shim.plane->stats().clients == 1; }));
  CHECK(shim.ask({"PING"}) == "+PONG");
}

TEST_CASE("shut_down answers what is in flight and then closes") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  });
  TestClient c = shim.client();
  c.send({"INCR", "k"});
  REQUIRE(shim.old_server.wait_for("INCR", 1));
  std::thread stopper([&] { shim.plane->shut_down(5'000); });
  CHECK_FALSE(c.has_reply_within(30));
  shim.old_server.release();
  CHECK(reply_text(c.read()) == ":1");
  CHECK(c.is_closed());
  stopper.join();
}

TEST_CASE("statistics and latency are counted over workers") {
  ShimFixture shim;
  for (int i = 0; i < 10; ++i) shim.ask({"SET", cat("k", i), "v"});
  CHECK(shim.plane->stats().requests == 10);
  CHECK(shim.plane->stats().bytes_in > 200);
  CHECK(shim.plane->stats().inflight == 0);
  CHECK(shim.plane->latency_us().count() == 10);
}
