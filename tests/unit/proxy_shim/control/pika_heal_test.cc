// Comparing and healing between two fake Pikas (DESIGN 6.4, I2b).
#include "proxy_shim/control/pika_keys.h"
#include "tests/unit/proxy_shim/control/pika_rig.h"

namespace sf {
namespace {

std::vector<HealKey> all_keys(PikaRig& rig, PairSide only) {
  std::vector<HealKey> out;
  PassCursor cursor;
  while (!cursor.done) {
    const PairSide side = cursor.side;
    const auto page = rig.driver->next_keys(&cursor, kMs);
    REQUIRE_MESSAGE(page.is_ok(), page.status().text());
    if (side == only) out.insert(out.end(), page->begin(), page->end());
  }
  std::sort(out.begin(), out.end());
  return out;
}

int64_t ttl_of(FakePika& pika, const std::string& key) {
  return parse_int64(trim(std::string_view(pika.call({"TTL", key})).substr(1))).value_or(-9);
}

// One key of each kind of difference; the new side is written to directly, as a fault would.
struct Different {
  explicit Different(PikaRig& rig) {
    // Written to the new side while it follows nobody, to the old one after.
    tag = cat("{", tag_of_slot(905, kSlotCount), "}");
    const auto both = [&](Words argv) {
      argv[1] = tag + argv[1];
      rig.from.call(argv);
      rig.to.call(argv);
    };
    const auto old_only = [&](Words argv) {
      argv[1] = tag + argv[1];
      rig.from.call(argv);
    };
    const auto new_only = [&](Words argv) {
      argv[1] = tag + argv[1];
      rig.to.call(argv);
    };
    both({"SET", "same", "1"});
    both({"SET", "text", "1"});
    new_only({"SET", "text", "2"});
    both({"SET", "lost ttl", "1"});
    old_only({"EXPIRE", "lost ttl", "1000"});
    both({"RPUSH", "list", "a", "b"});
    new_only({"RPUSH", "list", "c"});
    new_only({"SET", "deleted", "1"});
    old_only({"HMSET", "hash", "f", "1", "g", "2"});
    old_only({"EXPIRE", "hash", "1000"});
    both({"SADD", "set", "x"});
    old_only({"SADD", "set", "y"});
    both({"ZADD", "zset", "1.5", "m"});
    old_only({"ZADD", "zset", "-inf", "n"});
    old_only({"XADD", "stream", "1-1", "f", "v"});
    old_only({"XADD", "stream", "1-2", "f", "w"});
    both({"SET", "two", "1"});
    old_only({"SADD", "two", "a set of the same name"});
    both({"SET", "kept ttl", "1"});
    new_only({"EXPIRE", "kept ttl", "1000"});
    for (const char* name : {"same", "text", "lost ttl", "list", "deleted", "hash", "set", "zset",
                             "stream", "two", "kept ttl", "nowhere"}) {
      keys.push_back({0, tag + name});
    }
  }
  std::string tag;
  std::vector<HealKey> keys;
};

TEST_CASE("I2b pika: every type, order and TTL is compared, and the pages name every key") {
  for (const char* version : {"3.5.5", "4.0.1"}) {
    PikaOptions options;
    options.version = version;
    PikaRig rig(options);
    rig.make();
    Different d(rig);
    const auto seen = rig.driver->compare(rig.slots, d.keys, false, kMs);
    REQUIRE_MESSAGE(seen.is_ok(), seen.status().text());
    CHECK(seen->compared == 12);
    CHECK(seen->different.size() == 10);
    const std::string found = cat(seen->found[0], seen->found[1]);
    CHECK(found.find("text': its string was another") != std::string::npos);
    CHECK(found.find("its TTL ended at none, not ") != std::string::npos);
    rig.from.call({"SET", "another slot's", "1"});
    CHECK(all_keys(rig, PairSide::kOld).size() == 10);  // a name of two types is named twice
    CHECK(all_keys(rig, PairSide::kNew).size() == 9);
  }
}

TEST_CASE("I2b pika: what differs is copied in the pause: type, value, order, absolute TTL") {
  PikaRig rig;
  rig.from.call({"SET", rig.key, "v"});
  rig.start();
  const ReplPosition end = rig.switch_over();
  // Now the new side is writable and nothing else moves: differences without a binlog on the old.
  const std::string tag = cat("{", tag_of_slot(905, kSlotCount), "}");
  const ReplPosition moved = *rig.driver->fence_permanent(rig.attempt, kMs);
  CHECK(moved == end);
  rig.to.call({"SET", tag + "extra", "1"});
  rig.to.call({"SET", rig.key, "wrong"});
  std::vector<HealKey> keys{{0, tag + "extra"}, {0, rig.key}, {0, tag + "nowhere"}};
  const auto healed = rig.driver->heal(rig.attempt, keys, kMs);
  REQUIRE_MESSAGE(healed.is_ok(), healed.status().text());
  CHECK(healed->different.size() == 2);
  CHECK(healed->old_end == end);
  CHECK(rig.to.call({"GET", rig.key}) == "$1\r\nv\r\n");
  CHECK(rig.to.call({"EXISTS", tag + "extra"}) == ":0\r\n");
  CHECK(rig.driver->heal(rig.attempt, keys, kMs)->different.empty());
  // Committed: nothing is in the way of later.
  CHECK(rig.notes.note("pika.healing.901-910"));
  CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
  CHECK(!rig.notes.note("pika.healing.901-910"));
}

TEST_CASE("I2b pika: the repair of each kind of difference makes both sides the same") {
  PikaRig rig;
  rig.make();
  Different d(rig);
  RespClient old_side(rig.plan.old_side.master, "", "test");
  RespClient new_side(rig.plan.new_side.master, "", "test");
  const auto was = read_keys(old_side, d.keys, {.streams = true}, kMs);
  const auto is = read_keys(new_side, d.keys, {.streams = true}, kMs);
  REQUIRE(was.is_ok());
  REQUIRE(is.is_ok());
  for (size_t i = 0; i < d.keys.size(); ++i) {
    for (const auto& request : repair(d.keys[i].key, (*is)[i], (*was)[i])) {
      CHECK_MESSAGE(new_side.ask(request, kMs).is_ok(), request[0]);
    }
  }
  const auto now = read_keys(new_side, d.keys, {.streams = true}, kMs);
  for (size_t i = 0; i < d.keys.size(); ++i) {
    CHECK_MESSAGE(same((*was)[i], (*now)[i]), d.keys[i].key);
  }
  CHECK(ttl_of(rig.to, d.tag + "lost ttl") > 990);
  CHECK(ttl_of(rig.to, d.tag + "hash") > 990);
  CHECK(ttl_of(rig.to, d.tag + "kept ttl") == -1);
  CHECK(now->at(8).stream.size() == 2);
}

TEST_CASE(
    "I3 pika: a heal that was taken back wants a new copy, and forgets that when it sees one") {
  PikaRig rig;
  rig.from.call({"SET", rig.key, "v"});
  rig.start();
  const ReplPosition end = rig.switch_over();
  rig.to.call({"SET", rig.key, "wrong"});
  REQUIRE(rig.driver->heal(rig.attempt, {{0, rig.key}}, kMs).is_ok());
  CHECK(rig.driver->follow_again(rig.attempt, end, kMs).text().find("must be copied anew") !=
        std::string::npos);
  // By hand, without force: Pika takes it, as its offsets look well after a few writes.
  for (int i = 0; i < 3; ++i) rig.from.call({"SET", rig.key, "wrong"});
  rig.to.call({"SLAVEOF", "127.0.0.1", std::to_string(rig.from.port())});
  CHECK(rig.driver->sync_state(rig.slots, kMs).text.find("healing that was taken back") !=
        std::string::npos);
  rig.from.call({"FAKE", "SET", "copy_ms", "300"});
  rig.to.call({"SLAVEOF", "NO", "ONE"});
  rig.to.call({"SLAVEOF", "127.0.0.1", std::to_string(rig.from.port()), "force"});
  CHECK(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
}

TEST_CASE("I2b pika 4.0: TTLs in milliseconds are compared in whole seconds, and never shortened") {
  PikaOptions options;
  options.version = "4.0.1";
  PikaRig rig(options);
  rig.from.call({"SET", rig.key, "v"});
  rig.start();
  rig.from.call({"SET", rig.key + "ttl", "v"});
  rig.from.call({"EXPIRE", rig.key + "ttl", "1000"});
  rig.to.call({"FAKE", "SET", "ttl_short", "1"});
  (void)rig.switch_over();
  const std::vector<HealKey> keys{{0, rig.key + "ttl"}, {0, rig.key}};
  CHECK(rig.driver->compare(rig.slots, keys, false, kMs)->different.empty());
  // A heal is read back: what it wrote reads one second less, too.
  rig.to.call({"DEL", rig.key + "ttl"});
  const auto healed = rig.driver->heal(rig.attempt, keys, kMs);
  REQUIRE_MESSAGE(healed.is_ok(), healed.status().text());
  CHECK(healed->different.size() == 1);
  CHECK(ttl_of(rig.to, rig.key + "ttl") >= ttl_of(rig.from, rig.key + "ttl"));
}

TEST_CASE(
    "R: a replica that cannot apply a record is named, though its link comes up again and again") {
  PikaOptions options;
  options.version = "4.0.1";
  PikaRig rig(options);
  rig.from.call({"SET", rig.key, "v"});
  rig.start();
  rig.from.call({"FAKE", "SET", "timed_lost", "1"});
  rig.from.call({"PSETEX", rig.key, "900000", "v"});
  rig.from.call({"SET", rig.key + "2", "v"});
  CHECK(eventually([&] {
    const SyncState state = rig.driver->sync_state(rig.slots, kMs);
    return !state.following && state.text.find("PSETEX") != std::string::npos;
  }));
  CHECK(has(rig.from, {"INFO", "replication"}, "lag=(db0:0)"));
  // A new copy is past that record.
  rig.to.call({"SLAVEOF", "NO", "ONE"});
  rig.to.call({"SLAVEOF", "127.0.0.1", std::to_string(rig.from.port()), "force"});
  CHECK(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
  CHECK(rig.to.call({"GET", rig.key + "2"}) == "$1\r\nv\r\n");
}

TEST_CASE("R: an endless copy and a wedged server are named") {
  PikaRig rig;
  rig.from.call({"SET", rig.key, "v"});
  rig.start();
  rig.from.call({"FAKE", "SET", "endless_copy", "1"});
  rig.from.call({"FAKE", "SET", "copy_ms", "20"});
  rig.from.call({"PURGELOGSTO", "write2file0"});
  CHECK(eventually([&] {
    rig.from.call({"SET", rig.key, "v"});
    const std::string text = rig.driver->sync_state(rig.slots, kMs).text;
    return text.find("an endless copy") != std::string::npos;
  }));
  rig.to.call({"FAKE", "SET", "wedge", "1"});
  rig.to.call({"SLAVEOF", "NO", "ONE"});
  CHECK(eventually([&] {
    const std::string text = rig.driver->sync_state(rig.slots, 50).text;
    return text.find("wedged for ever") != std::string::npos;
  }));
}

}  // namespace
}  // namespace sf
