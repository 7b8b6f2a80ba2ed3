// The stand-in proxy against contracts/codis 1 and 3; tNN are the recorded transcripts.
#include <fstream>
#include <future>

#include "common/slots/slot_hash.h"
#include "tests/unit/support/codis_rig.h"

using namespace sf;
using namespace sf::codis;
using Lines = std::vector<std::string>;

namespace {

constexpr int kFooSlot = 289;  // of "foo"

// Connections of `server` that finished their SELECT (database 0 needs none).
bool all_selected(const FakeServer& server, size_t databases) {
  return server.lines("SELECT").size() >= databases - 1 &&
         server.connections() >= static_cast<int>(databases);
}

}  // namespace

TEST_CASE("proxy t01: one connection per database, AUTH, then SELECT; nothing else") {
  FakeServer a;
  ProxyOptions options;
  options.product_auth = "pw123";
  ProxyRig rig(options);
  rig.fill_all(a.address());
  REQUIRE(a.wait([](const FakeServer& s) { return all_selected(s, 16); }));
  CHECK(a.connections() == 16);
  CHECK(a.lines("AUTH") == Lines(16, "AUTH pw123"));
  std::map<int, Lines> by_connection;
  for (const auto& one : a.asked()) {
    by_connection[one.connection].push_back(one.argv[0]);
  }
  int with_select = 0;
  for (const auto& [id, names] : by_connection) {
    CHECK(names[0] == "AUTH");
    CHECK(names.size() <= 2);
    with_select += names.size() == 2 && names[1] == "SELECT" ? 1 : 0;
  }
  CHECK(with_select == 15);
}

TEST_CASE("proxy t02: a refused SELECT breaks that database alone") {
  FakeServer a;
  a.rule({.command = "SELECT", .arg1 = "1", .reply = "-ERR invalid DB index\r\n"});
  ProxyOptions options;
  options.databases = 2;
  ProxyRig rig(options);
  rig.fill_all(a.address());
  TestClient client(rig.proxy.address());
  CHECK(client.ask("SET foo 1") == "+OK");
  CHECK(client.ask("SELECT 1") == "+OK");
  CHECK(client.ask("GET foo") == "-ERR handle response, backend conn reset");
  CHECK(client.ask("SELECT 2") == "-ERR invalid DB index, out of range");
  CHECK(client.ask("SELECT 0") == "+OK");
  CHECK(client.ask("GET foo") == "1");
  // Ten redials at once, then with pauses.
  CHECK(a.wait([](const FakeServer& s) { return s.lines("SELECT").size() >= 11; }));
  CHECK(a.lines("SELECT").size() <= 20);
}

TEST_CASE("proxy t24: an address held by one slot is dialled anew at every fillslots") {
  FakeServer a;
  ProxyOptions options;
  options.databases = 1;
  ProxyRig rig(options);
  for (int i = 1; i <= 3; ++i) {
    CHECK(rig.fill({plain_fill(5, a.address(), 1)}).status == 200);
    CHECK(a.wait([i](const FakeServer& s) { return s.connections() == i; }));
  }
  CHECK(rig.fill({plain_fill(5, a.address(), 1), plain_fill(6, a.address(), 1)}).status == 200);
  CHECK(a.wait([](const FakeServer& s) { return s.connections() == 4; }));
  CHECK(rig.fill({plain_fill(5, a.address(), 1)}).status == 200);
  TestClient client(rig.proxy.address());
  CHECK(client.ask("SLOTSMAPPING 5") == cat("[+5 +", a.address(), " + nil]"));
  CHECK(a.connections() == 4);
}

