#include <doctest/doctest.h>

#include <atomic>
#include <deque>

#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "proxy_shim/data/hold_queue.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
constexpr int kSlot = 905;
const SlotSet kSlots = SlotSet::of(kSlot);

bool held_is(const ShimFixture& shim, int64_t n) {
  return eventually([&] { return shim.plane->stats().held_now == n; });
}
}  // namespace

TEST_CASE("6.2: which phase sends, holds or refuses reads and writes, and where") {
  struct Row {
    SlotPhase phase;
    char write;  // o old, n new, h held, r refused
    char read;
  };
  const Row rows[] = {
      {SlotPhase::kOutside, 'r', 'r'}, {SlotPhase::kStay, 'o', 'o'},
      {SlotPhase::kOld, 'o', 'o'},     {SlotPhase::kHold, 'h', 'o'},
      {SlotPhase::kBarrier, 'h', 'o'}, {SlotPhase::kPromote, 'h', 'h'},
      {SlotPhase::kNew, 'n', 'n'},     {SlotPhase::kFinal, 'n', 'n'},
      {SlotPhase::kDoubt, 'r', 'r'},
  };
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  for (const Row& row : rows) {
    CAPTURE(phase_name(row.phase));
    for (const bool is_write : {true, false}) {
      shim.publish(kSlots, row.phase);
      const char wanted = is_write ? row.write : row.read;
      const auto command = is_write ? "SET" : "GET";
      const int64_t old_before = shim.old_server.count(command);
      const int64_t new_before = shim.new_server.count(command);
      TestClient c = shim.client();
      is_write ? c.send({"SET", key, "v"}) : c.send({"GET", key});
      if (wanted == 'h') {
        CHECK(held_is(shim, 1));
        CHECK_FALSE(c.has_reply_within(5));
      } else {
        CHECK(c.read().is_error() == (wanted == 'r'));
      }
      CHECK(shim.old_server.count(command) == old_before + (wanted == 'o' ? 1 : 0));
      CHECK(shim.new_server.count(command) == new_before + (wanted == 'n' ? 1 : 0));
      shim.publish(kSlots, SlotPhase::kOld);
      if (wanted == 'h') CHECK_FALSE(c.read().is_error());
    }
  }
}

TEST_CASE("I2a I5: held writes go to the new owner in order when the slot is NEW") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  for (int i = 0; i < 20; ++i) c.send({"APPEND", key, cat(i % 10)});
  REQUIRE(held_is(shim, 20));
  shim.publish(kSlots, SlotPhase::kBarrier);
  shim.publish(kSlots, SlotPhase::kPromote);
  CHECK(shim.plane->stats().held_now == 20);
  shim.publish(kSlots, SlotPhase::kNew);
  for (int i = 1; i <= 20; ++i) CHECK(reply_text(c.read()) == cat(":", i));
  CHECK(shim.new_server.value(0, key) == "01234567890123456789");
  CHECK(shim.old_server.count("APPEND") == 0);
  CHECK(shim.plane->stats().held_now == 0);
}

TEST_CASE("M04: a cutover shows clients no word of its own; what cannot be held is a TRYAGAIN") {
  ShimFixture shim;
  const SlotSet slot = SlotSet::of(905);
  const std::string key = key_in(905);
  // What a fenced node says to who asks it: no client may read that.
  std::atomic<bool> closed = false;
  shim.old_server.set_rule([&](const Words& request) {
    const bool asks = request.size() > 1 && request[1] == key;
    return closed && asks ? FakeAction{FakeAction::Kind::kReply, "-MOVEDSLOT slot 905\r\n"}
                          : FakeAction{};
  });
  for (const bool taken_back : {true, false}) {
    std::deque<TestClient> clients;
    for (const SlotPhase phase : {SlotPhase::kHold, SlotPhase::kPromote}) {
      shim.publish(slot, phase);
      for (int i = 0; i < 4; ++i) {
        clients.emplace_back(shim.plane->port());
        clients.back().send({"SET", key, cat(i)});
        clients.back().send({"GET", key});
      }
    }
    CHECK(eventually([&] { return shim.plane->stats().held_now >= 16; }));
    closed = !taken_back;
    shim.publish(slot, taken_back ? SlotPhase::kOld : SlotPhase::kNew);
    for (TestClient& client : clients) {
      CHECK(reply_text(client.read()) == "+OK");
      CHECK(reply_text(client.read()).starts_with("\""));
    }
  }
  shim.publish(slot, SlotPhase::kDoubt);
  CHECK(shim.ask({"SET", key, "1"}).starts_with("-TRYAGAIN "));
  CHECK(shim.ask({"GET", key}).starts_with("-TRYAGAIN "));
  shim.table.new_writes_stopped = true;
  shim.publish(slot, SlotPhase::kNew);
  CHECK(shim.ask({"SET", key, "1"}).starts_with("-TRYAGAIN "));
}

