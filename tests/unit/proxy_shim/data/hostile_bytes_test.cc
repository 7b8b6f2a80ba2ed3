// Bytes that no honest peer sends, by seeds: nobody else may notice.
#include <doctest/doctest.h>

#include <mutex>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

std::string some_request(Random& random) {
  const char* names[] = {
      "GET",    "SET",  "MGET", "MSET",      "EVAL", "XREAD", "SLOTSMGRT-EXEC-WRAPPER",
      "nosuch", "PING", "INFO", "SLOTSINFO", "AUTH", "HELLO", "SLOTSMGRTTAGONE",
      "MULTI",  "EXEC", "DEL",  "CONFIG",    "SORT", "SELECT"};
  std::string out;
  const size_t argc = 1 + random.below(6);
  resp::array(out, argc);
  resp::bulk(out, names[random.below(std::size(names))]);
  for (size_t i = 1; i < argc; ++i) {
    switch (random.below(4)) {
      case 0:
        resp::bulk(out, std::to_string(static_cast<int64_t>(random.next())));
        break;
      case 1:
        resp::bulk(out, "");
        break;
      case 2:
        resp::bulk(out, std::string(random.below(40), static_cast<char>(random.below(256))));
        break;
      default:
        resp::bulk(out, cat("k", random.below(2000)));
    }
  }
  return out;
}

void spoil(Random& random, std::string& bytes) {
  const uint64_t changes = random.below(4);
  for (uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random.below(bytes.size());
    switch (random.below(3)) {
      case 0:
        bytes[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        bytes.erase(at, 1 + random.below(3));
        break;
      default:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     static_cast<char>(random.below(256)));
    }
  }
}

}  // namespace

TEST_CASE("hostile clients: spoiled requests in every phase, and the next client is served") {
  ShimFixture shim;
  shim.set(SlotSet::range(0, 200), SlotPhase::kNew);
  shim.set(SlotSet::range(201, 300), SlotPhase::kFinal);
  shim.set(SlotSet::range(301, 350), SlotPhase::kDoubt);
  shim.set(SlotSet::range(351, 400), SlotPhase::kOutside);
  shim.set(SlotSet::range(401, 500), SlotPhase::kHold);
  shim.set(SlotSet::range(501, 600), SlotPhase::kPromote);
  shim.publish();
  const std::string key = key_in(700);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    {
      TestClient c = shim.client();
      std::string bytes;
      for (uint64_t i = 0; i < 1 + random.below(20); ++i) bytes += some_request(random);
      spoil(random, bytes);
      while (!bytes.empty()) {
        const size_t piece = 1 + random.below(bytes.size());
        c.send_raw(bytes.substr(0, piece));
        bytes.erase(0, piece);
      }
    }
    if (seed % 10 == 0) CHECK(shim.ask({"SET", key, "v"}) == "+OK");
    if (seed % 50 == 0) shim.publish(SlotSet::range(401, 600), SlotPhase::kOld);
    if (seed % 50 == 25) shim.publish(SlotSet::range(401, 600), SlotPhase::kHold);
  }
  shim.publish(SlotSet::range(401, 600), SlotPhase::kOld);
  CHECK(eventually([&] { return shim.plane->stats().clients == 0; }));
  CHECK(eventually([&] { return shim.plane->stats().inflight == 0; }));
  CHECK(shim.plane->stats().held_now == 0);
  CHECK(shim.plane->drain(SlotSet::all(), InFlight::kWrites, 5'000).is_ok());
}

TEST_CASE(
    "hostile servers: spoiled replies end in errors, closed clients or the reply, never in "
    "silence") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    ShimFixture shim;
    shim.publish(SlotSet::range(0, 500), SlotPhase::kNew);
    for (FakeServer* server : {&shim.old_server, &shim.new_server}) {
      server->set_rule([&random](const Words& request) {
        if (request[0] == "GET") return FakeAction{};
        static std::mutex mutex;
        const std::lock_guard lock(mutex);
        std::string reply;
        resp::array(reply, 2);
        resp::bulk(reply, std::string(random.below(50'000), 'x'));
        resp::integer(reply, 5);
        spoil(random, reply);
        // The end makes an unfinished reply a broken one instead of a late one.
        const bool is_whole = random.chance(0.5);
        return FakeAction{is_whole ? FakeAction::Kind::kReply : FakeAction::Kind::kBreak,
                          reply + "!"};
      });
    }
    for (int i = 0; i < 20; ++i) {
      TestClient c = shim.client();
      c.send({"DEL", cat("a", i), cat("b", i), cat("c", i)});
      c.send({"MGET", cat("a", i), cat("b", i)});
      c.send({"SET", cat("a", i), "v"});
      for (int n = 0; n < 3 && c.try_read(); ++n) {
      }
    }
    CHECK(shim.plane->drain(SlotSet::all(), InFlight::kWrites, 10'000).is_ok());
    CHECK(eventually([&] { return shim.plane->stats().inflight == 0; }));
  }
}
