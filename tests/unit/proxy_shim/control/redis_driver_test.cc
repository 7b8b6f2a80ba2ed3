// The Redis driver against servers that answer what the test says; real ones are in tests/e2e.
#include "proxy_shim/control/redis_driver.h"

#include <doctest/doctest.h>

#include "common/resp/encoder.h"
#include "tests/support/fake_server.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

constexpr int64_t kMs = 2'000;

// Just enough of a Redis: INFO replication from fields, CONFIG, CLIENT LIST.
struct FakeRedis {
  FakeRedis() {
    server.set_rule([this](const Words& words) { return answer(words); });
  }
  FakeAction answer(const Words& words) {
    std::string out;
    const std::string name = words[0] + (words.size() > 1 ? " " + words[1] : "");
    if (name == "INFO replication") {
      resp::bulk(out, info);
    } else if (name == "INFO server") {
      resp::bulk(out, "redis_version:7.0.15\r\nconfig_file:/etc/redis.conf\r\n");
    } else if (name == "CLIENT LIST") {
      resp::bulk(out, clients);
    } else if (name == "CONFIG GET") {
      resp::array(out, 2);
      resp::bulk(out, words[2]);
      resp::bulk(out, config[words[2]]);
    } else if (words[0] == "GET") {
      if (marker.empty()) resp::nil(out);
      if (!marker.empty()) resp::bulk(out, marker);
    } else {
      if (name == "CONFIG SET") config[words[2]] = words[3];
      if (name == "REPLICAOF NO") info = promoted_info;
      if (words[0] == "SET") marker = words[2];
      resp::status(out, "OK");
    }
    return {FakeAction::Kind::kReply, out};
  }
  std::string info, promoted_info, clients, marker;
  std::map<std::string, std::string> config{{"repl-ping-replica-period", "7"},
                                            {"min-replicas-to-write", "1"}};
  FakeServer server;
};

const char* kMaster = "role:master\r\nmaster_replid:h\r\nmaster_repl_offset:100\r\n";
const char* kReplica =
    "role:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\nmaster_replid:h\r\n"
    "slave_repl_offset:100\r\n";
const char* kPromoted =
    "role:master\r\nmaster_replid:n\r\nmaster_replid2:h\r\nmaster_repl_offset:100\r\n"
    "second_repl_offset:101\r\n";

struct RedisRig {
  RedisRig() {
    plan.unit = CutUnit::kPlan;
    plan.old_side.master = {"127.0.0.1", from.server.port()};
    plan.new_side.master = {"127.0.0.1", to.server.port()};
    from.info = kMaster;
    to.info = kReplica;
    to.promoted_info = kPromoted;
    make();
  }
  void make() {
    driver = std::make_unique<RedisDriver>(plan, &notes, &clock, "test");
    REQUIRE(driver->connect(kMs).is_ok());
  }
  FakeRedis from, to;
  MovePlan plan = test_plan();
  MemoryNotes notes;
  ManualClock clock;
  std::unique_ptr<RedisDriver> driver;
  const CutAttempt attempt{SlotSet::range(901, 910), 7};
};

TEST_CASE("I3: no attempt begins while sentinels watch the new server: they would take it back") {
  RedisRig rig;
  rig.to.clients =
      "id=7 addr=127.0.0.1:50001 name=sentinel-77274068-cmd flags=N cmd=ping\r\n"
      "id=8 addr=127.0.0.1:50002 name=sentinel-77274068-pubsub flags=P cmd=subscribe\r\n";
  const Status refused = rig.driver->announce(rig.attempt, kMs);
  CHECK(refused.code() == Code::kRefused);
  CHECK(refused.text().find("watched by sentinels (sentinel-77274068)") != std::string::npos);
  CHECK(rig.from.config["repl-ping-replica-period"] == "7");
  rig.to.clients.clear();
  rig.from.clients = "id=7 addr=127.0.0.1:50001 name=sentinel-77274068-cmd flags=N cmd=ping\r\n";
  CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
}

