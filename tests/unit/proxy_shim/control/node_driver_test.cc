// The node's verbs as docs/COMMANDS.md has them, against servers that answer what the test
// says. What is missing, unreadable or contradictory is never a yes (I2).
#include "proxy_shim/control/node_driver.h"

#include <doctest/doctest.h>

#include "common/resp/encoder.h"
#include "tests/support/fake_server.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

constexpr int64_t kMs = 2'000;

std::string flat(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  resp::array(out, fields.size() * 2);
  for (const auto& [name, value] : fields) {
    resp::bulk(out, name);
    resp::bulk(out, value);
  }
  return out;
}

std::string row(int slot, const char* role, const char* history, int64_t seq, const char* link,
                const char* fence) {
  std::string out;
  resp::array(out, 6);
  resp::integer(out, slot);
  resp::bulk(out, role);
  resp::bulk(out, history);
  resp::integer(out, seq);
  resp::bulk(out, link);
  resp::bulk(out, fence);
  return out;
}

struct NodeRig {
  NodeRig() {
    plan.slots = SlotSet::range(901, 902);
    plan.old_side.master = {"127.0.0.1", old_node.port()};
    plan.new_side.master = {"127.0.0.1", new_node.port()};
    driver = std::make_unique<NodeDriver>(plan, "test");
    answers(old_node, &old_answers);
    answers(new_node, &new_answers);
    REQUIRE(driver->connect(kMs).is_ok());
  }
  // The reply to "PKCLUSTER FENCE" or "REPLICATION POSITIONS" ...; +OK to everything else.
  static void answers(FakeServer& server, std::map<std::string, std::string>* from) {
    server.set_rule([from](const Words& words) {
      const auto found = from->find(words.size() > 1 ? words[0] + " " + words[1] : words[0]);
      return FakeAction{FakeAction::Kind::kReply, found == from->end() ? "+OK\r\n" : found->second};
    });
  }
  static std::string last(const FakeServer& server) {
    const std::vector<Words> all = server.requests();
    std::string out;
    for (const std::string& word : all.back()) out += (out.empty() ? "" : " ") + word;
    return out;
  }

  std::map<std::string, std::string> old_answers, new_answers;
  FakeServer old_node, new_node;
  MovePlan plan = test_plan();
  std::unique_ptr<NodeDriver> driver;
  const CutAttempt attempt{SlotSet::of(901), 7};
};

TEST_CASE("node driver: each verb as the plan spells it") {
  NodeRig rig;
  CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
  CHECK(rig.last(rig.old_node) == "PKCLUSTER EPOCH 901 p1 7");
  CHECK(rig.last(rig.new_node) == "PKCLUSTER EPOCH 901 p1 7");
  rig.old_answers["PKCLUSTER FENCE"] = flat({{"history", "h"}, {"seq", "12"}, {"time_ms", "5"}});
  CHECK(*rig.driver->fence(rig.attempt, 700, kMs) == ReplPosition{"h", 12});
  CHECK(rig.last(rig.old_node) == "PKCLUSTER FENCE 901 p1 7 LEASE 700");
  rig.new_answers["REPLICATION WAITAPPLIED"] = ":1\r\n";
  CHECK(*rig.driver->wait_applied(rig.attempt, {"h", 12}, 30));
  CHECK(rig.last(rig.new_node) == "REPLICATION WAITAPPLIED 901 h 12 30");
  CHECK(*rig.driver->fence_permanent(rig.attempt, kMs) == ReplPosition{"h", 12});
  CHECK(rig.last(rig.old_node) == "PKCLUSTER FENCE 901 p1 7 PERMANENT " + rig.new_node.address());
  rig.new_answers["PKCLUSTER PROMOTE"] = flat({{"applied", "40"}, {"history", "n"}, {"seq", "3"}});
  CHECK(*rig.driver->promote(rig.attempt, {"h", 12}, kMs) == ReplPosition{"n", 3});
  CHECK(rig.last(rig.new_node) == "PKCLUSTER PROMOTE 901 p1 7 FROM h 12");
  const Result<Ends> ends = rig.driver->read_ends(rig.attempt, {"h", 12}, kMs);
  CHECK(ends->old_end == ReplPosition{"h", 12});
  CHECK(ends->new_end == ReplPosition{"h", 12});
  rig.old_answers["REPLICATION POSITIONS"] =
      "*1\r\n" + row(901, "slave", "n", 3, "up", "permanent");
  CHECK(rig.driver->link_reverse(rig.attempt, {"n", 3}, kMs).is_ok());
  CHECK(rig.old_node.count("PKCLUSTER") == 4);
}