TEST_CASE("I3: an attempt taken back sends the held writes to the old side, once") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"INCR", key});
  REQUIRE(held_is(shim, 1));
  shim.publish(kSlots, SlotPhase::kOld);
  CHECK(reply_text(c.read()) == ":1");
  CHECK(shim.old_server.count("INCR") == 1);
  CHECK(shim.new_server.count("INCR") == 0);
}

TEST_CASE(
    "I5: behind a held request of a connection its slot's reads wait too; other clients' do not") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  const std::string elsewhere = key_in(3);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"SET", key, "mine"});
  c.send({"GET", key});
  c.send({"SET", elsewhere, "x"});
  REQUIRE(held_is(shim, 2));
  // Sent, though its reply has to wait for its turn.
  CHECK(eventually([&] { return shim.old_server.value(0, elsewhere) == "x"; }));
  CHECK(shim.ask({"GET", key}) == "nil");
  CHECK_FALSE(c.has_reply_within(5));
  shim.publish(kSlots, SlotPhase::kNew);
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "\"mine\"");
  CHECK(reply_text(c.read()) == "+OK");
}

TEST_CASE(
    "I5: commands of several keys and of unknown effect wait behind what they could overtake") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  const std::string elsewhere = key_in(3);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"MSET", key, "1", elsewhere, "2"});
  c.send({"GET", elsewhere});
  c.send({"nosuch", elsewhere});
  REQUIRE(held_is(shim, 3));
  c.send({"GET", key_in(4)});
  REQUIRE(held_is(shim, 4));  // behind a command that may write any slot
  shim.publish(kSlots, SlotPhase::kNew);
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "\"2\"");
  CHECK(c.read().is_error());
  CHECK(reply_text(c.read()) == "nil");
  CHECK(shim.new_server.value(0, key) == "1");
  CHECK(shim.old_server.value(0, elsewhere) == "2");
}

TEST_CASE("I2a: a command of unknown effect is held while any slot is") {
  ShimFixture shim;
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"nosuch", key_in(3)});
  CHECK(held_is(shim, 1));
  TestClient scripts = shim.client();
  scripts.send({"EVAL", "return 1", "1", key_in(3)});
  CHECK(held_is(shim, 2));
  CHECK(shim.old_server.requests().empty());
  shim.publish(kSlots, SlotPhase::kOld);
  CHECK(c.read().is_error());
  CHECK(scripts.read().is_error());
}

TEST_CASE("6.5: held requests of a connection that closed are dropped") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  auto leaving = std::make_unique<TestClient>(shim.plane->port());
  TestClient staying = shim.client();
  leaving->send({"APPEND", key, "gone"});
  REQUIRE(held_is(shim, 1));
  staying.send({"APPEND", key, "here"});
  REQUIRE(held_is(shim, 2));
  leaving.reset();
  REQUIRE(held_is(shim, 1));
  shim.publish(kSlots, SlotPhase::kNew);
  CHECK(reply_text(staying.read()) == ":4");
  CHECK(shim.new_server.value(0, key) == "here");
}

