#include <doctest/doctest.h>

#include "tests/support/redis_process.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

// Two real servers behind the shim: the fake ones know no MULTI.
struct Rig {
  RedisProcess old_redis, new_redis;
  ShimFixture shim;
  explicit Rig(DataPlaneOptions options = ShimFixture::test_options()) : shim(std::move(options)) {
    shim.table.old_side.address.port = old_redis.port();
    shim.table.new_side.address.port = new_redis.port();
    shim.publish();
  }
};

std::string ask(TestClient& c, std::initializer_list<std::string_view> argv) {
  return reply_text(c.call(argv));
}

}  // namespace

TEST_CASE("X08: a transaction is held as one and goes whole to the new owner") {
  Rig rig;
  const std::string key = key_in(700);
  TestClient c = rig.shim.client();
  CHECK(ask(c, {"MULTI"}) == "+OK");
  CHECK(ask(c, {"SET", key, "1"}) == "+QUEUED");
  CHECK(ask(c, {"INCR", key}) == "+QUEUED");
  rig.shim.publish(SlotSet::range(700, 700), SlotPhase::kHold);
  c.send({"EXEC"});
  c.send({"GET", key});  // behind a held request of its slot: waits too (I5)
  CHECK(eventually([&] { return rig.shim.plane->stats().held_now == 2; }));
  rig.shim.publish(SlotSet::range(700, 700), SlotPhase::kNew);
  CHECK(reply_text(c.read()) == "[+OK :2]");
  CHECK(reply_text(c.read()) == "\"2\"");
  TestClient old_one(rig.old_redis.port());
  CHECK(ask(old_one, {"EXISTS", key}) == ":0");
  CHECK(rig.shim.plane->stats().held_now == 0);
}

TEST_CASE(
    "X08: what becomes impossible between MULTI and EXEC aborts it, and nothing of it is done") {
  Rig rig;
  const std::string a = key_in(700);
  const std::string b = key_in(701);
  TestClient c = rig.shim.client();
  ask(c, {"MULTI"});
  ask(c, {"SET", a, "1"});
  ask(c, {"SET", b, "1"});
  rig.shim.publish(SlotSet::range(701, 701), SlotPhase::kNew);
  CHECK(ask(c, {"EXEC"}).starts_with("-EXECABORT Transaction discarded: CROSSSLOT"));
  CHECK(ask(c, {"MGET", a, b}) == "[nil nil]");
  rig.shim.publish(SlotSet::range(702, 702), SlotPhase::kDoubt);
  ask(c, {"MULTI"});
  CHECK(ask(c, {"SET", key_in(702), "1"}).starts_with("-TRYAGAIN"));
  CHECK(ask(c, {"EXEC"}).starts_with("-EXECABORT"));
  ask(c, {"MULTI"});
  CHECK(ask(c, {"CONFIG", "GET", "maxmemory"}) == "+QUEUED");
  CHECK(ask(c, {"SET", a, "1"}).starts_with("-ERR"));
  CHECK(ask(c, {"DISCARD"}) == "+OK");
  CHECK(ask(c, {"GET", a}) == "nil");
}

TEST_CASE("6.5: WATCH fails when the owner changes, also while EXEC is held") {
  Rig rig;
  const std::string key = key_in(700);
  TestClient c = rig.shim.client();
  CHECK(ask(c, {"WATCH", key}) == "+OK");
  ask(c, {"MULTI"});
  ask(c, {"SET", key, "mine"});
  rig.shim.publish(SlotSet::range(700, 700), SlotPhase::kHold);
  c.send({"EXEC"});
  CHECK(eventually([&] { return rig.shim.plane->stats().held_now == 1; }));
  rig.shim.publish(SlotSet::range(700, 700), SlotPhase::kNew);
  CHECK(reply_text(c.read()) == "nil");
  CHECK(ask(c, {"GET", key}) == "nil");
  // Taken back: nothing changed, so it goes through.
  const std::string other = key_in(710);
  CHECK(ask(c, {"WATCH", other}) == "+OK");
  ask(c, {"MULTI"});
  ask(c, {"SET", other, "mine"});
  rig.shim.publish(SlotSet::range(710, 710), SlotPhase::kHold);
  c.send({"EXEC"});
  CHECK(eventually([&] { return rig.shim.plane->stats().held_now == 1; }));
  rig.shim.publish(SlotSet::range(710, 710), SlotPhase::kOld);
  CHECK(reply_text(c.read()) == "[+OK]");
  CHECK(ask(c, {"WATCH", key, other}).starts_with("-CROSSSLOT"));
}