TEST_CASE("I2: WAITAPPLIED is a yes only when the node says 1") {
  NodeRig rig;
  for (const char* reply : {":0\r\n", "$1\r\n1\r\n", "+OK\r\n", "$-1\r\n", ":2\r\n"}) {
    rig.new_answers["REPLICATION WAITAPPLIED"] = reply;
    CHECK(!*rig.driver->wait_applied(rig.attempt, {"h", 12}, 10));
  }
  rig.new_answers["REPLICATION WAITAPPLIED"] = "-ERR no such history\r\n";
  CHECK(rig.driver->wait_applied(rig.attempt, {"h", 12}, 10).status().code() == Code::kRefused);
}

TEST_CASE("I2: an end that cannot be read is an error, not zero") {
  NodeRig rig;
  for (const std::string& reply :
       {std::string("+OK\r\n"), flat({{"history", "h"}}), flat({{"history", ""}, {"seq", "1"}}),
        flat({{"history", "h"}, {"seq", "-1"}}), flat({{"history", "h"}, {"seq", "x"}})}) {
    rig.old_answers["PKCLUSTER FENCE"] = reply;
    CHECK(rig.driver->fence(rig.attempt, 700, kMs).status().code() == Code::kCorrupt);
  }
  rig.old_answers["PKCLUSTER FENCE"] = "-LEASEEXPIRED slot 901\r\n";
  CHECK(rig.driver->fence_permanent(rig.attempt, kMs).status().text().find("LEASEEXPIRED") !=
        std::string::npos);
  rig.new_answers["PKCLUSTER PROMOTE"] = flat({{"history", "n"}, {"seq", "3"}});
  CHECK(rig.driver->promote(rig.attempt, {"h", 12}, kMs).status().code() == Code::kCorrupt);
}

TEST_CASE("I2e: a new side that stopped before the end does not hold it") {
  NodeRig rig;
  rig.old_answers["PKCLUSTER FENCE"] = flat({{"history", "h"}, {"seq", "12"}});
  rig.new_answers["PKCLUSTER PROMOTE"] = flat({{"applied", "11"}, {"history", "n"}, {"seq", "3"}});
  CHECK(rig.driver->fence_permanent(rig.attempt, kMs).is_ok());
  CHECK(rig.driver->promote(rig.attempt, {"h", 12}, kMs).is_ok());
  CHECK(rig.driver->read_ends(rig.attempt, {"h", 12}, kMs)->new_end == ReplPosition{"h", 11});
  // What the last attempt was told is nothing to this one.
  CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
  CHECK(rig.driver->read_ends(rig.attempt, {"h", 12}, kMs)->old_end != ReplPosition{"h", 12});
}

TEST_CASE("I3: following again asks first, and believes only what it reads back") {
  NodeRig rig;
  rig.new_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "slave", "h", 12, "up", "no");
  CHECK(rig.driver->follow_again(rig.attempt, {"h", 12}, kMs).is_ok());
  CHECK(rig.new_node.count("PKCLUSTER") == 1);  // EPOCH, so that a late PROMOTE is refused
  // It takes FOLLOW and still is a master.
  rig.new_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "master", "n", 3, "-", "no");
  CHECK(rig.driver->follow_again(rig.attempt, {"h", 12}, kMs).code() == Code::kCorrupt);
  CHECK(rig.new_node.count("PKCLUSTER") == 3);
  // After a crash the place to follow from is the old side's, if that stands still.
  rig.old_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "master", "h", 12, "-", "leased");
  CHECK(rig.driver->follow_again(rig.attempt, {}, kMs).code() == Code::kRefused);
  rig.old_answers["REPLICATION POSITIONS"] =
      "*1\r\n" + row(901, "master", "h", 12, "-", "permanent");
  (void)rig.driver->follow_again(rig.attempt, {}, kMs);
  bool seen = false;
  for (const Words& words : rig.new_node.requests()) {
    seen =
        seen || (words.size() == 10 && words[1] == "FOLLOW" && words[8] == "h" && words[9] == "12");
  }
  CHECK(seen);
  CHECK(rig.driver->unfence(rig.attempt, kMs).code() == Code::kCorrupt);
  rig.old_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "master", "h", 12, "-", "no");
  CHECK(rig.driver->unfence(rig.attempt, kMs).is_ok());
}

