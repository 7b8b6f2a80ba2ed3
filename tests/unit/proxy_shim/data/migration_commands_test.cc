#include <doctest/doctest.h>

#include <chrono>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/migration_commands.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
constexpr int kSlot = 905;
const SlotSet kSlots = SlotSet::of(kSlot);
constexpr SlotPhase kAllPhases[] = {SlotPhase::kOutside, SlotPhase::kStay,    SlotPhase::kOld,
                                    SlotPhase::kHold,    SlotPhase::kBarrier, SlotPhase::kPromote,
                                    SlotPhase::kNew,     SlotPhase::kFinal,   SlotPhase::kDoubt};

MigrationAnswer judge(SlotPhase phase, const Words& words) {
  RouteTable table;
  table.phase.fill(phase);
  table.old_side.address = {"10.0.0.1", 7001};
  table.new_side.address = {"10.0.0.2", 7003};
  const Routes routes(std::make_shared<RouteTable>(table));
  const std::vector<std::string_view> argv(words.begin(), words.end());
  const CommandSpec* spec = find_command(argv[0]);
  REQUIRE(spec != nullptr);
  REQUIRE(spec->is(kCmdMigration));
  REQUIRE(spec->arity_ok(argv.size()));
  return judge_migration(*spec, argv, routes);
}
}  // namespace

TEST_CASE(
    "T4 T13 X07: the wrapper never says 1; it executes until the slot is FINAL and sends on from "
    "then") {
  const std::string key = key_in(kSlot);
  for (const SlotPhase phase : kAllPhases) {
    CAPTURE(phase_name(phase));
    const auto answer = judge(phase, {"SLOTSMGRT-EXEC-WRAPPER", key, "GET", key});
    if (phase == SlotPhase::kFinal) {
      CHECK(answer.kind == MigrationAnswer::Kind::kNow);
      CHECK(answer.reply.starts_with("*2\r\n:0\r\n$"));
    } else {
      CHECK(answer.kind == MigrationAnswer::Kind::kExecute);
    }
  }
}

TEST_CASE("I7 T1 T3: a slot or key is said to be moved only when FINAL and only to its owner") {
  const std::string key = key_in(kSlot);
  const std::vector<Words> commands = {
      {"SLOTSMGRTTAGSLOT", "H", "P", "3000", "905"},
      {"SLOTSMGRTTAGSLOT-ASYNC", "H", "P", "5000", "200", "33554432", "905", "500"},
      {"SLOTSMGRTSLOT", "H", "P", "3000", "905"},
      {"SLOTSMGRTSLOT-ASYNC", "H", "P", "5000", "200", "33554432", "905", "500"},
      {"SLOTSMGRTTAGONE", "H", "P", "3000", key},
      {"SLOTSMGRTONE", "H", "P", "3000", key},
      {"SLOTSMGRTTAGONE-ASYNC", "H", "P", "3000", "200", "33554432", key},
      {"SLOTSMGRTONE-ASYNC", "H", "P", "3000", "200", "33554432", key, key},
  };
  for (Words words : commands) {
    for (const SlotPhase phase : kAllPhases) {
      for (const bool to_owner : {true, false}) {
        words[1] = to_owner ? "10.0.0.2" : "10.0.0.9";
        words[2] = to_owner ? "7003" : "7009";
        const auto answer = judge(phase, words);
        CAPTURE(words[0]);
        CAPTURE(phase_name(phase));
        CAPTURE(answer.reply);
        if (phase == SlotPhase::kFinal && to_owner) {
          CHECK(answer.kind == MigrationAnswer::Kind::kNow);
          const bool is_slot = words[0].find("SLOT", 5) != std::string::npos;
          CHECK(answer.reply == (is_slot ? "*2\r\n:0\r\n:0\r\n" : ":0\r\n"));
          continue;
        }
        CHECK(answer.reply.starts_with("-"));
        if (phase == SlotPhase::kOutside || phase == SlotPhase::kDoubt) continue;
        CHECK(answer.reply.find(words[1] + ":" + words[2]) != std::string::npos);
        const bool is_not_final = phase != SlotPhase::kFinal;
        CHECK(is_not_final == (answer.reply.find("is not handed back yet") != std::string::npos));
        const bool is_new = phase == SlotPhase::kNew || phase == SlotPhase::kFinal;
        CHECK(answer.reply.find(is_new ? "10.0.0.2:7003" : "10.0.0.1:7001") != std::string::npos);
      }
    }
  }
}

