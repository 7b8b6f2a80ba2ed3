#include <doctest/doctest.h>

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/command_table.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
std::shared_ptr<BackendFacts> some_facts() {
  auto facts = std::make_shared<BackendFacts>();
  facts->used_memory = 123456;
  facts->maxmemory = 1073741824;
  facts->keys_by_db = {{0, 4500}, {3, 7}};
  facts->keys_by_slot = {{801, 4}, {905, 11}, {1023, 2}};
  return facts;
}

std::string field(const std::string& info, const std::string& name) {
  const size_t at = info.find("\r\n" + name + ":");
  if (at == std::string::npos) return "<absent>";
  const size_t from = at + name.size() + 3;
  return info.substr(from, info.find("\r\n", from) - from);
}
}  // namespace

TEST_CASE("T9 T17 T18: INFO is a master's of its own, with memory and keys") {
  ShimFixture shim;
  shim.plane->set_facts(some_facts());
  TestClient c = shim.client();
  const Reply reply = c.call({"INFO"});
  CHECK(reply.type == Reply::Type::kBulk);
  const std::string& info = reply.text;
  CHECK(field(info, "run_id") == std::string(40, 'a'));
  CHECK(field(info, "role") == "master");
  CHECK(field(info, "used_memory") == "123456");
  CHECK(field(info, "db0") == "keys=4500,expires=0,avg_ttl=0");
  CHECK(field(info, "db3") == "keys=7,expires=0,avg_ttl=0");
  CHECK(field(info, "tcp_port") == std::to_string(shim.plane->port()));
  for (const char* absent : {"master_host", "master_port", "master_link_status"}) {
    CHECK(info.find(absent) == std::string::npos);
  }
  CHECK(c.call({"INFO", "nosuch"}).text.empty());
}

TEST_CASE("T2: INFO keyspace lists every database with keys, and nothing else looks like one") {
  ShimFixture shim;
  shim.plane->set_facts(some_facts());
  TestClient c = shim.client();
  CHECK(c.call({"INFO", "keyspace"}).text ==
        "# Keyspace\r\ndb0:keys=4500,expires=0,avg_ttl=0\r\ndb3:keys=7,expires=0,avg_ttl=0\r\n");
}

TEST_CASE("Pika's INFO keyspace 1 and 0 are no syntax errors (contracts/pika replies/02)") {
  ShimFixture shim;
  TestClient c = shim.client();
  const std::string plain = c.call({"INFO", "keyspace"}).text;
  CHECK(c.call({"INFO", "keyspace", "1"}).text == plain);
  CHECK(c.call({"info", "KEYSPACE", "0", "db0"}).text == plain);
  CHECK(reply_text(c.call({"INFO", "keyspace", "x"})) == "-ERR syntax error");
  CHECK(reply_text(c.call({"INFO", "server", "1"})) == "-ERR syntax error");
  CHECK(c.call({"INFO", "server"}).text.find("\r\nserver_id:1\r\n") != std::string::npos);
}

TEST_CASE("T20: the fork's INFO replication has two numbers and is no candidate") {
  ShimFixture shim;
  TestClient c = shim.client();
  const std::string info = c.call({"INFO", "replication"}).text;
  CHECK(field(info, "db0").starts_with("binlog_offset=0 0"));
  CHECK(field(info, "is_eligible_for_master_election") == "false");
  CHECK(field(info, "connected_slaves") == "0");
  CHECK(field(info, "role") == "master");
  // In the full text it would be a key count on codis-fe's page.
  CHECK(c.call({"INFO"}).text.find("binlog_offset") == std::string::npos);
}

TEST_CASE("T17: INFO has Pika's sections, no name comes twice, none but the key counts has db<n>") {
  ShimFixture shim;
  shim.plane->set_facts(some_facts());
  TestClient c = shim.client();
  for (const char* section : {"server", "data", "clients", "stats", "cpu", "replication"}) {
    CAPTURE(std::string(section));
    const std::string text = c.call({"INFO", section}).text;
    CHECK(text.starts_with("# "));
    CHECK(text.find(':') != std::string::npos);
  }
  CHECK(field(c.call({"INFO", "data"}).text, "slotferry_keys") == "4507");
  CHECK(field(c.call({"INFO", "stats"}).text, "is_slots_migrating") == "No, , 0");
  CHECK(field(c.call({"INFO", "cpu"}).text, "used_cpu_sys").find('.') != std::string::npos);
  std::vector<std::string> names;
  const std::string info = c.call({"INFO"}).text;
  for (size_t at = 0; at < info.size();) {
    const size_t end = info.find("\r\n", at);
    REQUIRE(end != std::string::npos);
    const std::string row = info.substr(at, end - at);
    at = end + 2;
    if (row.empty() || row[0] == '#') continue;
    REQUIRE(row.find(':') != std::string::npos);
    names.push_back(row.substr(0, row.find(':')));
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::count_if(names.begin(), names.end(), [](const std::string& name) {
          const size_t at = name.find("db");
          return at != std::string::npos && at + 2 < name.size() && isdigit(name[at + 2]) != 0;
        }) == 2);
}

