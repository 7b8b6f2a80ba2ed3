#include <doctest/doctest.h>

#include "common/base/strings.h"
#include "proxy_shim/data/write_ledger.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
constexpr int kSlot = 905;
const SlotSet kSlots = SlotSet::of(kSlot);

FakeRule wait_on(std::string command) {
  return [command](const Words& request) {
    return FakeAction{request[0] == command ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual,
                      ""};
  };
}
}  // namespace

TEST_CASE("I2b: drain waits for the answer to each write of its slots, and only for those") {
  ShimFixture shim;
  shim.old_server.set_rule(wait_on("INCR"));
  TestClient c = shim.client();
  c.send({"INCR", key_in(kSlot)});
  REQUIRE(shim.old_server.wait_for("INCR", 1));
  shim.publish(kSlots, SlotPhase::kHold);
  CHECK(shim.plane->drain(SlotSet::of(3), InFlight::kWrites, 1'000).is_ok());
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 20).status().code() == Code::kTimeout);
  std::thread releaser([&] { shim.old_server.release(); });
  const auto drained = shim.plane->drain(kSlots, InFlight::kWrites, 5'000);
  releaser.join();
  REQUIRE(drained.is_ok());
  CHECK(drained->unanswered == 0);
  CHECK(reply_text(c.read()) == ":1");
}

TEST_CASE("I2b: reads in flight are not waited for") {
  ShimFixture shim;
  shim.old_server.set_rule(wait_on("GET"));
  TestClient c = shim.client();
  c.send({"GET", key_in(kSlot)});
  REQUIRE(shim.old_server.wait_for("GET", 1));
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 1'000).is_ok());
  shim.old_server.release();
  c.read();
}

TEST_CASE("I2a: before the old side refuses reads, those in flight to it are waited for") {
  ShimFixture shim;
  shim.old_server.set_rule(wait_on("GET"));
  TestClient c = shim.client();
  c.send({"GET", key_in(kSlot)});
  REQUIRE(shim.old_server.wait_for("GET", 1));
  shim.publish(kSlots, SlotPhase::kPromote);
  CHECK(shim.plane->drain(SlotSet::of(3), InFlight::kAll, 1'000).is_ok());
  CHECK(shim.plane->drain(kSlots, InFlight::kAll, 20).status().code() == Code::kTimeout);
  std::thread releaser([&] { shim.old_server.release(); });
  CHECK(shim.plane->drain(kSlots, InFlight::kAll, 5'000).is_ok());
  releaser.join();
  CHECK_FALSE(c.read().is_error());
}

TEST_CASE("I2b: a write whose connection broke counts as never answered until forgotten") {
  ShimFixture shim;
  shim.old_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "INCR" ? FakeAction::Kind::kBreak : FakeAction::Kind::kUsual,
                      ""};
  });
  TestClient c = shim.client();
  CHECK(c.call({"INCR", key_in(kSlot)}).is_error());
  shim.publish(kSlots, SlotPhase::kHold);
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 1'000)->unanswered == 1);
  CHECK(shim.plane->drain(SlotSet::of(3), InFlight::kWrites, 1'000)->unanswered == 0);
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 1'000)->unanswered == 1);
  shim.plane->forget_unanswered(kSlots);
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 1'000)->unanswered == 0);
}

TEST_CASE("I2b: a write that timed out counts as never answered") {
  DataPlaneOptions options = ShimFixture::test_options();
  options.backend_timeout_ms = 100;
  ShimFixture shim(options);
  shim.old_server.set_rule(wait_on("INCR"));
  TestClient c = shim.client();
  c.send({"INCR", key_in(kSlot)});
  REQUIRE(shim.old_server.wait_for("INCR", 1));
  shim.publish(kSlots, SlotPhase::kHold);
  const auto drained = shim.plane->drain(kSlots, InFlight::kWrites, 5'000);
  REQUIRE(drained.is_ok());
  CHECK(drained->unanswered == 1);
  CHECK(c.read().is_error());
}

TEST_CASE("I2b: a write that never left because the server was not there is no unanswered one") {
  ShimFixture shim;
  shim.table.old_side.address.port = 1;
  shim.publish();
  CHECK(shim.ask({"INCR", key_in(kSlot)}).starts_with("-ERR server 127.0.0.1:1 is not reachable"));
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 1'000)->unanswered == 0);
}

TEST_CASE("6.5: commands of unknown effect and scripts are in flight for every slot") {
  for (const char* command : {"nosuch", "EVAL"}) {
    CAPTURE(command);
    ShimFixture shim;
    shim.old_server.set_rule(wait_on(command));
    TestClient c = shim.client();
    const std::string key = key_in(3);
    command == std::string("EVAL") ? c.send({"EVAL", "return 1", "1", key})
                                   : c.send({"nosuch", key});
    REQUIRE(shim.old_server.wait_for(command, 1));
    CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 20).status().code() == Code::kTimeout);
    shim.old_server.release();
    CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 5'000).is_ok());
    c.read();
  }
}

TEST_CASE("6.5: a write of several keys is in flight for each of their slots") {
  ShimFixture shim;
  shim.old_server.set_rule(wait_on("MSET"));
  TestClient c = shim.client();
  c.send({"MSET", key_in(3), "1", key_in(kSlot), "2"});
  REQUIRE(shim.old_server.wait_for("MSET", 1));
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 20).status().code() == Code::kTimeout);
  CHECK(shim.plane->drain(SlotSet::of(3), InFlight::kWrites, 20).status().code() == Code::kTimeout);
  CHECK(shim.plane->drain(SlotSet::of(4), InFlight::kWrites, 20).is_ok());
  shim.old_server.release();
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 5'000).is_ok());
  c.read();
}

TEST_CASE("writes in flight to the new side are not the old side's") {
  ShimFixture shim;
  shim.publish(kSlots, SlotPhase::kNew);
  shim.new_server.set_rule(wait_on("INCR"));
  TestClient c = shim.client();
  c.send({"INCR", key_in(kSlot)});
  REQUIRE(shim.new_server.wait_for("INCR", 1));
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 1'000).is_ok());
  shim.new_server.release();
  c.read();
}

TEST_CASE("a client that left does not end the flight of its write") {
  ShimFixture shim;
  shim.old_server.set_rule(wait_on("INCR"));
  {
    TestClient c = shim.client();
    c.send({"INCR", key_in(kSlot)});
    REQUIRE(shim.old_server.wait_for("INCR", 1));
  }
  CHECK(eventually([&] { return shim.plane->stats().clients == 0; }));
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 20).status().code() == Code::kTimeout);
  shim.old_server.release();
  CHECK(shim.plane->drain(kSlots, InFlight::kWrites, 5'000)->unanswered == 0);
  CHECK(eventually([&] { return shim.plane->stats().inflight == 0; }));
}

TEST_CASE("I2b: WriteLedger: on the way back it is the new side that is drained") {
  WriteLedger ledger;
  Pending write;
  write.slot = 7;
  write.is_write = true;
  write.side = Side::kNew;
  ledger.sent(write);
  const SlotSet one = SlotSet::of(7);
  int64_t there = -1;
  int64_t back = -1;
  ledger.when_drained(1, one, InFlight::kWrites, [&](int64_t n) { there = n; });
  ledger.when_drained(
      2, one, InFlight::kWrites, [&](int64_t n) { back = n; }, Side::kNew);
  CHECK(there == 0);
  CHECK(back == -1);
  ledger.unanswered(write);
  CHECK(back == 1);
  ledger.forget_unanswered(one);
  ledger.when_drained(
      3, one, InFlight::kWrites, [&](int64_t n) { back += n; }, Side::kNew);
  CHECK(back == 2);
  ledger.forget_unanswered(one, Side::kNew);
  ledger.when_drained(
      4, one, InFlight::kWrites, [&](int64_t n) { back += n; }, Side::kNew);
  CHECK(back == 2);
}

TEST_CASE("WriteLedger: counts per side and slot, waiters are told once, cancelled ones never") {
  WriteLedger ledger;
  Pending write;
  write.slot = 7;
  write.more_slots = {9};
  write.is_write = true;
  ledger.sent(write);
  CHECK(ledger.in_flight(Side::kOld, 7) == 1);
  CHECK(ledger.in_flight(Side::kOld, 9) == 1);
  CHECK(ledger.in_flight(Side::kNew, 7) == 0);
  int told = 0;
  int64_t lost = -1;
  ledger.when_drained(1, SlotSet::range(9, 12), InFlight::kWrites, [&](int64_t n) {
    ++told;
    lost = n;
  });
  ledger.when_drained(2, SlotSet::of(7), InFlight::kWrites, [&](int64_t) { told += 100; });
  ledger.when_drained(3, SlotSet::of(8), InFlight::kWrites, [&](int64_t) { ++told; });
  CHECK(told == 1);
  ledger.cancel(2);
  ledger.unanswered(write);
  CHECK(told == 2);
  CHECK(lost == 1);
  CHECK(ledger.total() == 0);
  ledger.forget_unanswered(SlotSet::of(9));
  ledger.when_drained(4, SlotSet::range(7, 9), InFlight::kWrites, [&](int64_t n) { lost = n; });
  CHECK(lost == 1);
}