TEST_CASE("I9: over the bound control is told once, nothing more is read, and nothing is lost") {
  for (const bool by_bytes : {false, true}) {
    CAPTURE(by_bytes);
    DataPlaneOptions options = ShimFixture::test_options();
    options.held_requests_max = by_bytes ? 1'000'000 : 100;
    options.held_bytes_max = by_bytes ? 5'000 : 64UL << 20;
    auto plane = make_data_plane(options, Log());
    ShimFixture shim(options);
    const std::string key = key_in(kSlot);
    std::atomic<int> told{0};
    shim.plane.reset();
    shim.plane = std::move(plane);
    shim.plane->on_hold_overflow([&] { ++told; });
    shim.set(kSlots, SlotPhase::kHold);
    REQUIRE(shim.plane->start(std::make_shared<RouteTable>(shim.table)).is_ok());
    TestClient c = shim.client();
    // A client whose replies are known to be small may have many requests under way.
    for (int i = 0; i < 300; ++i) c.call({"GET", key_in(3)});
    std::string bytes;
    for (int i = 0; i < 1000; ++i) bytes += resp::request({"INCR", key});
    c.send_raw(bytes);
    CHECK(eventually([&] { return told == 1; }));
    CHECK(shim.plane->stats().held_now <= 1000);
    CHECK(shim.plane->stats().held_bytes_now <= 64 << 20);
    if (!by_bytes) CHECK(shim.plane->stats().held_now == 100);
    shim.publish(kSlots, SlotPhase::kOld);
    for (int i = 1; i <= 1000; ++i) CHECK(c.read().integer == i);
    CHECK(told == 1);
    CHECK(shim.plane->stats().held_now == 0);
    CHECK(shim.plane->stats().held_bytes_now == 0);
  }
}

TEST_CASE("HoldReport: count, bytes, and first held to last sent, taken once") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  CHECK(shim.plane->take_hold_report(kSlots).held_requests == 0);
  TestClient a = shim.client();
  TestClient b = shim.client();
  a.send({"SET", key, "1"});
  b.send({"SET", key, "2"});
  REQUIRE(held_is(shim, 2));
  CHECK_FALSE(a.has_reply_within(20));
  shim.publish(kSlots, SlotPhase::kNew);
  a.read();
  b.read();
  CHECK(shim.plane->take_hold_report(SlotSet::of(1)).held_requests == 0);
  const HoldReport report = shim.plane->take_hold_report(kSlots);
  CHECK(report.slots == kSlots);
  CHECK(report.held_requests == 2);
  CHECK(report.held_bytes == 2 * static_cast<int64_t>(resp::request({"SET", key, "1"}).size()));
  CHECK(report.pause_us >= 20'000);
  CHECK(report.pause_us < 5'000'000);
  CHECK(shim.plane->take_hold_report(kSlots).pause_us == 0);
}

TEST_CASE("held inline and wrapped requests are sent as what they are") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send_raw(cat("SET ", key, " \"a b\"\r\n"));
  c.send({"SLOTSMGRT-EXEC-WRAPPER", key, "APPEND", key, "c"});
  REQUIRE(held_is(shim, 2));
  shim.publish(kSlots, SlotPhase::kNew);
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "[:2 :4]");
  CHECK(shim.new_server.value(0, key) == "a bc");
}

TEST_CASE("held requests whose server is gone get an error; one whose slot is in doubt too") {
  ShimFixture shim;
  const std::string key = key_in(kSlot);
  shim.publish(kSlots, SlotPhase::kHold);
  TestClient c = shim.client();
  c.send({"SET", key, "1"});
  REQUIRE(held_is(shim, 1));
  shim.publish(kSlots, SlotPhase::kDoubt);
  CHECK(reply_text(c.read()).starts_with("-TRYAGAIN"));
  CHECK(shim.old_server.count("SET") + shim.new_server.count("SET") == 0);
}

TEST_CASE(
    "HoldQueue: a pass visits what was there, keeps order, and survives removals in between") {
  HoldBudget budget(3, 100);
  HoldQueue queue(budget);
  Cell in_use;
  PendingPool pool(in_use);
  std::array<Pending*, 3> records{};
  for (auto& record : records) {
    record = pool.take();
    REQUIRE(queue.push(record, "0123456789"));
  }
  Pending* extra = pool.take();
  CHECK_FALSE(queue.push(extra, "x"));
  CHECK(budget.requests() == 3);
  CHECK(budget.bytes() == 30);
  queue.begin_pass();
  CHECK(queue.take_next() == records[0]);
  queue.keep(records[0]);
  queue.remove(records[2]);
  CHECK(queue.take_next() == records[1]);
  queue.let_go(records[1], 5);
  CHECK(queue.take_next() == nullptr);
  CHECK(budget.requests() == 1);
  queue.begin_pass();
  CHECK(queue.take_next() == records[0]);
  queue.let_go(records[0], 7);
  CHECK(queue.empty());
  CHECK(budget.bytes() == 0);
}