TEST_CASE("proxy 1.3: keep-alive PINGs on every connection, INFO while stale") {
  FakeServer a;
  ProxyOptions options;
  options.databases = 2;
  options.ping_period_us = 300'000;
  ProxyRig rig(options);
  rig.fill_all(a.address());
  REQUIRE(a.wait([](const FakeServer& s) { return s.lines("PING").size() >= 4; }));
  a.rule({.command = "GET", .reply = "-LOADING Redis is loading\r\n", .times = 1});
  TestClient client(rig.proxy.address());
  CHECK(client.ask("GET foo") == "-LOADING Redis is loading");
  CHECK(client.ask(cat("PING ", a.address())) ==
        cat("-ERR backend server '", a.address(), "' not found"));
  CHECK(client.ask("SET foo 2") == "+OK");  // a stale primary is still used
  REQUIRE(a.wait([](const FakeServer& s) { return !s.lines("INFO").empty(); }));
  CHECK(eventually([&] { return client.ask(cat("PING ", a.address())) == "+PONG"; }));
}

TEST_CASE("proxy 3.2: split commands, joined in order; bad sub-replies hide the server's error") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  CHECK(rig.fill({plain_fill(kFooSlot, b.address(), 2)}).status == 200);
  TestClient client(rig.proxy.address());
  CHECK(client.ask("MSET foo 1 a 2 user:1000 3") == "+OK");
  CHECK(b.get("foo") == "1");
  CHECK(a.get("a") == "2");
  CHECK(client.ask("MGET a foo none user:1000") == "[2 1 nil 3]");
  CHECK(client.ask("EXISTS a foo none") == ":2");
  CHECK(client.ask("DEL a foo none") == ":2");
  CHECK(client.ask("MSET a") == "-ERR wrong number of arguments for 'MSET' command");
  CHECK(client.ask("DEL") == "-ERR wrong number of arguments for 'DEL' command");
  b.rule({.command = "MGET", .reply = "-ERR no\r\n"});
  CHECK(client.ask("MGET a foo") == "-ERR handle response, bad mget resp: <error> array.len = 0");
  CHECK(client.ask("MGET foo") == "-ERR no");
  CHECK(b.lines("MSET") == Lines{"MSET foo 1"});
}

TEST_CASE("proxy 1.4: requests go out as the client spelled them, inline ones as arrays") {
  FakeServer a;
  ProxyRig rig;
  rig.fill_all(a.address());
  TestClient client(rig.proxy.address());
  CHECK(client.ask("sEt foo 1") == "+OK");
  CHECK(client.ask("NOSUCH foo x") == "-ERR unknown command 'NOSUCH'");
  CHECK(a.lines() == Lines{"sEt foo 1", "NOSUCH foo x"});
  CHECK(client.ask("QUIT") == "+OK");
  CHECK(client.ask("GET foo") == "closed");
  TestClient other(rig.proxy.address());
  CHECK(other.ask("AUTH x") == "-ERR Client sent AUTH, but no password is set");
  CHECK(other.ask("SLOTSINFO") == "-ERR wrong number of arguments for 'SLOTSINFO' command");
  CHECK(other.ask(cat("SLOTSINFO ", a.address())) == "[]");
  CHECK(other.ask("PING") == "+PONG");
  CHECK(other.ask("SLOTSSCAN 5 0") == "-ERR unknown command 'SLOTSSCAN'");
}

TEST_CASE("proxy 3.3: refused, forwarded or answered, as recorded for every command") {
  FakeServer a;
  ProxyRig rig;
  rig.fill_all(a.address());
  TestClient client(rig.proxy.address());
  std::ifstream in(std::string(SF_SOURCE_DIR) + "/tests/golden/codis/proxy-commands.tsv");
  REQUIRE(in.good());
  int rows = 0;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    const auto fields = split(line, '\t');
    const std::string name(fields[0]);
    CAPTURE(name);
    ++rows;
    if (name == "QUIT") continue;
    const bool refused = client.ask(name + " k a b") ==
                         cat("-ERR handle request, command '", name, "' is not allowed");
    CHECK(refused == (fields[1] == "refused"));
  }
  CHECK(rows > 190);
}

