// The driver for Redis without CLIENT PAUSE WRITE, against servers that answer as a codis-server
// 3.2 was recorded to; the walks under writes are in tests/e2e/test_shim_old_redis.py.
#include "proxy_shim/control/accounted_redis_driver.h"

#include <doctest/doctest.h>

#include "common/resp/encoder.h"
#include "tests/support/fake_server.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

constexpr int64_t kMs = 2'000;

// A codis-server: no CLIENT ID, no replication ids, its own names of settings.
struct FakeCodis {
  FakeCodis() {
    server.set_rule([this](const Words& words) {
      std::string out;
      answer(words, &out);
      return FakeAction{FakeAction::Kind::kReply, out};
    });
  }
  void answer(const Words& words, std::string* out) {
    if (words[0] == "MULTI") multis += 1;
    say(words, out);
  }
  void say(const Words& words, std::string* out) {
    const std::string name = words[0] + (words.size() > 1 ? " " + words[1] : "");
    if (name == "INFO replication") return resp::bulk(*out, replication);
    if (name == "INFO server") {
      return resp::bulk(
          *out, cat("# Server\r\nredis_version:3.2.11\r\nrun_id:", run_id, "\r\nconfig_file:\r\n"));
    }
    if (name == "CLIENT LIST") {
      return resp::bulk(*out, cat("id=5 addr=127.0.0.1:1 fd=6 name=", unique,
                                  " age=0 idle=0 flags=S db=0 cmd=client\n", clients));
    }
    if (name == "CLIENT SETNAME") unique = words[2];
    if (name == "CLIENT ID" || (name == "CLIENT PAUSE" && words.size() > 3)) {
      return resp::error(*out, "ERR Syntax error, try CLIENT (LIST | KILL ip:port | GETNAME)");
    }
    if (words[0] == "REPLICAOF") return resp::error(*out, "ERR unknown command 'REPLICAOF'");
    if (name == "CONFIG GET") {
      if (!config.contains(words[2])) return resp::array(*out, 0);
      resp::array(*out, 2);
      resp::bulk(*out, words[2]);
      return resp::bulk(*out, config[words[2]]);
    }
    if (words[0] == "GET") {
      if (on_get) on_get();
      return keys.contains(words[1]) ? resp::bulk(*out, keys[words[1]]) : resp::nil(*out);
    }
    if (name == "CONFIG SET") config[words[2]] = words[3];
    if (words[0] == "SET") {
      keys[words[1]] = words[2];
      if (replica != nullptr) replica->keys[words[1]] = words[2];
    }
    if (words[0] == "DEBUG") expiry += words[2];
    if (name == "SLAVEOF NO") replication = promoted;
    if (words[0] == "SLAVEOF" && words[1] != "NO") replication = copying;
    if (words[0] == "DEL") return resp::integer(*out, static_cast<int64_t>(keys.erase(words[1])));
    resp::status(*out, "OK");
  }
  std::string replication, promoted, copying, clients, unique, expiry;
  std::string run_id = "aaaa";
  std::map<std::string, std::string> keys;
  std::map<std::string, std::string> config{{"repl-ping-slave-period", "7"},
                                            {"min-slaves-to-write", "1"}};
  FakeCodis* replica = nullptr;
  std::function<void()> on_get;
  int multis = 0;  // each moves the end of a 3.2
  FakeServer server;
};

std::string master(int end, const char* backlog = "1") {
  return cat("# Replication\r\nrole:master\r\nconnected_slaves:1\r\nmaster_repl_offset:", end,
             "\r\nrepl_backlog_active:", backlog, "\r\n");
}

struct CodisRig {
  CodisRig() {
    plan.unit = CutUnit::kPlan;
    plan.old_side.kind = plan.new_side.kind = ServerKind::kRedis;
    plan.old_side.master = {"127.0.0.1", from.server.port()};
    plan.new_side.master = {"127.0.0.1", to.server.port()};
    from.replication = master(100);
    from.replica = &to;
    to.run_id = "bbbb";
    to.replication = replica("up", "0", 100);
    to.promoted = master(0, "0");
    to.copying = replica("down", "1", -1);
    make();
  }
  void make() {
    driver = std::make_unique<AccountedRedisDriver>(plan, &notes, &clock, "test");
    REQUIRE(driver->connect(kMs).is_ok());
  }
  std::string replica(const char* link, const char* copying, int at) const {
    return cat("# Replication\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:",
               plan.old_side.master.port, "\r\nmaster_link_status:", link,
               "\r\nmaster_sync_in_progress:", copying, "\r\nslave_repl_offset:", at,
               "\r\nmaster_repl_offset:0\r\nrepl_backlog_active:0\r\n");
  }
  void walk_to_fence() {
    REQUIRE(driver->announce(attempt, kMs).is_ok());
    const Result<ReplPosition> said = driver->fence(attempt, 500, kMs);
    REQUIRE(said.is_ok());
    CHECK(*said == end);
  }
  FakeCodis from, to;
  MovePlan plan = test_plan();
  MemoryNotes notes;
  ManualClock clock;
  std::unique_ptr<AccountedRedisDriver> driver;
  const CutAttempt attempt{SlotSet::range(901, 910), 7};
  const ReplPosition end{"aaaa", 100};
};

