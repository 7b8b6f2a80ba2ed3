#include "proxy_shim/data/read_checks.h"

#include <doctest/doctest.h>

#include "proxy_shim/data/command_table.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

DataPlaneOptions with(ReadPolicy reads, Guard guard = Guard::kOff) {
  DataPlaneOptions options = ShimFixture::test_options();
  options.rules = {reads, 100, guard};
  return options;
}

ReadCheckCounts counts(const ShimFixture& shim, SlotDifferences* by_slot = nullptr) {
  return shim.plane->read_checks(by_slot);
}

}  // namespace

TEST_CASE("I6: with compare the owner answers, whatever the other side has") {
  ShimFixture shim(with(ReadPolicy::kCompare));
  const std::string same = key_in(700);
  const std::string other = key_in(701);
  shim.old_server.set_value(0, same, "v");
  shim.new_server.set_value(0, same, "v");
  shim.old_server.set_value(0, other, "old");
  shim.new_server.set_value(0, other, "new");
  CHECK(shim.ask({"GET", same}) == "\"v\"");
  CHECK(eventually([&] { return counts(shim).compared == 1; }));
  CHECK(counts(shim).different == 0);
  CHECK(shim.ask({"GET", other}) == "\"old\"");
  SlotDifferences by_slot;
  CHECK(eventually([&] { return counts(shim, &by_slot).different == 1; }));
  CHECK(by_slot == SlotDifferences{{701, 1}});
  shim.publish(SlotSet::range(701, 701), SlotPhase::kNew);
  CHECK(shim.ask({"GET", other}) == "\"new\"");
  CHECK(eventually([&] { return counts(shim).different == 2; }));
  CHECK(shim.plane->stats().inflight == 0);
}

TEST_CASE(
    "compare: what is equal half a second later only was late; writes go to the owner alone") {
  ShimFixture shim(with(ReadPolicy::kCompare));
  const std::string key = key_in(700);
  CHECK(shim.ask({"SET", key, "v"}) == "+OK");
  CHECK(shim.new_server.count("SET") == 0);
  CHECK(shim.ask({"GET", key}) == "\"v\"");
  CHECK(shim.new_server.wait_for("GET", 1));
  shim.new_server.set_value(0, key, "v");
  CHECK(eventually([&] { return counts(shim).compared == 1; }));
  CHECK(counts(shim).late == 1);
  CHECK(counts(shim).different == 0);
}

TEST_CASE("X09: a copy of a read that is dropped is counted, and the client never waits for it") {
  ShimFixture shim(with(ReadPolicy::kCompare));
  const std::string key = key_in(700);
  shim.old_server.set_value(0, key, "v");
  shim.new_server.set_rule([](const Words&) { return FakeAction{FakeAction::Kind::kWait, ""}; });
  for (int i = 0; i < 400; ++i) CHECK(shim.ask({"GET", key}) == "\"v\"");
  // At most so many are under way at once on each of the two threads.
  CHECK(eventually([&] { return shim.plane->stats().inflight <= 512; }));
  shim.new_server.close_connections();
  CHECK(eventually([&] { return counts(shim).skipped == 400; }));
  CHECK(counts(shim).compared == 0);
  CHECK(shim.plane->stats().inflight == 0);
}

TEST_CASE(
    "compare: a share of the reads, slots that move only, nothing that may differ by itself") {
  DataPlaneOptions options = with(ReadPolicy::kCompare);
  options.threads = 1;
  options.rules.compare_percent = 10;
  ShimFixture shim(options);
  const std::string key = key_in(700);
  TestClient c = shim.client();
  for (int i = 0; i < 100; ++i) c.call({"GET", key});
  CHECK(eventually([&] { return counts(shim).compared == 10; }));
  shim.plane->set_rules({ReadPolicy::kCompare, 100, Guard::kOff});
  c.call({"TTL", key});
  c.call({"SRANDMEMBER", key});
  shim.publish(SlotSet::range(702, 702), SlotPhase::kStay);
  c.call({"GET", key_in(702)});
  CHECK(counts(shim).compared == 10);
  CHECK(shim.new_server.count("GET") == 10);
  CHECK(shim.plane->rules().compare_percent == 100);
}