TEST_CASE("I3: the marker opens a side that was left before, and costs nothing where none was") {
  NodeRig rig;
  const auto unfences = [&] {
    int count = 0;
    for (const Words& words : rig.new_node.requests()) count += words[1] == "UNFENCE" ? 1 : 0;
    return count;
  };
  const auto seen = [&](const char* fence) {
    rig.old_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "master", "h", 12, "-", "no");
    rig.new_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "slave", "h", 12, "up", fence);
    CHECK(rig.driver->sync_state(SlotSet::of(901), kMs).following);
    CHECK(rig.driver->announce(rig.attempt, kMs).is_ok());
    rig.new_answers["REPLICATION POSITIONS"] = "*1\r\n" + row(901, "master", "n", 3, "-", "no");
  };
  seen("no");
  CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
  CHECK(unfences() == 0);
  // Of another attempt nothing is known.
  CHECK(rig.driver->mark({SlotSet::of(901), 8}, kMs).is_ok());
  CHECK(unfences() == 1);
  CHECK(rig.last(rig.new_node) == "REPLICATION POSITIONS 901");
  seen("permanent");
  CHECK(rig.driver->mark(rig.attempt, kMs).is_ok());
  CHECK(unfences() == 2);
  rig.new_answers["REPLICATION POSITIONS"] =
      "*1\r\n" + row(901, "master", "n", 3, "-", "permanent");
  CHECK(rig.driver->mark(rig.attempt, kMs).code() == Code::kCorrupt);
}

TEST_CASE("forecast: in sync only by role, link and history of every slot") {
  NodeRig rig;
  const SlotSet both = SlotSet::range(901, 902);
  const auto set = [&](const std::string& first, const std::string& second) {
    rig.new_answers["REPLICATION POSITIONS"] = "*2\r\n" + first + second;
  };
  rig.old_answers["REPLICATION POSITIONS"] =
      "*2\r\n" + row(901, "master", "h", 12, "-", "no") + row(902, "master", "h", 20, "-", "no");
  const std::string good = row(901, "slave", "h", 12, "up", "no");
  set(good, row(902, "slave", "h", 15, "up", "no"));
  CHECK(rig.driver->sync_state(both, kMs).following);
  CHECK(rig.driver->sync_state(both, kMs).lag == 5);
  set(good, row(902, "slave", "h", 99, "up", "no"));
  CHECK(rig.driver->sync_state(both, kMs).lag == 0);
  set(good, row(902, "slave", "h", 20, "copying", "no"));
  CHECK(rig.driver->sync_state(both, kMs).text.find("being copied") != std::string::npos);
  set(good, row(902, "slave", "g", 20, "up", "no"));
  CHECK(rig.driver->sync_state(both, kMs).text.find("history g") != std::string::npos);
  set(good, row(902, "master", "n", 20, "-", "no"));
  CHECK(!rig.driver->sync_state(both, kMs).following);
  set(good, row(902, "king", "h", 20, "up", "no"));
  CHECK(!rig.driver->sync_state(both, kMs).following);
  rig.new_answers["REPLICATION POSITIONS"] = "*1\r\n" + good;  // a slot is missing
  CHECK(!rig.driver->sync_state(both, kMs).following);
}

TEST_CASE("timeouts: no answer is unknown, and the next call dials again") {
  NodeRig rig;
  rig.old_node.set_rule([](const Words&) {
    return FakeAction{FakeAction::Kind::kWait, "+OK\r\n"};
  });
  CHECK(rig.driver->raise_epoch(rig.attempt, 50).code() == Code::kTimeout);
  rig.old_node.set_rule([](const Words&) { return FakeAction{FakeAction::Kind::kBreak, "+O"}; });
  CHECK(rig.driver->raise_epoch(rig.attempt, kMs).code() == Code::kTimeout);
  NodeRig::answers(rig.old_node, &rig.old_answers);
  CHECK(rig.driver->raise_epoch(rig.attempt, kMs).is_ok());
}

}  // namespace
}  // namespace sf