TEST_CASE("proxy 3.1: the hash vectors recorded from the real proxy") {
  std::ifstream in(std::string(SF_SOURCE_DIR) + "/tests/golden/codis/hash-vectors.json");
  REQUIRE(in.good());
  const Json vectors = Json::parse(in);
  CHECK(vectors.size() > 20);
  for (const Json& one : vectors) {
    const std::string hex = one["key_hex"];
    std::string key;
    for (size_t i = 0; i < hex.size(); i += 2) {
      key.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    }
    CAPTURE(hex);
    CHECK(slot_of(key) == one["slot"].get<int>());
  }
}

TEST_CASE("proxy t20: what each failure of a backend costs") {
  FakeServer a;
  ProxyOptions options;
  options.databases = 1;
  options.recv_timeout_us = 400'000;
  ProxyRig rig(options);
  rig.fill_all(a.address());
  TestClient client(rig.proxy.address());
  REQUIRE(client.ask("SET foo v") == "+OK");

  SUBCASE("an error passes through") {
    a.rule({.command = "GET", .reply = "-ERR custom\r\n", .times = 1});
    CHECK(client.ask("GET foo") == "-ERR custom");
    CHECK(client.ask("GET foo") == "v");
  }
  SUBCASE("an idle connection closed: two failed requests, then well") {
    a.close_connections();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // nobody is told of the close
    CHECK(client.ask("GET foo") == "-ERR handle response, backend conn failure, EOF");
    const std::string second = client.ask("GET foo");
    CHECK(second.starts_with("-ERR handle response, backend conn failure, set tcp 127.0.0.1:"));
    CHECK(second.ends_with(": use of closed network connection"));
    CHECK(client.ask("GET foo") == "v");
  }
  SUBCASE(
      "closed with requests in flight: one EOF, resets behind it, one more when the writer knows") {
    a.rule({.command = "GET", .arg1 = "bar", .close = true, .times = 1});
    CHECK(client.ask_all({"GET foo", "GET bar", "GET foo", "GET foo"}) ==
          "v | -ERR handle response, backend conn failure, EOF | "
          "-ERR handle response, backend conn reset | -ERR handle response, backend conn reset");
    CHECK(client.ask("GET foo").find("use of closed network connection") != std::string::npos);
    CHECK(client.ask("GET foo") == "v");
  }
  SUBCASE("refused connections: resets at once; recovery by itself") {
    a.stop_listening();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    (void)client.ask("GET foo");
    (void)client.ask("GET foo");
    CHECK(client.ask("GET foo") == "-ERR handle response, backend conn reset");
    a.listen_again();
    CHECK(eventually([&] { return client.ask("GET foo") == "v"; }));
  }
  SUBCASE("no reply: a timeout of silence, resets behind it") {
    a.rule({.command = "GET", .drop = true, .times = 1});
    const std::string got = client.ask_all({"GET foo", "STRLEN foo"});
    // The STRLEN's reply came first and was taken for the GET's: nobody notices (trap 7).
    CHECK(got.starts_with(":1 | -ERR handle response, backend conn failure, read tcp 127.0.0.1:"));
    CHECK(got.ends_with(": i/o timeout"));
  }
  SUBCASE("a hung server") {
    a.rule({.command = "GET", .delay_ms = 3000, .times = 1});
    const std::string got = client.ask_all({"GET foo", "STRLEN foo"});
    CHECK(got.find("-ERR handle response, backend conn failure, read tcp 127.0.0.1:") == 0);
    CHECK(got.find(": i/o timeout | -ERR handle response, backend conn reset") !=
          std::string::npos);
  }
  SUBCASE("a reply that is not RESP2") {
    a.rule({.command = "GET", .reply = "_\r\n", .times = 1});
    CHECK(client.ask("GET foo").starts_with(
        "-ERR handle response, backend conn failure, bad resp type"));
  }
  SUBCASE("one reply too many shifts those behind it") {
    a.rule({.command = "GET", .reply = "$5\r\nfirst\r\n$6\r\nsecond\r\n", .times = 1});
    CHECK(client.ask_all({"GET foo", "STRLEN foo"}) == "first | second");
  }
}