TEST_CASE("old redis: what the server is and does chooses the driver") {
  CodisRig rig;
  const auto made = make_driver(rig.plan, &rig.notes, &rig.clock, "test", kMs);
  REQUIRE(made.is_ok());
  CHECK(std::string((*made)->kind()) == "redis");
  CHECK(!(*made)->traits().end_fenced);
  CHECK((*made)->traits().holds_stay);
  CHECK(!(*made)->traits().exact_end);
}

TEST_CASE("old redis: the walk, and the settings are given back") {
  CodisRig rig;
  rig.walk_to_fence();
  CHECK(rig.from.config["repl-ping-slave-period"] == "2147483647");
  CHECK(rig.from.config["min-slaves-to-write"] == "1000000");
  CHECK(rig.from.expiry == "0");
  CHECK(*rig.driver->wait_applied(rig.attempt, rig.end, kMs));
  CHECK(rig.driver->check_writers(kMs).is_ok());
  CHECK(*rig.driver->fence_permanent(rig.attempt, kMs) == rig.end);
  CHECK(*rig.driver->promote(rig.attempt, rig.end, kMs) == ReplPosition{"bbbb", 0});
  const Result<Ends> ends = rig.driver->read_ends(rig.attempt, rig.end, kMs);
  REQUIRE(ends.is_ok());
  CHECK(ends->old_end == rig.end);
  CHECK(ends->new_end == rig.end);
  CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
  CHECK(*rig.driver->marker(kMs) == 7);
  CHECK(rig.driver->release(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["repl-ping-slave-period"] == "7");
  CHECK(rig.from.expiry == "01");
  CHECK(rig.from.config["min-slaves-to-write"] == "1000000");  // the old side stays closed
  CHECK(rig.to.keys.size() == 1);                              // the marker
  CHECK(rig.driver->unfence(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["min-slaves-to-write"] == "1");
  CHECK(rig.from.multis == 0);
  CHECK(rig.from.server.count("REPLICAOF") + rig.to.server.count("REPLICAOF") == 0);
}

TEST_CASE("old redis: no pause begins while a key takes longer to the new side than it may last") {
  // A 3.2 that has copied without a disk is not sent to until its next word, at most a second.
  CodisRig rig;
  rig.from.replica = nullptr;
  const auto each_look = [&](int64_t ms, int arrives_at) {
    rig.to.on_get = [&rig, ms, arrives_at, looks = 0]() mutable {
      rig.clock.advance_ms(ms);
      if (++looks != arrives_at) return;
      rig.from.replica = &rig.to;  // the stream flows from here on
      rig.to.keys = rig.from.keys;
    };
  };
  each_look(100, -1);
  const std::string why = rig.driver->announce(rig.attempt, kMs).text();
  CHECK(why.find("forecast: a key takes more than") != std::string::npos);
  CHECK(rig.from.config["min-slaves-to-write"] == "1");
  each_look(100, 9);  // 900 ms are too long, so the way is tried again, and is short
  CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
}

TEST_CASE("I2d old redis: applied needs the link, the offset and the fence key") {
  CodisRig rig;
  rig.walk_to_fence();
  const auto applied = [&](const std::string& replication) {
    rig.to.replication = replication;
    return rig.driver->wait_applied(rig.attempt, rig.end, 0);
  };
  CHECK(*applied(rig.replica("up", "0", 100)));
  CHECK(!*applied(rig.replica("up", "0", 99)));
  CHECK(!*applied(rig.replica("down", "0", 100)));
  CHECK(!*applied(rig.replica("up", "1", 100)));
  CHECK(!applied(master(100)));
  CHECK(!applied("nothing useful"));
  // Paused clients on a 3.2 stop its master's stream too, after the offset was counted.
  rig.to.keys.clear();
  CHECK(!*applied(rig.replica("up", "0", 100)));
}

TEST_CASE("I2c old redis: a foreign write moves the end, found at each reading of it") {
  CodisRig rig;
  rig.walk_to_fence();
  rig.from.replication = master(131);
  CHECK(*rig.driver->fence_permanent(rig.attempt, kMs) == ReplPosition{"aaaa", 131});
  rig.from.replication = master(100);
  REQUIRE(rig.driver->promote(rig.attempt, rig.end, kMs).is_ok());
  rig.from.replication = master(131);
  CHECK(rig.driver->read_ends(rig.attempt, rig.end, kMs)->old_end != rig.end);
  rig.from.replication = master(100);
  rig.from.run_id = "cccc";  // restarted: the same number is another end
  CHECK(rig.driver->read_ends(rig.attempt, rig.end, kMs)->old_end != rig.end);
  rig.from.replication = master(100, "0");
  CHECK(!rig.driver->read_ends(rig.attempt, rig.end, kMs));  // an end that does not move
}

TEST_CASE("I2 old redis: foreign and orphaned connections refuse, named") {
  CodisRig rig;
  const auto why = [&](const char* line) {
    rig.from.clients = line;
    return rig.driver->check_writers(kMs).text();
  };
  CHECK(rig.driver->check_writers(kMs).is_ok());
  CHECK(why("id=9 addr=10.0.0.9:4 fd=8 name= age=1 idle=0 flags=N db=0 cmd=set\n")
            .find("10.0.0.9:4") != std::string::npos);
  // The dashboard, and the run: onlookers.
  rig.from.clients =
      "id=9 addr=10.0.0.9:4 fd=8 name= age=1 idle=0 flags=N db=0 cmd=info\n"
      "id=9 addr=10.0.0.9:5 fd=8 name=slotferry-run age=1 idle=0 flags=N db=0 cmd=get\n";
  CHECK(rig.driver->check_writers(kMs).is_ok());
  // A shim's that is not ours carries what nobody waits for, whatever it did last.
  CHECK(why("id=9 addr=10.0.0.9:4 fd=8 name=slotferry-shim-data age=1 flags=N db=0 cmd=info\n")
            .find("10.0.0.9:4") != std::string::npos);
  CHECK(!rig.driver->check_orphans(kMs));
  CHECK(!rig.driver->announce(rig.attempt, kMs));
  CHECK(!rig.driver->fence(rig.attempt, 500, kMs));
}

TEST_CASE("I2e old redis: it must still follow at the moment in which it leaves") {
  CodisRig rig;
  rig.walk_to_fence();
  rig.to.replication = rig.replica("down", "0", 100);
  CHECK(!rig.driver->promote(rig.attempt, rig.end, kMs));
  rig.to.replication = rig.replica("up", "0", 90);
  REQUIRE(rig.driver->promote(rig.attempt, rig.end, kMs).is_ok());
  CHECK(rig.driver->read_ends(rig.attempt, rig.end, kMs)->new_end == ReplPosition{"aaaa", 90});
  rig.to.run_id = "dddd";
  CHECK(!rig.driver->read_ends(rig.attempt, rig.end, kMs));
}

TEST_CASE("I3 old redis: follows again by a copy, only what we made a master and never an owner") {
  CodisRig rig;
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).is_ok());  // it still is a replica
  CHECK(rig.to.server.count("SLAVEOF") == 0);
  rig.to.replication = master(0, "0");
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).text().find("was no replica") !=
        std::string::npos);
  rig.to.replication = rig.replica("up", "0", 100);
  rig.walk_to_fence();
  REQUIRE(rig.driver->promote(rig.attempt, rig.end, kMs).is_ok());
  rig.make();  // another life of the shim
  CHECK(rig.driver->survey(rig.attempt.slots, kMs)->new_side.at(901).left);
  rig.to.keys["{__slotferry}:owner:p1"] = R"({"plan":"p1","epoch":5})";
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).text().find("epoch 5") != std::string::npos);
  rig.to.keys.clear();
  rig.to.run_id = "dddd";
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).text().find("restarted") !=
        std::string::npos);
  rig.to.run_id = "bbbb";
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).is_ok());
  // It copies: no candidate before that is done.
  const SyncState state = rig.driver->sync_state(SlotSet::of(901), kMs);
  CHECK(!state.following);
  CHECK(state.text.find("is copying") != std::string::npos);
  CHECK(!rig.driver->announce(rig.attempt, kMs));
  CHECK(!rig.driver->survey(rig.attempt.slots, kMs)->new_side.at(901).left);
}

