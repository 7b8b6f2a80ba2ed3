// The Pika drivers against the fake Pika, which does what real ones were recorded to do.
#include "proxy_shim/control/pika_driver.h"

#include <doctest/doctest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/proxy_shim/control/pika_rig.h"

namespace sf {
namespace {

PikaOptions sharding() {
  PikaOptions options;
  options.version = "3.4.0";
  options.sharding = true;
  options.slots = "801-1023";
  return options;
}

TEST_CASE("I2 pika classic: the walk; persisted, read back, marked, tidied") {
  for (const char* version : {"3.5.5", "4.0.1"}) {
    INFO(version);
    PikaOptions options;
    options.version = version;
    PikaRig rig(options);
    rig.from.call({"SET", rig.key, "v"});
    rig.start();
    CHECK(std::string(rig.driver->kind()) == "pika");
    const ReplPosition end = rig.switch_over();
    const Result<Ends> ends = rig.driver->read_ends(rig.attempt, end, kMs);
    REQUIRE_MESSAGE(ends.is_ok(), ends.status().text());
    CHECK(ends->old_end == end);
    CHECK(ends->new_end == end);
    CHECK(*rig.driver->marker(kMs) == 0);
    CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
    CHECK(*rig.driver->marker(kMs) == 7);
    CHECK(rig.driver->markers(rig.slots, kMs)->at(905) == 7);
    CHECK(rig.driver->release(rig.attempt, kMs).is_ok());
    CHECK_FALSE(has(rig.to, {"KEYS", "*__slotferry:p1:*"}, "p1"));
    CHECK(has(rig.to, {"CONFIG", "GET", "slaveof"}, "$0\r\n\r\n"));
    CHECK(rig.to.call({"GET", rig.key}) == "$1\r\nv\r\n");
    // A restart does not make it a slave again.
    const std::string before = rig.to.call({"INFO", "server"});
    rig.to.call({"FAKE", "CRASH"});
    REQUIRE(eventually([&] { return rig.to.call({"INFO", "server"}) != before; }));
    CHECK(has(rig.to, {"INFO", "replication"}, "role:master"));
  }
}

TEST_CASE("I2 pika: equal offsets would lose a client's write, the fence keys do not") {
  // As operators do: wait for equal offsets and lag 0, then SLAVEOF NO ONE.
  {
    PikaRig rig;
    rig.start();
    rig.to.call({"FAKE", "SET", "apply_delay_ms", "100"});
    rig.from.call({"SET", rig.key, "old"});
    REQUIRE(eventually([&] { return offset_of(rig.from) == offset_of(rig.to); }));
    const SyncState sync = rig.driver->sync_state(rig.slots, kMs);
    CHECK(sync.following);
    CHECK(sync.lag == 0);
    rig.to.call({"SLAVEOF", "NO", "ONE"});
    CHECK(rig.to.call({"SET", rig.key, "new"}) == "+OK\r\n");
    REQUIRE(eventually([&] { return rig.to.call({"FAKE", "QUEUED"}) == ":0\r\n"; }));
    CHECK(rig.to.call({"GET", rig.key}) == "$3\r\nold\r\n");  // the client's write is gone
  }
  PikaRig rig;
  rig.start();
  rig.to.call({"FAKE", "SET", "apply_delay_ms", "100"});
  rig.from.call({"SET", rig.key, "old"});
  const Result<ReplPosition> end = rig.fence();
  REQUIRE(end.is_ok());
  REQUIRE(eventually([&] { return offset_of(rig.from) == offset_of(rig.to); }));
  CHECK_FALSE(*rig.driver->wait_applied(rig.attempt, *end, 20));
  CHECK(*rig.driver->wait_applied(rig.attempt, *end, kMs));
  CHECK(rig.to.call({"GET", rig.key}) == "$3\r\nold\r\n");
  CHECK(rig.to.call({"FAKE", "QUEUED"}) == ":0\r\n");
  REQUIRE(rig.driver->promote(rig.attempt, *end, kMs).is_ok());
  CHECK(rig.to.call({"SET", rig.key, "new"}) == "+OK\r\n");
  CHECK(rig.to.call({"GET", rig.key}) == "$3\r\nnew\r\n");
}

TEST_CASE("I2 pika: a write of a gone connection is found wherever it falls") {
  SUBCASE("between P and E") {
    PikaRig rig;
    rig.start();
    REQUIRE(rig.driver->announce(rig.attempt, kMs).is_ok());
    rig.from.call({"FAKE", "ON", "SET", "5", "SET", rig.key, "late"});
    const Result<ReplPosition> end = rig.driver->fence(rig.attempt, 500, kMs);
    REQUIRE_FALSE(end.is_ok());
    CHECK(end.status().text().find("somebody else writes") != std::string::npos);
  }
  SUBCASE("between E and the promote") {
    PikaRig rig;
    rig.start();
    const Result<ReplPosition> end = rig.fence();
    REQUIRE(end.is_ok());
    rig.from.call({"SET", rig.key, "late"});
    CHECK_FALSE(rig.driver->fence_permanent(rig.attempt, kMs).is_ok());
    REQUIRE(eventually([&] { return offset_of(rig.from) == offset_of(rig.to); }));
    CHECK_FALSE(rig.driver->promote(rig.attempt, *end, kMs).is_ok());
    CHECK(has(rig.to, {"INFO", "replication"}, "role:slave"));
  }
  SUBCASE("after the promote") {
    PikaRig rig;
    rig.start();
    const ReplPosition end = rig.switch_over();
    rig.from.call({"SET", rig.key, "late"});
    const Result<Ends> ends = rig.driver->read_ends(rig.attempt, end, kMs);
    REQUIRE_FALSE(ends.is_ok());
    CHECK(ends.status().text().find("old side's end") != std::string::npos);
    // Taken back: incremental, and the late write arrives.
    CHECK(rig.driver->follow_again(rig.attempt, end, kMs).is_ok());
    CHECK(eventually([&] { return rig.to.call({"GET", rig.key}) == "$4\r\nlate\r\n"; }));
    CHECK(rig.driver->release(rig.attempt, kMs).is_ok());
    CHECK(eventually([&] { return !has(rig.to, {"KEYS", "*__slotferry*"}, "p1"); }));
    CHECK(rig.notes.values.count("pika.fence.901-910") == 0);
  }
}

TEST_CASE("I3 pika: taking back refuses a new side that was written to, or carries the marker") {
  PikaRig rig;
  rig.start();
  const ReplPosition end = rig.switch_over();
  SUBCASE("written to") {
    rig.to.call({"SET", rig.key, "operator"});
    const Status status = rig.driver->follow_again(rig.attempt, end, kMs);
    CHECK(status.code() == Code::kRefused);
    CHECK(status.text().find("copied anew") != std::string::npos);
  }
  SUBCASE("marked") {
    REQUIRE(rig.driver->mark(rig.attempt, kMs).is_ok());
    CHECK(rig.driver->follow_again(rig.attempt, end, kMs).code() == Code::kRefused);
  }
  SUBCASE("after a crash of the shim the end is in the notes") {
    rig.make();
    CHECK(rig.driver->follow_again({SlotSet::of(903), 9}, {}, kMs).is_ok());
    CHECK(rig.driver->follow_again({SlotSet::of(904), 9}, {}, kMs).is_ok());
    CHECK(has(rig.to, {"CONFIG", "GET", "slaveof"}, std::to_string(rig.from.port())));
    REQUIRE(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
    // The next attempt removes what the ended one left.
    CHECK(has(rig.from, {"KEYS", "*__slotferry*"}, "p1"));
    REQUIRE(rig.driver->announce(rig.attempt, kMs).is_ok());
    CHECK_FALSE(has(rig.from, {"KEYS", "*__slotferry*"}, "p1"));
  }
}

TEST_CASE("I9 pika: a pause that would be missed is not begun") {
  PikaRig rig;
  rig.plan.max_pause_ms = 60;
  rig.start();
  rig.to.call({"FAKE", "SET", "apply_delay_ms", "50"});  // the slowest workers: 150 ms
  const Status status = rig.driver->announce(rig.attempt, kMs);
  CHECK(status.code() == Code::kRefused);
  CHECK(status.text().find("too long") != std::string::npos);
  CHECK(rig.driver->sync_state(rig.slots, kMs).following);  // offsets and lag show nothing of it
  rig.to.call({"FAKE", "SET", "apply_delay_ms", "0"});
  REQUIRE(eventually([&] { return rig.to.call({"FAKE", "QUEUED"}) == ":0\r\n"; }));
  CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
  CHECK(eventually([&] { return !has(rig.to, {"KEYS", "*__slotferry*"}, "trial"); }));
}

TEST_CASE("I3 pika: a NO ONE executed late does not overtake the taking back") {
  PikaRig rig;
  rig.start();
  const Result<ReplPosition> end = rig.fence();
  REQUIRE(end.is_ok());
  REQUIRE(*rig.driver->wait_applied(rig.attempt, *end, kMs));
  rig.to.call({"FAKE", "SILENT", "SLAVEOF"});
  CHECK(rig.driver->promote(rig.attempt, *end, 50).status().code() == Code::kTimeout);
  CHECK(rig.driver->follow_again(rig.attempt, *end, 20).code() == Code::kTimeout);
  rig.to.call({"FAKE", "SILENT", "no"});  // now it is executed
  CHECK(has(rig.to, {"INFO", "replication"}, "role:master"));
  const Status back = rig.driver->follow_again(rig.attempt, *end, kMs);
  CHECK_MESSAGE(back.is_ok(), back.text());
  CHECK(has(rig.to, {"INFO", "replication"}, "role:slave"));
  CHECK(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
}

TEST_CASE("I2 pika: a server that restarted is not trusted until a copy was seen") {
  PikaRig rig;
  rig.start();
  SUBCASE("before an attempt") {
    rig.to.call({"FAKE", "SET", "apply_delay_ms", "60000"});
    rig.from.call({"SET", rig.key, "v"});
    REQUIRE(eventually([&] { return offset_of(rig.from) == offset_of(rig.to); }));
    const std::string before = rig.to.call({"INFO", "server"});
    rig.to.call({"FAKE", "CRASH"});
    REQUIRE(eventually([&] { return rig.to.call({"INFO", "server"}) != before; }));
    rig.to.call({"FAKE", "SET", "apply_delay_ms", "0"});
    REQUIRE(eventually([&] { return has(rig.to, {"INFO"}, "status:up"); }));
    CHECK(rig.to.call({"GET", rig.key}) == "$-1\r\n");  // lost for ever, and all looks well
    CHECK(eventually([&] {  // the first question finds its connection closed
      const SyncState sync = rig.driver->sync_state(rig.slots, kMs);
      return !sync.following && sync.text.find("restarted") != std::string::npos;
    }));
    CHECK_FALSE(rig.driver->announce(rig.attempt, kMs).is_ok());
    rig.from.call({"FAKE", "SET", "copy_ms", "200"});
    rig.to.call({"SLAVEOF", "NO", "ONE"});
    rig.to.call({"SLAVEOF", "127.0.0.1", std::to_string(rig.from.port()), "force"});
    CHECK(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
    CHECK(rig.to.call({"GET", rig.key}) == "$1\r\nv\r\n");
  }
  SUBCASE("during an attempt") {
    const Result<ReplPosition> end = rig.fence();
    REQUIRE(end.is_ok());
    rig.to.call({"FAKE", "CRASH"});
    CHECK(eventually([&] {
      const Result<bool> applied = rig.driver->wait_applied(rig.attempt, *end, 10);
      return !applied && applied.status().text().find("restarted") != std::string::npos;
    }));
  }
}

TEST_CASE("I2 pika: what restarted is copied anew before an attempt, by itself, where it is safe") {
  PikaRig rig;
  rig.start();
  const auto epoch = [&] {
    const Result<uint64_t> said = rig.driver->marker(kMs);
    return said ? *said : 0;
  };
  SUBCASE("a replica that lost what it had queued") {}
  SUBCASE("with an owner marker it is left alone") {
    const std::string owner = cat("{", tag_of_slot(rig.plan.slots.first(), kSlotCount),
                                  "}__slotferry:owner:", rig.plan.id);
    rig.from.call({"SET", owner, R"({"epoch":6})"});
    REQUIRE(eventually([&] { return epoch() == 6; }));
  }
  const bool marked = epoch() != 0;
  rig.to.call({"FAKE", "SET", "apply_delay_ms", "60000"});
  rig.from.call({"SET", rig.key, "v"});
  REQUIRE(eventually([&] { return offset_of(rig.from) == offset_of(rig.to); }));
  const std::string before = rig.to.call({"INFO", "server"});
  rig.to.call({"FAKE", "CRASH"});
  REQUIRE(eventually([&] { return rig.to.call({"INFO", "server"}) != before; }));
  rig.to.call({"FAKE", "SET", "apply_delay_ms", "0"});
  REQUIRE(eventually([&] { return has(rig.to, {"INFO"}, "status:up"); }));
  CHECK(eventually([&] {
    const std::string text = rig.driver->sync_state(rig.slots, kMs).text;
    return text.find("SLAVEOF NO ONE, then SLAVEOF 127.0.0.1") != std::string::npos;
  }));
  const Status ready = rig.driver->make_ready(rig.slots, kMs);
  CHECK_MESSAGE(ready.is_ok(), ready.text());
  CHECK(rig.driver->sync_state(rig.slots, kMs).following == !marked);
  CHECK(rig.to.call({"GET", rig.key}) == (marked ? "$-1\r\n" : "$1\r\nv\r\n"));
  CHECK(rig.driver->announce(rig.attempt, kMs).is_ok() == !marked);
}

TEST_CASE("I2 pika sharding: of what restarted the slot that shall move is copied anew") {
  PikaRig rig(sharding());
  rig.start();
  const SlotSet other = SlotSet::of(902);
  REQUIRE(eventually([&] { return rig.driver->sync_state(other, kMs).following; }));
  const std::string before = rig.from.call({"INFO", "server"});
  rig.from.call({"FAKE", "CRASH"});
  REQUIRE(eventually([&] { return rig.from.call({"INFO", "server"}) != before; }));
  const std::string words = cat("PKCLUSTER SLOTSSLAVEOF 127.0.0.1 ", rig.from.port(), " 902 force");
  REQUIRE(eventually([&] {
    return rig.driver->sync_state(other, kMs).text.find(words) != std::string::npos &&
           has(rig.to, {"PKCLUSTER", "INFO", "SLOT", "901"}, "kConnected");
  }));
  const Status ready = rig.driver->make_ready(rig.slots, kMs);
  CHECK_MESSAGE(ready.is_ok(), ready.text());
  CHECK(rig.driver->sync_state(rig.slots, kMs).following);
  CHECK(rig.driver->sync_state(other, kMs).text.find("restarted") != std::string::npos);
}

TEST_CASE("I2 pika sharding: after a restart each slot is trusted from its own copy on") {
  PikaRig rig(sharding());
  rig.start();
  const SlotSet other = SlotSet::of(902);
  REQUIRE(eventually([&] { return rig.driver->sync_state(other, kMs).following; }));
  const std::string before = rig.from.call({"INFO", "server"});
  rig.from.call({"FAKE", "CRASH"});
  REQUIRE(eventually([&] { return rig.from.call({"INFO", "server"}) != before; }));
  const auto distrusted = [&](const SlotSet& slots) {
    return rig.driver->sync_state(slots, kMs).text.find("restarted") != std::string::npos;
  };
  CHECK(eventually([&] { return distrusted(rig.slots) && distrusted(other); }));
  rig.from.call({"FAKE", "SET", "copy_ms", "200"});
  const std::string port = std::to_string(rig.from.port());
  rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "901"});
  rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", port, "901", "force"});
  CHECK(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
  CHECK(distrusted(other));
  CHECK(rig.driver->sync_state(rig.slots, kMs).following);
}

TEST_CASE("I2 pika sharding: a restart is seen in a container, where every process has one id") {
  PikaOptions container = sharding();
  container.process_id = 1;
  PikaRig rig(container);
  rig.start();
  rig.make();  // another life of the shim knows the servers again
  CHECK(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
  PikaRig successors(container);
  successors.start();
  const auto told = [&] { return rig.driver->sync_state(rig.slots, kMs).text; };
  SUBCASE("of the old master") {
    rig.from.call({"FAKE", "CRASH"});
    CHECK(eventually([&] { return told().find("restarted") != std::string::npos; }));
  }
  SUBCASE("another server in its place") {
    const std::string port = std::to_string(successors.from.port());
    rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "901-910"});
    rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", port, "901-910"});
    rig.plan.old_side.master.port = successors.from.port();
    rig.make();
    CHECK(eventually([&] { return told().find("restarted") != std::string::npos; }));
  }
}

TEST_CASE("I2 pika sharding: many slots that copy once are not one that copies for ever") {
  PikaRig rig(sharding());
  rig.from.call({"FAKE", "SET", "copy_ms", "600000"});
  const std::string port = std::to_string(rig.from.port());
  rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", port, "901-910", "force"});
  rig.make();
  for (int slot = 901; slot <= 910; ++slot) {
    INFO(slot);
    rig.from.call({"SET", cat("{", tag_of_slot(slot, kSlotCount), "}key"), std::string(slot, 'x')});
    std::string text;
    REQUIRE(eventually([&] {
      text = rig.driver->sync_state(SlotSet::of(slot), kMs).text;
      return text.find("is copying") != std::string::npos;
    }));
    CHECK_MESSAGE(text.find("endless") == std::string::npos, text);
  }
}

TEST_CASE("I2 pika: nothing is sent to a server between the steps of a copy") {
  PikaRig rig;
  rig.from.call({"FAKE", "SET", "copy_ms", "100"});
  rig.to.call({"FAKE", "SET", "wedge", "1"});
  rig.follow();
  rig.make();
  REQUIRE(eventually([&] { return has(rig.to, {"INFO"}, "syncing_full"); }));
  CHECK(rig.driver->sync_state(rig.slots, kMs).text.find("is copying") != std::string::npos);
  CHECK_FALSE(rig.driver->announce(rig.attempt, kMs).is_ok());
  CHECK_FALSE(rig.driver->promote(rig.attempt, {}, kMs).is_ok());
  CHECK_FALSE(rig.to.call({"INFO"}).empty());
  // A copy that never ends never becomes "following".
  rig.from.call({"FAKE", "SET", "endless_copy", "1"});
  REQUIRE(eventually([&] { return rig.driver->sync_state(rig.slots, kMs).following; }));
  rig.from.call({"PURGELOGSTO", "write2file0"});
  REQUIRE(eventually([&] { return has(rig.to, {"INFO"}, "syncing_full"); }));
  for (int i = 0; i < 200; ++i) CHECK_FALSE(rig.driver->sync_state(rig.slots, kMs).following);
}

TEST_CASE("I2 pika: several databases, one file to the next") {
  PikaOptions options;
  options.databases = 3;
  options.binlog_file_size = 70'000;
  PikaRig rig(options);
  rig.from.call({"SET", rig.key, std::string(69'000, 'x')});
  rig.start();
  const ReplPosition end = rig.switch_over();
  const Result<Ends> ends = rig.driver->read_ends(rig.attempt, end, kMs);
  REQUIRE_MESSAGE(ends.is_ok(), ends.status().text());
  CHECK_FALSE(has(rig.to, {"INFO", "replication"}, "db0:binlog_offset=0 "));
  CHECK_FALSE(has(rig.to, {"INFO", "replication"}, "db2:binlog_offset=0 0,"));
}

TEST_CASE("I2 pika sharding: a slot's walk, and the old slot follows the new one") {
  PikaRig rig(sharding());
  rig.from.call({"SET", rig.key, "v"});
  rig.start();
  CHECK(std::string(rig.driver->kind()) == "pika-sharding");
  rig.to.call({"FAKE", "SET", "apply_delay_ms", "30"});
  const ReplPosition end = rig.switch_over();
  const Result<Ends> ends = rig.driver->read_ends(rig.attempt, end, kMs);
  REQUIRE_MESSAGE(ends.is_ok(), ends.status().text());
  CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
  const auto markers = rig.driver->markers(SlotSet::range(901, 903), kMs);
  REQUIRE(markers.is_ok());
  CHECK(*markers == std::map<int, uint64_t>{{901, 7}, {902, 0}, {903, 0}});
  rig.to.call({"SET", rig.key, "new"});
  SUBCASE("from where it was") {
    const Status linked = rig.driver->link_reverse(rig.attempt, end, kMs);
    REQUIRE_MESSAGE(linked.is_ok(), linked.text());
    CHECK(eventually([&] { return rig.from.call({"GET", rig.key}) == "$3\r\nnew\r\n"; }));
    CHECK(has(rig.from, {"SET", rig.key, "x"}, "read-only"));
    CHECK(rig.driver->link_reverse(rig.attempt, end, kMs).is_ok());
    // Its neighbours are as before.
    CHECK(has(rig.to, {"PKCLUSTER", "INFO", "SLOT", "902"}, "kConnected"));
  }
  SUBCASE("not if it moved on") {
    rig.from.call({"SET", rig.key, "late"});
    CHECK(rig.driver->link_reverse(rig.attempt, end, kMs).code() == Code::kRefused);
    CHECK(has(rig.from, {"PKCLUSTER", "INFO", "SLOT", "901"}, "Role: Master"));
  }
}

TEST_CASE("I3 pika sharding: slots the new side does not hold yet are no master's, and no error") {
  PikaRig rig(sharding());
  rig.start();
  rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "903"});
  REQUIRE(eventually([&] { return rig.to.call({"PKCLUSTER", "DELSLOTS", "903"}) == "+OK\r\n"; }));
  const SlotSet slots = SlotSet::range(901, 903);
  const auto survey = rig.driver->survey(slots, kMs);
  REQUIRE_MESSAGE(survey.is_ok(), survey.status().text());
  CHECK(survey->new_side.at(903).master == false);
  CHECK(survey->new_side.at(903).link == SlotReport::Link::kDown);
  CHECK(survey->new_side.at(902).link == SlotReport::Link::kUp);
  CHECK(rig.driver->markers(slots, kMs).is_ok());
  CHECK(rig.driver->sync_state(SlotSet::of(903), kMs).text.find("ADDSLOTS 903") !=
        std::string::npos);
  // The old side must hold what it owns.
  rig.to.call({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "902"});
  REQUIRE(eventually([&] { return rig.from.call({"PKCLUSTER", "DELSLOTS", "902"}) == "+OK\r\n"; }));
  CHECK(rig.driver->survey(slots, kMs).status().text().find("holds no slot 902") !=
        std::string::npos);
}

TEST_CASE("I2b pika: each fault that changes data in silence is found and named") {
  struct Fault {
    const char* fault;  // of the fake
    const char* says;
  };
  for (const Fault& fault :
       {Fault{"ttl_lost", "lose the TTL"}, Fault{"append_empty", "leaves it empty"}}) {
    INFO(fault.fault);
    PikaRig rig;
    rig.start();
    CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
    CHECK(rig.driver->healable_faults().empty());
    rig.make();
    rig.from.call({"FAKE", "SET", fault.fault, "1"});
    rig.to.call({"FAKE", "SET", "apply_delay_ms", "20"});
    // The heal list puts it right.
    CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
    CHECK(rig.driver->healable_faults().find(fault.says) != std::string::npos);
    CHECK(eventually([&] { return !has(rig.to, {"KEYS", "*:trial:*"}, "trial"); }));
  }
  // 4.0 loses what is written with a TTL: the trial itself must not wait for such keys.
  for (const char* version : {"4.0.1", "3.5.5"}) {
    INFO(version);
    PikaOptions options;
    options.version = version;
    PikaRig rig(options);
    rig.start();
    rig.to.call({"FAKE", "SET", "timed_lost", "1"});
    const Status announced = rig.driver->announce(rig.attempt, kMs);
    // Where the workers note SETEX and its like the heal list has them, elsewhere nobody has.
    const bool noted = rig.driver->traits().loses_timed;
    CHECK(noted == (version[0] == '4'));
    CHECK_MESSAGE(announced.is_ok() == noted, announced.text());
    const std::string said = noted ? rig.driver->healable_faults() : announced.text();
    CHECK(said.find("SETEX, PSETEX, SET with EX or PX") != std::string::npos);
    CHECK(said.find("lose the TTL") == std::string::npos);
  }
  PikaRig streams;
  streams.plan.accept.clear();
  streams.start();
  CHECK(streams.driver->announce(streams.attempt, kMs).text().find("leaves streams out") !=
        std::string::npos);
  // Not in 3.4, which has none, nor in 4.0, which keeps all types in one database.
  CHECK(faults_of_version(3, 4).empty());
  CHECK(faults_of_version(4, 0).empty());
}

TEST_CASE("pika: what nothing can be proved about is refused with a sentence") {
  const auto refusal = [](PikaRig& rig) {
    const auto made = make_driver(rig.plan, &rig.notes, &rig.clock, "test", kMs);
    return made ? std::string("made") : made.status().text();
  };
  PikaRig other_kind;
  other_kind.plan.old_side.kind = other_kind.plan.new_side.kind = ServerKind::kRedis;
  CHECK(refusal(other_kind).find("correct the plan") != std::string::npos);
  PikaRig sizes;
  PikaOptions small;
  small.binlog_file_size = 1'048'576;
  FakePika third(small);
  sizes.plan.new_side.master.port = third.port();
  CHECK(refusal(sizes).find("binlog-file-size") != std::string::npos);
  PikaOptions few = sharding();
  few.slot_num = 16;
  few.slots = "0-15";
  PikaRig slots(few);
  CHECK(refusal(slots).find("16 slots") != std::string::npos);
  PikaRig alone;
  alone.make();
  CHECK(alone.driver->sync_state(alone.slots, kMs).text.find("follows nobody") !=
        std::string::npos);
  FakePika stranger(PikaOptions{});
  alone.to.call({"SLAVEOF", "127.0.0.1", std::to_string(stranger.port())});
  CHECK(alone.driver->sync_state(alone.slots, kMs).text.find("which is not") != std::string::npos);
}

}  // namespace
}  // namespace sf