TEST_CASE("new-then-old: the new side first, the old one on a miss; a write goes to the owner") {
  ShimFixture shim(with(ReadPolicy::kNewThenOld));
  const std::string both = key_in(700);
  const std::string only_old = key_in(701);
  shim.old_server.set_value(0, both, "old");
  shim.new_server.set_value(0, both, "new");
  shim.old_server.set_value(0, only_old, "old");
  CHECK(shim.ask({"GET", both}) == "\"new\"");
  CHECK(shim.ask({"GET", only_old}) == "\"old\"");
  CHECK(shim.ask({"GET", key_in(702)}) == "nil");
  CHECK(counts(shim).fallbacks == 2);
  CHECK(shim.ask({"SET", both, "1"}) == "+OK");
  CHECK(shim.new_server.count("SET") == 0);
  // A side that is down is a miss; both down is an error, in time.
  shim.table.new_side.address.port = 1;
  shim.publish();
  CHECK(shim.ask({"GET", both}) == "\"1\"");
  shim.table.old_side.address.port = 1;
  shim.publish();
  CHECK(shim.ask({"GET", both}).starts_with("-ERR"));
  CHECK(shim.plane->stats().inflight == 0);
}

TEST_CASE("C01 C16: guard pika-3.5 keeps what ends the server behind from it, everywhere") {
  ShimFixture shim(with(ReadPolicy::kOwner, Guard::kPika35));
  const std::string key = key_in(700);
  for (const char* name : {"PFADD", "PFCOUNT", "PFMERGE"}) {
    CHECK(shim.ask({name, key, "x"}).find("guard pika-3.5") != std::string::npos);
  }
  CHECK(shim.ask({"GETRANGE", key, "1", "4294967296"}).find("offset") != std::string::npos);
  CHECK(shim.ask({"GETRANGE", key, "-9223372036854775808", "1"}).starts_with("-ERR"));
  CHECK(shim.ask({"SETRANGE", key, "9223372036854775757", "v"}).starts_with("-ERR"));
  CHECK(shim.ask({"SLOTSMGRT-EXEC-WRAPPER", key, "PFCOUNT", key}).find("guard") !=
        std::string::npos);
  TestClient c = shim.client();
  c.send_raw("pfcount " + key + "\r\n");
  CHECK(c.read().is_error());
  CHECK(reply_text(c.call({"MULTI"})) == "+OK");
  CHECK(c.call({"PFCOUNT", key}).is_error());
  CHECK(reply_text(c.call({"EXEC"})).starts_with("-EXECABORT"));
  CHECK(shim.old_server.requests().empty());
  CHECK(shim.ask({"GETRANGE", key, "0", "-1"}).find("guard") == std::string::npos);
  CHECK(shim.old_server.count("GETRANGE") == 1);
  shim.plane->set_rules({});
  shim.ask({"PFCOUNT", key});
  CHECK(shim.old_server.count("PFCOUNT") == 1);
}

TEST_CASE("O02: with the guard no client ends the old master in the middle of a move") {
  ShimFixture shim(with(ReadPolicy::kOwner, Guard::kPika35));
  const auto ends = [](const Words& request) {
    const bool fatal = request[0] == "PFCOUNT" || request[0] == "pfcount";
    return FakeAction{fatal ? FakeAction::Kind::kBreak : FakeAction::Kind::kUsual, ""};
  };
  shim.old_server.set_rule(ends);
  shim.new_server.set_rule(ends);
  const std::string key = key_in(905);
  CHECK(shim.ask({"SET", key, "hello"}) == "+OK");
  for (const SlotPhase phase : {SlotPhase::kOld, SlotPhase::kHold, SlotPhase::kOld}) {
    shim.publish(SlotSet::of(905), phase);
    for (const char* name : {"PFCOUNT", "pfcount"}) {
      CHECK(shim.ask({name, key}).find("guard pika-3.5") != std::string::npos);
    }
    CHECK(shim.ask({"GET", key}) == "\"hello\"");  // it lives
  }
  CHECK(shim.old_server.count("PFCOUNT") == 0);
  CHECK(shim.new_server.count("PFCOUNT") == 0);
}

TEST_CASE("new-then-old: a read that is on its way when the shim ends asks nobody else") {
  ShimFixture shim(with(ReadPolicy::kNewThenOld));
  shim.new_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "GET" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual, ""};
  });
  TestClient c = shim.client();
  c.send({"GET", key_in(700)});
  REQUIRE(shim.new_server.wait_for("GET", 1));
  shim.plane->shut_down(0);
  shim.plane.reset();
  CHECK(shim.old_server.count("GET") == 0);
  CHECK(c.is_closed());
}