TEST_CASE("R01 old redis: an end that is not said is no lag of 0") {
  CodisRig rig;
  const auto lag = [&](const std::string& from, const std::string& to) {
    rig.from.replication = from;
    rig.to.replication = to;
    const SyncState state = rig.driver->sync_state(SlotSet::of(901), kMs);
    return state.following ? state.lag : -1;
  };
  CHECK(lag(master(100), rig.replica("up", "0", 100)) == 0);
  CHECK(lag(master(100), rig.replica("up", "0", 90)) == 10);
  CHECK(lag(master(100), rig.replica("up", "0", -1)) == -1);
  CHECK(lag("role:master\r\n", rig.replica("up", "0", 100)) == -1);
  rig.plan.old_side.master.port += 1;
  CHECK(lag(master(100), rig.replica("up", "0", 100)) == -1);  // follows another one, named:
  CHECK(rig.driver->sync_state(SlotSet::of(901), kMs).text.find("(127.0.0.1:") !=
        std::string::npos);
}

TEST_CASE("old redis: with slots that stay the master is not closed as a whole") {
  CodisRig rig;
  rig.plan.stay = SlotSet::of(5);
  rig.make();
  rig.walk_to_fence();
  CHECK(rig.driver->fence_permanent(rig.attempt, kMs).is_ok());
  CHECK(rig.from.config["min-slaves-to-write"] == "1");
}

}  // namespace
}  // namespace sf
