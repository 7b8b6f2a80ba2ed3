#include "migrator/verifier.h"

#include <doctest/doctest.h>

#include <map>

#include "tests/unit/migrator/fake_data.h"

namespace sf {
namespace {

FakeValue collection(const std::string& type, int count) {
  FakeValue value;
  value.type = type;
  for (int i = 0; i < count; ++i) {
    if (type == "list") value.list.push_back(cat("e", i));
    if (type != "list") value.pairs[cat("m", i)] = type == "set" ? "" : std::to_string(i);
  }
  return value;
}

struct World {
  FakeData leader;
  FakeData follower;
  SystemClock clock;
  StopFlag stop;
  VerifyOptions options;

  World() {
    options.slots = SlotSet::all();
    options.recheck_rounds = 3;
  }
  void both(const std::string& key, const FakeValue& value) {
    leader.put(key, value);
    follower.put(key, value);
  }
  Result<VerifyResult> run() {
    const auto left = leader.peer("old master");
    const auto right = follower.peer("new master");
    Verifier verifier(*left, *right, options, clock, stop, [](int64_t) {});
    return verifier.run();
  }
  // Kind of each difference, by key.
  std::map<std::string, std::string> kinds() {
    const auto result = run();
    REQUIRE_MESSAGE(result.is_ok(), result.status().text());
    CHECK(result->differing == static_cast<int64_t>(result->differences.size()));
    std::map<std::string, std::string> found;
    for (const Difference& row : result->differences) found[row.key] = row.kind;
    return found;
  }
};

void plant_equal(World& world, int each) {
  for (int i = 0; i < each; ++i) {
    FakeValue text;
    text.text = cat("value ", i);
    if (i % 3 == 0) text.expire_ms = 4'000'000'000'000 + i;
    world.both(cat("s", i), text);
    for (const char* type : {"list", "hash", "set", "zset"})
      world.both(cat(type, i), collection(type, 1 + i % 20));
  }
}

}  // namespace

TEST_CASE("verify: equal sides are equal, whole server and slot by slot") {
  World world;
  plant_equal(world, 300);
  for (const bool by_slot : {false, true}) {
    world.options.by_slot = by_slot;
    const auto result = world.run();
    REQUIRE(result.is_ok());
    CHECK(result->ok());
    CHECK(result->keys == 1500);
    CHECK(result->rechecked == 0);
    CHECK(result->bytes > 1500 * 5);
  }
}

TEST_CASE("verify: M26 every planted difference is found, both ways") {
  World world;
  plant_equal(world, 50);
  FakeValue field = collection("hash", 10);
  world.leader.put("h-field", field);
  field.pairs["m3"] = "other";
  world.follower.put("h-field", field);
  world.leader.put("missing", "x");
  world.follower.put("extra", "x");
  FakeValue ttl;
  ttl.text = "x";
  ttl.expire_ms = 4'000'000'000'000;
  world.leader.put("ttl", ttl);
  ttl.expire_ms += 1;
  world.follower.put("ttl", ttl);
  world.leader.put("ttl-lost", ttl);
  world.follower.put("ttl-lost", "x");
  FakeValue order = collection("list", 10);
  world.leader.put("order", order);
  std::swap(order.list[2], order.list[3]);
  world.follower.put("order", order);
  world.leader.put("type", "x");
  world.follower.put("type", collection("set", 1));
  world.leader.put("value", "same length a");
  world.follower.put("value", "same length b");
  FakeValue score = collection("zset", 5);
  world.leader.put("score", score);
  score.pairs["m1"] = "1.5";
  world.follower.put("score", score);
  const std::map<std::string, std::string> expected = {
      {"h-field", "value"}, {"missing", "missing"}, {"extra", "extra"},
      {"ttl", "ttl"},       {"ttl-lost", "ttl"},    {"order", "order"},
      {"type", "type"},     {"value", "value"},     {"score", "value"}};
  for (const bool by_slot : {false, true}) {
    world.options.by_slot = by_slot;
    CHECK(world.kinds() == expected);
  }
}

TEST_CASE("verify: M26 M27 big keys are streamed, a difference deep inside is found") {
  World world;
  for (const char* type : {"list", "hash", "set", "zset"}) {
    FakeValue big = collection(type, 5000);
    world.both(cat("equal-", type), big);
    world.leader.put(cat("big-", type), big);
    if (big.type == "list") {
      big.list[4321] = "other";
    } else if (big.type == "set") {
      big.pairs.erase("m4321");
      big.pairs["other"] = "";
    } else {
      big.pairs["m4321"] = "other";
    }
    world.follower.put(cat("big-", type), big);
  }
  FakeValue text;
  text.text = std::string(5 << 20, 'x');
  world.both("equal-string", text);
  world.leader.put("big-string", text);
  text.text[(4 << 20) + 17] = 'y';
  world.follower.put("big-string", text);
  const std::map<std::string, std::string> expected = {{"big-list", "value"},
                                                       {"big-hash", "value"},
                                                       {"big-set", "value"},
                                                       {"big-zset", "value"},
                                                       {"big-string", "value"}};
  CHECK(world.kinds() == expected);
  CHECK(world.leader.largest_reply() <= 2048);
}

TEST_CASE("verify: a follower that lags is waited for, and a key that keeps changing is settled") {
  World world;
  world.options.recheck_rounds = 30;
  world.options.recheck_wait_max_ms = 5;
  world.leader.put("late", "new");
  world.follower.put("late", "old");
  world.leader.put("counter", "0");
  world.follower.put("counter", "-1");
  int reads = 0;
  int late_reads = 0;
  world.leader.set_hook([&](const Words& words) {
    if (words[0] != "STRLEN") return;
    if (words[1] == "late" && ++late_reads == 4) world.follower.put("late", "new");
    if (words[1] != "counter") return;
    ++reads;
    world.follower.put("counter", std::to_string(reads - 1));  // always one behind
    world.leader.put("counter", std::to_string(reads));
  });
  const auto result = world.run();
  REQUIRE(result.is_ok());
  CHECK(result->ok());
  CHECK(result->rechecked == 2);
}

TEST_CASE(
    "verify: only the slots asked for, and no key of our own or of Pika's bookkeeping (O05)") {
  World world;
  world.options.slots = SlotSet::of(slot_of("mine"));
  world.leader.put("mine", "x");
  world.leader.put("{mine}__slotferry:p:nonce:1", "x");
  world.leader.put("_internal:slotkey:4migrate:579", "x");
  world.leader.put("other", "x");
  REQUIRE(slot_of("other") != slot_of("mine"));
  CHECK(world.kinds() == std::map<std::string, std::string>{{"mine", "missing"}});
}

TEST_CASE("verify: two sides that have nothing in common are told so early") {
  World world;
  world.options.recheck_rounds = 1;
  for (int i = 0; i < 10'100; ++i) world.leader.put(cat("k", i), "x");
  const auto result = world.run();
  REQUIRE_FALSE(result.is_ok());
  CHECK(result.status().text().find("this is no copy") != std::string::npos);
}

TEST_CASE("verify: a side that goes away is an error, not a result") {
  const auto leader = std::make_unique<FakeData>();
  auto follower = std::make_unique<FakeData>();
  const auto left = leader->peer("old master");
  const auto right = follower->peer("new master");
  leader->put("k", "x");
  follower.reset();
  const SystemClock clock;
  const StopFlag stop;
  VerifyOptions options;
  options.slots = SlotSet::all();
  Verifier verifier(*left, *right, options, clock, stop, [](int64_t) {});
  const auto result = verifier.run();
  REQUIRE_FALSE(result.is_ok());
  CHECK(result.status().code() == Code::kUnavailable);
  CHECK(result.status().text().find("new master 127.0.0.1:") == 0);
}

}  // namespace sf