TEST_CASE(
    "6.5: WATCH fails when its connection was lost, and others' connections are not touched") {
  Rig rig;
  const std::string key = key_in(700);
  TestClient c = rig.shim.client();
  TestClient direct(rig.old_redis.port());
  CHECK(ask(c, {"SET", key, "0"}) == "+OK");
  CHECK(ask(c, {"WATCH", key}) == "+OK");
  CHECK(ask(direct, {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}).starts_with(":"));
  ask(c, {"MULTI"});
  ask(c, {"SET", key, "mine"});
  CHECK(ask(c, {"EXEC"}) == "nil");
  // A pipeline of WATCH, GET, MULTI: nothing overtakes the WATCH.
  c.send({"WATCH", key});
  c.send({"GET", key});
  c.send({"MULTI"});
  c.send({"SET", key, "2"});
  c.send({"EXEC"});
  c.send({"GET", key});
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "\"0\"");
  CHECK(reply_text(c.read()) == "+OK");
  CHECK(reply_text(c.read()) == "+QUEUED");
  CHECK(reply_text(c.read()) == "[+OK]");
  CHECK(reply_text(c.read()) == "\"2\"");
}

TEST_CASE("I1: an EXEC on its way to a server that is replaced is not acknowledged by it") {
  for (const bool is_watched : {true, false}) {
    CAPTURE(is_watched);
    Rig rig;
    RedisProcess successor;
    const std::string key = key_in(700);
    TestClient direct(rig.old_redis.port());
    TestClient c = rig.shim.client();
    if (is_watched) CHECK(ask(c, {"WATCH", key}) == "+OK");
    ask(c, {"MULTI"});
    ask(c, {"SET", key, "1"});
    CHECK(ask(direct, {"CLIENT", "PAUSE", "100000", "WRITE"}) == "+OK");
    c.send({"EXEC"});
    CHECK(eventually([&] { return rig.shim.plane->stats().inflight == 1; }));
    rig.shim.table.old_side.address.port = successor.port();
    rig.shim.publish();
    CHECK(reply_text(c.read()).find("may or may not have been executed") != std::string::npos);
    CHECK(ask(c, {"WATCH", key}) == "+OK");
    ask(c, {"MULTI"});
    ask(c, {"SET", key, "2"});
    CHECK(ask(c, {"EXEC"}) == "[+OK]");
    CHECK(ask(c, {"GET", key}) == "\"2\"");
  }
}

TEST_CASE("I9: what is queued in MULTI counts as requests not yet whole, until EXEC or DISCARD") {
  DataPlaneOptions options = ShimFixture::test_options();
  options.input_bytes_max = 6UL << 20;  // two queued and one on its way
  Rig rig(options);
  const std::string half(2UL << 20, 'x');
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto queue = [&](size_t i) {
    ask(*clients[i], {"MULTI"});
    return ask(*clients[i], {"SET", key_in(700), half.substr(0, half.size() - 1000)});
  };
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(rig.shim.plane->port()));
  }
  CHECK(queue(0) == "+QUEUED");
  CHECK(queue(1) == "+QUEUED");
  CHECK(queue(2).starts_with("-ERR no room"));
  CHECK(ask(*clients[2], {"EXEC"}).starts_with("-EXECABORT"));
  CHECK(ask(*clients[0], {"DISCARD"}) == "+OK");
  CHECK(queue(2) == "+QUEUED");
  CHECK(ask(*clients[1], {"EXEC"}) == "[+OK]");
  CHECK(queue(0) == "+QUEUED");
  CHECK(ask(*clients[0], {"EXEC"}) == "[+OK]");
  clients[2].reset();  // its client leaves
  clients[2] = std::make_unique<TestClient>(rig.shim.plane->port());
  CHECK(eventually([&] { return rig.shim.plane->stats().clients == 3; }));
  CHECK(queue(2) == "+QUEUED");
  CHECK(queue(1) == "+QUEUED");
}

TEST_CASE("a client that leaves in MULTI, WATCH or a held EXEC leaves nothing behind") {
  Rig rig;
  const std::string key = key_in(700);
  for (int round = 0; round < 20; ++round) {
    TestClient c = rig.shim.client();
    ask(c, {"WATCH", key});
    ask(c, {"MULTI"});
    ask(c, {"SET", key, "left"});
    if (round % 2 == 1) {
      rig.shim.publish(SlotSet::range(700, 700), SlotPhase::kHold);
      c.send({"EXEC"});
      CHECK(eventually([&] { return rig.shim.plane->stats().held_now == 1; }));
    }
  }
  CHECK(eventually([&] { return rig.shim.plane->stats().clients == 0; }));
  rig.shim.publish(SlotSet::range(700, 700), SlotPhase::kOld);
  CHECK(eventually([&] { return rig.shim.plane->stats().inflight == 0; }));
  CHECK(rig.shim.plane->stats().held_now == 0);
  CHECK(rig.shim.ask({"GET", key}) == "nil");
}

TEST_CASE("servers without MULTI get none: the shim refuses commands with keys in it") {
  DataPlaneOptions options = ShimFixture::test_options();
  options.transactions = false;
  ShimFixture shim(options);
  TestClient c = shim.client();
  CHECK(ask(c, {"MULTI"}) == "+OK");
  CHECK(c.call({"SET", "k", "v"}).is_error());
  CHECK(ask(c, {"EXEC"}).starts_with("-EXECABORT"));
  CHECK(ask(c, {"WATCH", "k"}).starts_with("-ERR 'watch' is refused"));
  CHECK(ask(c, {"GET", "k"}) == "nil");
  CHECK(shim.old_server.requests().size() == 1);
}