TEST_CASE("redis driver: the walk, and the settings are given back") {
  RedisRig rig;
  REQUIRE(rig.driver->announce(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["repl-ping-replica-period"] == "2147483647");
  CHECK(rig.notes.values.at("repl-ping-replica-period") == "7");
  CHECK(*rig.driver->fence(rig.attempt, 500, kMs) == ReplPosition{"h", 100});
  CHECK(rig.from.server.requests()[rig.from.server.requests().size() - 2] ==
        Words{"CLIENT", "PAUSE", "500", "WRITE"});
  CHECK(*rig.driver->wait_applied(rig.attempt, {"h", 100}, kMs));
  CHECK(*rig.driver->fence_permanent(rig.attempt, kMs) == ReplPosition{"h", 100});
  CHECK(rig.from.config["min-replicas-to-write"] == "1000000");
  CHECK(*rig.driver->promote(rig.attempt, {"h", 100}, kMs) == ReplPosition{"n", 100});
  const Result<Ends> ends = rig.driver->read_ends(rig.attempt, {"h", 100}, kMs);
  REQUIRE(ends.is_ok());
  CHECK(ends->old_end == ReplPosition{"h", 100});
  CHECK(ends->new_end == ReplPosition{"h", 100});
  CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
  CHECK(*rig.driver->marker(kMs) == 7);
  CHECK(rig.driver->release(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["repl-ping-replica-period"] == "7");
  CHECK(rig.from.config["min-replicas-to-write"] == "1000000");  // the old side stays closed
  CHECK(rig.driver->unfence(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["min-replicas-to-write"] == "1");
}

TEST_CASE("I2e: a pause that may have ended proves nothing") {
  RedisRig rig;
  REQUIRE(rig.driver->announce(rig.attempt, kMs).is_ok());
  REQUIRE(rig.driver->fence(rig.attempt, 500, kMs).is_ok());
  rig.to.info = kPromoted;
  CHECK(rig.driver->read_ends(rig.attempt, {"h", 100}, kMs).is_ok());
  rig.clock.advance_ms(500);
  CHECK(rig.driver->read_ends(rig.attempt, {"h", 100}, kMs).status().code() == Code::kRefused);
}

TEST_CASE("I2d: applied needs the link, the id and the processed offset") {
  RedisRig rig;
  const auto applied = [&](const std::string& info) {
    rig.to.info = info;
    rig.clock.advance_ms(1'000);
    return rig.driver->wait_applied(rig.attempt, {"h", 100}, 0);
  };
  const auto replica = [](const char* link, const char* copying, const char* id, int offset) {
    return cat("role:slave\r\nmaster_link_status:", link, "\r\nmaster_sync_in_progress:", copying,
               "\r\nmaster_replid:", id, "\r\nslave_repl_offset:", offset, "\r\n");
  };
  CHECK(*applied(replica("up", "0", "h", 100)));
  CHECK(!*applied(replica("up", "0", "h", 99)));
  CHECK(!*applied(replica("down", "0", "h", 100)));
  CHECK(!*applied(replica("up", "1", "h", 100)));
  CHECK(!*applied(replica("up", "0", "g", 100)));
  CHECK(!applied("role:master\r\nmaster_replid:h\r\nmaster_repl_offset:100\r\n"));
  CHECK(!applied("nothing useful"));
}

TEST_CASE("R01: an unknown, missing or unreadable end is no lag of 0") {
  RedisRig rig;
  const auto lag = [&](const std::string& from, const std::string& to) {
    rig.from.info = from;
    rig.to.info = to;
    const SyncState state = rig.driver->sync_state(SlotSet::of(901), kMs);
    return state.following ? state.lag : -1;
  };
  const std::string master = "role:master\r\nmaster_replid:h\r\nmaster_repl_offset:";
  const std::string replica =
      "role:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\nmaster_replid:h\r\n"
      "slave_repl_offset:";
  CHECK(lag(master + "100\r\n", replica + "100\r\n") == 0);
  CHECK(lag(master + "100\r\n", replica + "90\r\n") == 10);
  CHECK(lag(master + "\r\n", replica + "\r\n") == -1);
  CHECK(lag(master + "(db0:0)\r\n", replica + "(db0:0)\r\n") == -1);
  CHECK(lag(master + "100\r\n", replica + "full syncing\r\n") == -1);
  CHECK(lag(master + "-1\r\n", replica + "-1\r\n") == -1);
  CHECK(lag("role:master\r\nmaster_replid:h\r\n", replica + "100\r\n") == -1);
  // Pika's words: no master_repl_offset, and a lag that counts what was sent.
  CHECK(lag("role:master\r\nslave0:ip=127.0.0.1,port=1,conn_fd=5,lag=(db0:0)\r\n"
            "db0:binlog_offset=0 284,safety_purge=none\r\nslave_repl_offset:284\r\n",
            "role:slave\r\nmaster_link_status:up\r\nslave_repl_offset:284\r\n") == -1);
}

TEST_CASE("R26: a link that says up, with offsets that stand still, is not caught up") {
  RedisRig rig;
  rig.from.info = "role:master\r\nmaster_replid:h\r\nmaster_repl_offset:200\r\n";
  CHECK(rig.driver->sync_state(SlotSet::of(901), kMs).lag == 100);
  CHECK(!*rig.driver->wait_applied(rig.attempt, {"h", 200}, 0));
}

TEST_CASE("writers: who may be connected to the old master") {
  RedisRig rig;
  const auto ok = [&](const char* line) {
    rig.from.clients = line;
    return rig.driver->check_writers(kMs).is_ok();
  };
  CHECK(ok(""));
  CHECK(ok("id=3 addr=1.2.3.4:5 name= flags=S cmd=replconf\n"));
  CHECK(ok("id=3 addr=1.2.3.4:5 name=slotferry-run flags=N cmd=set\n"));
  CHECK(ok("id=3 addr=1.2.3.4:5 name=sentinel-12-cmd flags=N cmd=ping\n"));
  CHECK(ok("id=3 addr=1.2.3.4:5 name= flags=N cmd=config|get\n"));
  CHECK(!ok("id=3 addr=1.2.3.4:5 name= flags=N cmd=ping\n"));  // an idle proxy
  CHECK(!ok("id=3 addr=1.2.3.4:5 name= flags=N cmd=get\n"));
  CHECK(!ok("id=3 addr=1.2.3.4:5 name= flags=N cmd=NULL\n"));
  const Status status = rig.driver->check_writers(kMs);
  CHECK(status.text().find("1.2.3.4:5") != std::string::npos);
}

TEST_CASE("I3: following again only over what was our replica and never over an owner") {
  RedisRig rig;
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).is_ok());  // it still is a replica
  CHECK(rig.to.server.count("REPLICAOF") == 0);
  rig.to.info = "role:master\r\nmaster_replid:x\r\nmaster_replid2:0000\r\n";
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).code() == Code::kRefused);
  rig.to.info = kPromoted;
  rig.to.marker = R"({"plan":"p1","epoch":5})";
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).text().find("epoch 5") != std::string::npos);
  CHECK(rig.to.server.count("REPLICAOF") == 0);
  rig.to.marker = "gibberish";
  CHECK(rig.driver->marker(kMs).status().code() == Code::kCorrupt);
  rig.to.marker.clear();
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).code() ==
        Code::kCorrupt);  // still says master
  CHECK(rig.to.server.count("REPLICAOF") == 1);
}