TEST_CASE("proxy t12: the wrapper's truth table, semi-async") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  b.set("foo", "onB");
  CHECK(rig.fill({moving_fill(kFooSlot, a.address(), b.address(), 1)}).status == 200);
  TestClient client(rig.proxy.address());
  const std::string bad = "-ERR handle request, bad slotsmgrt-exec-wrapper resp: ";
  struct Case {
    std::string reply;
    std::string want;
    bool to_target;
  };
  const Case cases[] = {
      {"*2\r\n:0\r\n:0\r\n", "onB", true},
      {"*2\r\n:0\r\n-ERR the specified key doesn't exist\r\n", "onB", true},
      {"*2\r\n:2\r\n$1\r\nx\r\n", "x", false},
      {"*2\r\n:2\r\n-ERR inner\r\n", "-ERR inner", false},
      {"*2\r\n:2\r\n*2\r\n:1\r\n$-1\r\n", "[:1 nil]", false},
      {"*2\r\n:-1\r\n:-1\r\n", bad + "type(array[0]) = <int>, len(array[0].value) = 2", false},
      {"*2\r\n:-1\r\n-ERR x\r\n", bad + "type(array[0]) = <int>, len(array[0].value) = 2", false},
      {"*2\r\n:3\r\n$1\r\nx\r\n", bad + "[3] x", false},
      {"*2\r\n$1\r\n0\r\n$1\r\n0\r\n",
       bad + "type(array[0]) = <bulkbytes>, len(array[0].value) = 1", false},
      {"*1\r\n:0\r\n", bad + "array.len = 1", false},
      {"*0\r\n", bad + "array.len = 0", false},
      {"*-1\r\n", bad + "array.len = 0", false},
      {"+OK\r\n", bad + "should be integer, but got <string>", false},
      {":0\r\n", bad + "should be integer, but got <int>", false},
      {"$1\r\n0\r\n", bad + "should be integer, but got <bulkbytes>", false},
      {"-ERR unknown command 'X'\r\n", bad + "ERR unknown command 'X'", false},
      {"-LOADING Redis is loading\r\n", bad + "LOADING Redis is loading", false},
  };
  for (const Case& one : cases) {
    CAPTURE(printable(one.reply));
    a.clear_rules();
    a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = one.reply});
    a.forget();
    b.forget();
    CHECK(client.ask("GET foo") == one.want);
    CHECK(a.lines() == Lines{"SLOTSMGRT-EXEC-WRAPPER foo GET foo"});
    CHECK(b.lines() == (one.to_target ? Lines{"GET foo"} : Lines{}));
  }
  SUBCASE("multi-key commands are split first; keyless ones and SLOTSSCAN are not wrapped") {
    a.clear_rules();
    a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = "*2\r\n:0\r\n:0\r\n"});
    a.forget();
    b.forget();
    CHECK(client.ask("MGET foo {foo}x a") == "[onB nil nil]");
    CHECK(a.lines() == Lines{"SLOTSMGRT-EXEC-WRAPPER foo MGET foo",
                             "SLOTSMGRT-EXEC-WRAPPER {foo}x MGET {foo}x", "MGET a"});
    (void)client.ask(cat("SLOTSSCAN ", kFooSlot, " 0"));
    CHECK(b.lines("SLOTSSCAN").size() == 1);
  }
  SUBCASE("a connection that closes under the wrapper") {
    a.clear_rules();
    a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .close = true, .times = 1});
    CHECK(client.ask("GET foo") == "-ERR handle request, backend conn failure, EOF");
  }
}