TEST_CASE("I8 T24: data pushed at the shim and the other migration commands are refused") {
  const std::vector<Words> commands = {
      {"SLOTSRESTORE", "k", "0", "dump"},   {"SLOTSRESTORE-ASYNC", "delete", "k"},
      {"SLOTSRESTORE-ASYNC-AUTH", "pw"},    {"SLOTSRESTORE-ASYNC-SELECT", "0"},
      {"SLOTSRESTORE-ASYNC-ACK", "0", "x"}, {"SLOTSMGRT-ASYNC-FENCE"},
  };
  for (const Words& words : commands) {
    CAPTURE(words[0]);
    const auto answer = judge(SlotPhase::kFinal, words);
    CHECK(answer.kind == MigrationAnswer::Kind::kNow);
    CHECK(answer.reply.starts_with("-ERR"));
  }
}

TEST_CASE("I7 T1: several keys are at their owner only if each of them is") {
  const std::string key = key_in(kSlot);
  RouteTable table;
  table.phase.fill(SlotPhase::kNew);
  table.phase[kSlot] = SlotPhase::kFinal;
  table.old_side.address = {"10.0.0.1", 7001};
  table.new_side.address = {"10.0.0.2", 7003};
  const Routes routes(std::make_shared<RouteTable>(table));
  const std::string other = key_in(kSlot + 1);
  const std::vector<std::string_view> argv = {
      "SLOTSMGRTONE-ASYNC", "10.0.0.2", "7003", "3000", "200", "1000", key, other};
  const auto answer = judge_migration(*find_command(argv[0]), argv, routes);
  CHECK(answer.reply.starts_with("-ERR slot 906 is not handed back yet"));
}

TEST_CASE("I7 T15: the refusal names the way out of the phase the slot is in") {
  const Words words = {"SLOTSMGRTTAGSLOT", "10.0.0.2", "7003", "3000", "905"};
  CHECK(judge(SlotPhase::kStay, words).reply.find("it stays with its group") != std::string::npos);
  CHECK(judge(SlotPhase::kOld, words).reply.find("cut it over and make it FINAL") !=
        std::string::npos);
  CHECK(judge(SlotPhase::kNew, words).reply.find("; make it FINAL first") != std::string::npos);
}

TEST_CASE("T24: status and cancel are answered as Pika does when nothing is migrated") {
  ShimFixture shim;
  CHECK(shim.ask({"SLOTSMGRT-ASYNC-STATUS"}) ==
        "[\"dest server: :-1\" \"slot number: -1\" \"migrating  : no\" \"moved keys : -1\" "
        "\"remain keys: -1\"]");
  CHECK(shim.ask({"SLOTSMGRT-ASYNC-CANCEL"}) == "+OK");
}

TEST_CASE("T4 T13: in doubt, and outside the plan, the client gets the wrapped reason itself") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kDoubt);
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "SET", key, "v"}).starts_with("[:2 -TRYAGAIN"));
  shim.publish(kSlots, SlotPhase::kOutside);
  CHECK(
      shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "SET", key, "v"}).starts_with("[:2 -ERR slot 905"));
  CHECK(shim.old_server.count("SET") == 0);
  CHECK(shim.new_server.count("SET") == 0);
}

TEST_CASE("T4 I4: a wrapped write whose server goes away is an error, and is not sent again") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.old_server.set_rule([](const Words& request) {
    if (to_upper(request[0]) != "INCR") return FakeAction{};
    return FakeAction{FakeAction::Kind::kBreak, ""};
  });
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "INCR", key}).starts_with("[:2 -ERR"));
  CHECK(shim.old_server.count("INCR") == 1);
}

TEST_CASE("T4 I5: a wrapped write that is held is executed once, on the owner it gets") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"SLOTSMGRT-EXEC-WRAPPER", key, "INCR", key});
  CHECK_FALSE(c.has_reply_within(20));
  shim.publish(kSlots, SlotPhase::kNew);
  CHECK(reply_text(c.read()) == "[:2 :1]");
  CHECK(shim.new_server.count("INCR") == 1);
  CHECK(shim.old_server.count("INCR") == 0);
}