TEST_CASE("T17 T19: CONFIG as Pika has it, and no setting of the servers behind is changed") {
  ShimFixture shim;
  CHECK(shim.ask({"CONFIG", "GET", "databases"}) == "[\"databases\" \"16\"]");
  CHECK(shim.ask({"CONFIG", "GET", "slaveof"}) == "[\"slaveof\" \"\"]");
  CHECK(shim.ask({"CONFIG", "GET", "slotmigrate"}) == "[\"slotmigrate\" \"no\"]");
  CHECK(shim.ask({"CONFIG", "GET", "run-id"}) == "[\"run-id\" \"" + std::string(40, 'a') + "\"]");
  TestClient c = shim.client();
  CHECK(c.call({"CONFIG", "GET", "*"}).elements.size() % 2 == 0);
  for (const char* name : {"requirepass", "maxmemory", "slotmigrate", "write-binlog"}) {
    CHECK(shim.ask({"CONFIG", "SET", name, "x"}).starts_with("-ERR"));
  }
  CHECK(shim.old_server.requests().empty());
}

TEST_CASE("T17: SLOTSINFO says of a bad range what Pika says") {
  ShimFixture shim;
  CHECK(shim.ask({"SLOTSINFO", "1024"}) == "-ERR invalid slot begin = 1024");
  CHECK(shim.ask({"SLOTSINFO", "0", "-1"}) == "-ERR invalid slot count = -1");
  CHECK(shim.ask({"SLOTSINFO", "0", "1", "2"}).starts_with("-ERR wrong number of arguments"));
}

TEST_CASE("T17: CONFIG GET maxmemory is an array of two, the second digits; SLOTSINFO pairs") {
  ShimFixture shim;
  CHECK(shim.ask({"CONFIG", "GET", "maxmemory"}) == "[\"maxmemory\" \"0\"]");
  CHECK(shim.ask({"SLOTSINFO"}) == "[]");
  shim.plane->set_facts(some_facts());
  CHECK(shim.ask({"config", "get", "maxmemory"}) == "[\"maxmemory\" \"1073741824\"]");
  CHECK(shim.ask({"SLOTSINFO"}) == "[[:801 :4] [:905 :11] [:1023 :2]]");
  CHECK(shim.ask({"SLOTSINFO", "900", "100"}) == "[[:905 :11]]");
  CHECK(shim.ask({"SLOTSINFO", "1024"}).starts_with("-ERR"));
  CHECK(shim.ask({"DBSIZE"}) == ":4500");
  CHECK(shim.ask({"CONFIG", "GET", "nosuch"}) == "[]");
}

TEST_CASE("T17: what would stop or empty a server is refused") {
  ShimFixture shim;
  for (const char* command : {"SHUTDOWN", "FLUSHALL", "FLUSHDB", "BGSAVE", "SAVE", "MONITOR",
                              "SYNC", "RANDOMKEY", "SLOWLOG"}) {
    CAPTURE(std::string(command));
    const std::string text = shim.ask({command});
    CHECK(text.starts_with("-ERR"));
  }
  CHECK(shim.ask({"DEBUG", "SLEEP", "1"}).starts_with("-ERR"));
  CHECK(shim.ask({"KEYS", "*"}).starts_with("-ERR"));
  CHECK(shim.ask({"SCAN", "0"}).starts_with("-ERR"));
  CHECK(shim.ask({"CLIENT", "REPLY", "OFF"}).starts_with("-ERR"));
  CHECK(shim.old_server.requests().empty());
}

TEST_CASE("T8 T19: the dashboard's promote in one write is answered as recorded (t32)") {
  ShimFixture shim;
  TestClient c = shim.client();
  std::string bytes;
  bytes += resp::request({"MULTI"});
  bytes += resp::request({"CONFIG", "SET", "masterauth", ""});
  bytes += resp::request({"SLAVEOF", "NO", "ONE"});
  bytes += resp::request({"CONFIG", "REWRITE"});
  bytes += resp::request({"CLIENT", "KILL", "TYPE", "normal"});
  bytes += resp::request({"EXEC"});
  c.send_raw(bytes);
  CHECK(reply_text(c.read()) == "+OK");
  for (int i = 0; i < 4; ++i) CHECK(reply_text(c.read()) == "+QUEUED");
  CHECK(reply_text(c.read()) == "[+OK +OK +OK +OK]");
  CHECK(shim.ask({"EXEC"}) == "-ERR EXEC without MULTI");
}