TEST_CASE("proxy t12: [1 x] is asked again, five times at once, then with growing pauses") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  b.set("foo", "onB");
  CHECK(rig.fill({moving_fill(kFooSlot, a.address(), b.address(), 1)}).status == 200);
  a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = "*2\r\n:1\r\n:1\r\n", .times = 9});
  a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = "*2\r\n:0\r\n:0\r\n"});
  TestClient client(rig.proxy.address());
  const auto begin = std::chrono::steady_clock::now();
  CHECK(client.ask("GET foo") == "onB");
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(a.lines("SLOTSMGRT-EXEC-WRAPPER").size() == 10);
  CHECK(took >= std::chrono::milliseconds(5 + 6 + 7 + 8));

  SUBCASE("for ever, also for a client that is gone") {
    a.clear_rules();
    a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = "*2\r\n:1\r\n:1\r\n"});
    {
      TestClient gone(rig.proxy.address(), 100);
      CHECK(gone.ask("GET foo") == "timeout");
    }
    a.forget();
    CHECK(
        a.wait([](const FakeServer& s) { return s.lines("SLOTSMGRT-EXEC-WRAPPER").size() > 20; }));
    // The next fillslots of that slot waits for it (1.6).
    auto filled = std::async(std::launch::async, [&] {
      return rig.fill({plain_fill(kFooSlot, b.address(), 2)}).status;
    });
    CHECK(filled.wait_for(std::chrono::milliseconds(150)) == std::future_status::timeout);
    a.clear_rules();
    a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = "*2\r\n:0\r\n:0\r\n"});
    CHECK(filled.get() == 200);
  }
}

TEST_CASE("proxy t13: the sync method: any integer of SLOTSMGRTTAGONE means go to the target") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  b.set("foo", "onB");
  CHECK(rig.fill({moving_fill(kFooSlot, a.address(), b.address(), 0)}).status == 200);
  TestClient client(rig.proxy.address());
  const std::string bad = "-ERR handle request, bad slotsmgrt resp: ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {":0\r\n", "onB"},
      {":1\r\n", "onB"},
      {":7\r\n", "onB"},
      {":-1\r\n", "onB"},
      {"+OK\r\n", bad + "should be integer, but got <string>"},
      {"$1\r\n1\r\n", bad + "should be integer, but got <bulkbytes>"},
      {"*0\r\n", bad + "should be integer, but got <array>"},
      {"-ERR not set slotmigrate\r\n", bad + "ERR not set slotmigrate"},
  };
  for (const auto& [reply, want] : cases) {
    CAPTURE(printable(reply));
    a.clear_rules();
    a.rule({.command = "SLOTSMGRTTAGONE", .reply = reply});
    a.forget();
    b.forget();
    CHECK(client.ask("GET foo") == want);
    CHECK(a.lines() == Lines{cat("SLOTSMGRTTAGONE 127.0.0.1 ", b.port(), " 3000 foo")});
    CHECK(b.lines().size() == (want == "onB" ? 1 : 0));
  }
}

TEST_CASE("proxy 1.6: a pipelining client is served one by one behind a migrating key") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  CHECK(rig.fill({moving_fill(kFooSlot, a.address(), b.address(), 1)}).status == 200);
  a.rule({.command = "SLOTSMGRT-EXEC-WRAPPER", .reply = "*2\r\n:0\r\n:0\r\n", .delay_ms = 100});
  TestClient client(rig.proxy.address());
  const auto begin = std::chrono::steady_clock::now();
  CHECK(client.ask_all({"SET foo 1", "SET a 2", "GET foo", "GET a"}) == "+OK | +OK | 1 | 2");
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(200));
}