TEST_CASE("with slots that stay the old master is not closed as a whole") {
  RedisRig rig;
  rig.plan.stay = SlotSet::of(5);
  rig.make();
  REQUIRE(rig.driver->announce(rig.attempt, kMs).is_ok());
  REQUIRE(rig.driver->fence(rig.attempt, 500, kMs).is_ok());
  CHECK(rig.driver->fence_permanent(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["min-replicas-to-write"] == "1");
}

TEST_CASE("kinds: what the servers are decides, and must fit the plan") {
  RedisRig rig;
  CHECK(make_driver(rig.plan, &rig.notes, &rig.clock, "test", kMs)
            .status()
            .text()
            .find("kind node") != std::string::npos);
  rig.plan.old_side.kind = rig.plan.new_side.kind = ServerKind::kRedis;
  CHECK(make_driver(rig.plan, &rig.notes, &rig.clock, "test", kMs).is_ok());
  rig.to.server.set_rule([](const Words&) {
    std::string out;
    resp::bulk(out, "pika_version:3.5.5\r\n");
    return FakeAction{FakeAction::Kind::kReply, out};
  });
  CHECK(make_driver(rig.plan, &rig.notes, &rig.clock, "test", kMs).status().text().find("Pika") !=
        std::string::npos);
}

}  // namespace
}  // namespace sf