TEST_CASE("T8 I8: a sync action towards another master is refused inside EXEC (t31)") {
  ShimFixture shim;
  TestClient c = shim.client();
  c.call({"MULTI"});
  c.call({"CONFIG", "SET", "masterauth", "pw"});
  CHECK(reply_text(c.call({"SLAVEOF", "127.0.0.1", "7101"})) == "+QUEUED");
  const Reply reply = c.call({"EXEC"});
  REQUIRE(reply.elements.size() == 2);
  CHECK(reply.elements[0].is_ok());
  CHECK(reply.elements[1].is_error());
}

TEST_CASE("T19 T20: the fork's promote and return come one by one") {
  ShimFixture shim;
  CHECK(shim.ask({"CONFIG", "set", "masterauth", "pw"}) == "+OK");
  CHECK(shim.ask({"SLAVEOF", "NO", "ONE"}) == "+OK");
  CHECK(shim.ask({"CONFIG", "REWRITE"}) == "+OK");
  CHECK(shim.ask({"SLAVEOF", "127.0.0.1", "7101", "-f"}).starts_with("-ERR"));
  CHECK(shim.ask({"SLAVEOF", "127.0.0.1", "7101"}).starts_with("-ERR slotferry-shim holds"));
}

TEST_CASE("T21: PING, ECHO, HELLO, CLIENT, COMMAND, ROLE, TIME as clients expect") {
  ShimFixture shim;
  CHECK(shim.ask({"PING"}) == "+PONG");
  CHECK(shim.ask({"PING", "x"}) == "\"x\"");
  CHECK(shim.ask({"ECHO", "hi"}) == "\"hi\"");
  CHECK(shim.ask({"HELLO", "2"}).starts_with("[\"server\" \"redis\""));
  CHECK(shim.ask({"HELLO", "3"}) == "-NOPROTO unsupported protocol version");
  CHECK(shim.ask({"ROLE"}) == "[\"master\" :0 []]");
  CHECK(shim.ask({"SLOTSHASHKEY", "a", "foo"}) == "[:579 :289]");
  CHECK(shim.ask({"COMMAND", "COUNT"}).starts_with(":"));
  CHECK(shim.ask({"COMMAND", "INFO", "get"}) == "[[\"get\" :2 [+readonly +fast] :1 :1 :1]]");
  TestClient c = shim.client();
  CHECK(reply_text(c.call({"CLIENT", "GETNAME"})) == "nil");
  CHECK(reply_text(c.call({"CLIENT", "SETNAME", "me"})) == "+OK");
  CHECK(reply_text(c.call({"CLIENT", "GETNAME"})) == "\"me\"");
  CHECK(c.call({"COMMAND"}).elements.size() == catalog_size());
  CHECK(c.call({"TIME"}).elements.size() == 2);
}

TEST_CASE("T22: many connections at once are all taken") {
  ShimFixture shim;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 320; ++i) {
    clients.push_back(std::make_unique<TestClient>(shim.plane->port()));
    clients.back()->send({"PING"});
  }
  for (auto& c : clients) CHECK(reply_text(c->read()) == "+PONG");
  CHECK(shim.plane->stats().clients == 320);
}

TEST_CASE(
    "T10 T24: every command of the catalog has a rule, and only safe ones share a connection") {
  const CommandTable table;
  for (const CommandSpec& spec : all_commands()) {
    CAPTURE(std::string(spec.name));
    const CommandRule& rule = table.rule(spec);
    if (rule.handling == Handling::kForward) {
      CHECK((spec.is(kCmdOneReply) || spec.name.starts_with("XREAD")));
      CHECK_FALSE(spec.is(kCmdConnection));
      CHECK_FALSE(spec.is(kCmdPubSub));
    }
    if (spec.is(kCmdMigration)) CHECK(rule.handling == Handling::kMigration);
    if (spec.is(kCmdWrite)) CHECK(rule.is_write);
    if (rule.handling == Handling::kRefuse) CHECK(std::string_view(rule.why) != "");
  }
  for (const char* name : {"GET", "SET", "INCR", "MGET", "MSET", "DEL", "LPUSH", "HSET", "ZADD",
                           "EVAL", "SUNIONSTORE", "SLOTSSCAN", "OBJECT", "XREAD", "XADD", "SORT"}) {
    CAPTURE(std::string(name));
    CHECK(table.rule(*find_command(name)).handling == Handling::kForward);
  }
  CHECK(table.rule(*find_command("GET")).single_key == 1);
  CHECK_FALSE(table.rule(*find_command("GET")).is_write);
  CHECK(table.rule(*find_command("EVAL")).all_slots);
  CHECK(table.rule(*find_command("BLPOP")).handling == Handling::kRefuse);
}