TEST_CASE("proxy t15: fillslots waits for the slot's requests in flight; new ones wait for it") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  a.rule({.command = "GET", .arg1 = "foo", .delay_ms = 500, .times = 1});
  auto slow = std::async(std::launch::async,
                         [&] { return TestClient(rig.proxy.address()).ask("GET foo"); });
  REQUIRE(a.wait([](const FakeServer& s) { return s.lines("GET").size() == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  auto filled = std::async(std::launch::async,
                           [&] { return rig.fill({plain_fill(kFooSlot, b.address(), 2)}).status; });
  // Trap 12: stats and SLOTSMAPPING wait too. The slot's table entry is still the old one.
  CHECK(filled.wait_for(std::chrono::milliseconds(100)) == std::future_status::timeout);
  auto write = std::async(std::launch::async,
                          [&] { return TestClient(rig.proxy.address()).ask("SET foo new"); });
  CHECK(TestClient(rig.proxy.address()).ask("SLOTSMAPPING 289") ==
        cat("[+289 +", b.address(), " + nil]"));
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(350));
  CHECK(filled.get() == 200);
  CHECK(slow.get() == "nil");
  CHECK(write.get() == "+OK");
  CHECK(b.get("foo") == "new");
  CHECK(a.lines("SET").empty());
}

TEST_CASE("proxy t17: a locked slot holds its requests until it is unlocked, others go on") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  CHECK(rig.fill({plain_fill(kFooSlot, a.address(), 1, true)}).status == 200);
  TestClient held(rig.proxy.address());
  auto write = std::async(std::launch::async, [&] {
    return held.ask_all({"SET foo 1", "SET a 2"});
  });
  CHECK(TestClient(rig.proxy.address()).ask("SET user:1000 3") == "+OK");
  CHECK(write.wait_for(std::chrono::milliseconds(150)) == std::future_status::timeout);
  CHECK(a.lines() == Lines{"SET user:1000 3"});
  CHECK(rig.fill({plain_fill(kFooSlot, b.address(), 2)}).status == 200);
  CHECK(write.get() == "+OK | +OK");
  CHECK(b.lines() == Lines{"SET foo 1"});
}

TEST_CASE("proxy 4.3: fillslots applies in order, the first bad one ends it") {
  FakeServer a;
  ProxyRig rig;
  const auto bad = rig.fill(
      {plain_fill(5, a.address(), 1), plain_fill(1024, "", 0), plain_fill(6, a.address(), 1)});
  CHECK(bad.status == 800);
  CHECK(bad.body["Cause"] == "use of invalid slot id");
  TestClient client(rig.proxy.address());
  CHECK(client.ask("SLOTSMAPPING 5") == cat("[+5 +", a.address(), " + nil]"));
  CHECK(client.ask("SLOTSMAPPING 6") == "[+6 + + nil]");
  CHECK(client.ask("GET foo") == "-ERR handle request, slot is not ready, may be offline");
}

TEST_CASE("proxy t34: reads go to replicas when the dashboard says so, writes never") {
  FakeServer a;
  FakeServer r;
  ProxyRig rig;
  SlotFill slot = plain_fill(kFooSlot, a.address(), 1);
  slot.replica_groups = {{r.address()}};
  CHECK(rig.fill({slot}).status == 200);
  TestClient client(rig.proxy.address());
  CHECK(eventually([&] {
    (void)client.ask("GET foo");
    return !r.lines("GET").empty();
  }));
  CHECK(client.ask("SET foo 1") == "+OK");
  (void)client.ask("HSCAN foo 0");
  CHECK(a.lines("SET").size() == 1);
  CHECK(a.lines("HSCAN").size() == 1);
  CHECK(r.lines("SET").empty());
  r.rule({.command = "GET", .reply = "-MASTERDOWN Link with MASTER is down\r\n", .times = 1});
  (void)client.ask("GET foo");
  CHECK(client.ask("GET foo") == "1");  // the primary's
}

TEST_CASE("proxy 3: a deep pipeline comes back complete and in order") {
  FakeServer a;
  FakeServer b;
  ProxyRig rig;
  rig.fill_all(a.address());
  std::vector<SlotFill> half;
  for (int i = 0; i < kSlots; i += 2) half.push_back(plain_fill(i, b.address(), 2));
  CHECK(rig.fill(half).status == 200);
  TestClient client(rig.proxy.address());
  std::vector<std::string> lines;
  std::string want;
  for (int i = 0; i < 12000; ++i) {
    lines.push_back(cat("ECHO", i, " k", i));
    want += cat(i == 0 ? "" : " | ", "-ERR unknown command 'ECHO", i, "'");
  }
  CHECK(client.ask_all(lines) == want);
}