TEST_CASE("T24 T14: on a connection that carries data a migration command is refused at once") {
  ShimFixture shim;
  const Words refused = {
      "SLOTSMGRTTAGSLOT-ASYNC", "127.0.0.1", "1", "5000", "200", "1000", "905", "500"};
  for (const char* before : {"PING", "GET k", "SLOTSMGRT-EXEC-WRAPPER k GET k"}) {
    CAPTURE(std::string(before));
    TestClient proxy = shim.client();
    proxy.send_raw(cat(before, "\r\n"));
    proxy.read();
    const auto start = std::chrono::steady_clock::now();
    std::string bytes;
    for (int i = 0; i < 20; ++i) {
      resp::request(bytes, std::vector<std::string_view>(refused.begin(), refused.end()));
    }
    proxy.send_raw(bytes);
    proxy.send({"GET", "k"});
    for (int i = 0; i < 20; ++i) CHECK(reply_text(proxy.read()).starts_with("-ERR slot 905"));
    CHECK(reply_text(proxy.read()) == "nil");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::microseconds(kMigrationPaceUs));
  }
}

TEST_CASE(
    "T4: the wrapped command is executed on the owner exactly once and its reply is wrapped") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "incr", key}) == "[:2 :1]");
  CHECK(shim.old_server.count("INCR") == 1);
  CHECK(shim.old_server.requests().back()[0] == "incr");
  shim.publish(kSlots, SlotPhase::kNew);
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "GET", key}) == "[:2 nil]");
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "nosuch", key}).starts_with("[:2 -ERR"));
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "SET", key}).starts_with("[:2 -ERR wrong number"));
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "FLUSHALL"}).starts_with("[:2 -ERR"));
  shim.publish(kSlots, SlotPhase::kFinal);
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "SET", key, "v"}).starts_with("[:0 \""));
  CHECK(shim.new_server.count("SET") == 0);
}

TEST_CASE("T4 T7: wrapped replies keep their order among others, large ones too") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  const std::string big(300'000, 'x');
  shim.old_server.set_value(0, key, big);
  TestClient c = shim.client();
  c.send({"GET", key});
  c.send({"SLOTSMGRT-EXEC-WRAPPER", key, "GET", key});
  c.send({"PING"});
  CHECK(c.read().text == big);
  const Reply wrapped = c.read();
  REQUIRE(wrapped.elements.size() == 2);
  CHECK(wrapped.elements[0].integer == 2);
  CHECK(wrapped.elements[1].text == big);
  CHECK(reply_text(c.read()) == "+PONG");
}

TEST_CASE("T27: the wrapped key reaches the server as it was written, capitals and all") {
  ShimFixture shim;
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", "KeY{Tag}", "SET", "KeY{Tag}", "v"}) == "[:2 +OK]");
  CHECK(shim.old_server.value(0, "KeY{Tag}") == "v");
}

TEST_CASE("X06: a read of a slot whose migration was refused still gets its value") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.old_server.set_value(0, key, "v");
  CHECK(shim.ask({"SLOTSMGRTTAGSLOT", "127.0.0.1", "1", "5000", "905"}).starts_with("-ERR"));
  CHECK(shim.ask({"GET", key}) == "\"v\"");
}

TEST_CASE("T14 T15: a refused migration command is answered after a pause, others at once") {
  ShimFixture shim;
  TestClient dashboard = shim.client();
  const auto start = std::chrono::steady_clock::now();
  dashboard.send({"SLOTSMGRTTAGSLOT-ASYNC", "127.0.0.1", "1", "5000", "200", "1000", "905", "500"});
  dashboard.send({"PING"});
  CHECK(shim.ask({"GET", "k"}) == "nil");
  CHECK_FALSE(dashboard.has_reply_within(20));
  const std::string text = reply_text(dashboard.read());
  CHECK(text.starts_with("-ERR slot 905 is not handed back yet"));
  CHECK(std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(50));
  CHECK(reply_text(dashboard.read()) == "+PONG");
  {
    TestClient leaving = shim.client();
    leaving.send({"SLOTSMGRTTAGSLOT", "127.0.0.1", "1", "5000", "905"});
    leaving.send({"PING"});
  }
  CHECK(eventually([&] { return shim.plane->stats().clients == 1; }));
}

TEST_CASE("T1 I7: the dashboard's semi-async round ends only towards the owner") {
  ShimFixture shim;
  shim.publish(kSlots, SlotPhase::kFinal);
  const std::string port = std::to_string(shim.new_server.port());
  CHECK(shim.ask({"SLOTSMGRTTAGSLOT-ASYNC", "127.0.0.1", port, "5000", "200", "1000", "905",
                  "500"}) == "[:0 :0]");
  CHECK(
      shim.ask({"SLOTSMGRTTAGSLOT", "127.0.0.1", "1", "5000", "905"}).starts_with("-ERR slot 905"));
  CHECK(shim.ask({"SLOTSMGRTTAGSLOT", "127.0.0.1", port, "5000", "1024"}).starts_with("-ERR"));
}
