// R02: what servers of several makes and ages say in INFO, and what is made of it.
#include "migrator/server_facts.h"

#include <doctest/doctest.h>

#include "common/resp/encoder.h"
#include "tests/support/fake_server.h"

namespace sf {
namespace {

// As recorded, but for the fields nobody reads.
const std::string kPika32 =
    "# Server\r\npika_version:3.2.9\r\nos:Linux\r\n\r\n# Replication(MASTER)\r\nrole:master\r\n"
    "connected_slaves:1\r\nslave0:ip=127.0.0.1,port=9222,conn_fd=61,lag=(db0:0)\r\n"
    "db0 binlog_offset=0 284,safety_purge=none\r\n";
const std::string kPika33 =
    "# Server\npika_version:3.3.6\n\n# Replication(MASTER)\nrole:master\n"
    "connected_slaves:0\ndb0 binlog_offset=1 90,safety_purge=none\n"
    "db1 binlog_offset=0 0,safety_purge=none\n";
const std::string kPika353 =
    "# Server\r\npika_version:3.5.3\r\n\r\n# Replication(SLAVE)\r\nrole:slave\r\n"
    "master_host:127.0.0.1\r\nmaster_port:9221\r\nmaster_link_status:up\r\n"
    "db0:binlog_offset=2 1323,safety_purge=none\r\ndb1:binlog_offset=0 7,safety_purge=none\r\n";
const std::string kPika355 =
    "# Server\r\npika_version:3.5.5\r\nrun_id:f15ef12d\r\n\r\n# "
    "Replication(MASTER)\r\nrole:master\r\n"
    "ReplicationID:\r\nconnected_slaves:0\r\nis_eligible_for_master_election:true\r\n"
    "db0:binlog_offset=0 1323,safety_purge=none\r\nslave_repl_offset:1323\r\n";
const std::string kPika40 =
    "# Server\r\npika_version:4.0.0\r\n\r\n# Replication(MASTER)\r\nrole:master\r\n"
    "connected_slaves:0\r\ndb0:binlog_offset=0 5,safety_purge=none\r\n";
const std::string kRedis =
    "# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\n\r\n# Replication\r\nrole:slave\r\n"
    "master_host:10.0.0.1\r\nmaster_port:6379\r\nmaster_link_status:up\r\n"
    "master_sync_in_progress:0\r\nslave_repl_offset:77\r\nmaster_repl_offset:77\r\n"
    "db0:keys=3,expires=0,avg_ttl=0\r\n";

std::string without_cr(std::string text) {
  std::erase(text, '\r');
  return text;
}

Result<ServerFacts> facts_of(const std::string& info, const std::string& mode = "classic") {
  FakeServer server;
  server.set_rule([&](const Words& request) {
    std::string out;
    if (request[0] == "CONFIG") {
      resp::array(out, mode.empty() ? 0 : 2);
      if (!mode.empty()) resp::bulk(out, "instance-mode");
      if (!mode.empty()) resp::bulk(out, mode);
      return FakeAction{FakeAction::Kind::kReply, out};
    }
    resp::bulk(out, info);
    return FakeAction{FakeAction::Kind::kReply, out};
  });
  Peer peer({.name = "old master", .address = {"127.0.0.1", server.port()}, .password = ""});
  return read_facts(peer);
}

TEST_CASE("R02: positions of every database, with either line end, or nothing at all") {
  CHECK(parse_info(kPika353)["db0"] == "binlog_offset=2 1323,safety_purge=none");
  CHECK(parse_info(kPika353)["db1"] == "binlog_offset=0 7,safety_purge=none");
  CHECK(parse_info(kPika355)["slave_repl_offset"] == "1323");
  // Without a colon the line is no field: absent, not 0.
  CHECK_FALSE(parse_info(kPika32).contains("db0"));
  CHECK_FALSE(parse_info(kPika33).contains("db1"));
  CHECK(info_number(parse_info(kPika353), "slave_repl_offset", -1) == -1);
  CHECK(info_number(parse_info(kPika355), "slave_repl_offset", -1) == 1323);
  CHECK(info_number(parse_info("a:full syncing\r\nb:(db0:0)\r\nc:\r\n"), "a", -1) == -1);
  CHECK(info_number(parse_info("a:full syncing\r\nb:(db0:0)\r\nc:\r\n"), "b", -1) == -1);
  CHECK(info_number(parse_info("a:full syncing\r\nb:(db0:0)\r\nc:\r\n"), "c", -1) == -1);
  for (const std::string& text : {kPika32, kPika33, kPika353, kPika355, kPika40, kRedis}) {
    CHECK(parse_info(text) == parse_info(without_cr(text)));
  }
}

TEST_CASE(
    "R02: a server this program cannot judge is refused by its name, never taken as caught up") {
  for (const char* version : {"3.2.9", "3.3.6", "3.5.3", "3.5.5", "4.0.0"}) {
    const std::string& text = std::string(version) == "3.2.9"   ? kPika32
                              : std::string(version) == "3.3.6" ? kPika33
                              : std::string(version) == "3.5.3" ? kPika353
                              : std::string(version) == "3.5.5" ? kPika355
                                                                : kPika40;
    const auto sharding = facts_of(text, "sharding");
    REQUIRE(sharding);
    CHECK(sharding->kind == ServerKind::kPikaSharding);
    const auto facts = facts_of(text, "cluster");
    REQUIRE_FALSE(facts);
    CHECK(facts.status().code() == Code::kRefused);
    CHECK(facts.status().text().find(cat("Pika ", version)) != std::string::npos);
    CHECK(facts.status().text().find("'cluster' mode") != std::string::npos);
    const auto classic = facts_of(text, std::string(version) == "4.0.0" ? "" : "classic");
    REQUIRE(classic);
    CHECK(classic->kind == ServerKind::kPika);
    CHECK(classic->version == version);
    CHECK(classic->binlog.contains("db0"));
  }
  CHECK_FALSE(facts_of("role:master\r\n"));
}

TEST_CASE(
    "R01 R02: a Pika's binlog is found beside its link, of every age; its master by any name") {
  const auto at = [](const std::string& text) {
    const auto facts = facts_of(text);
    REQUIRE(facts);
    return facts->binlog.at("db0");
  };
  CHECK(at(kPika32) == BinlogOffset{0, 284});
  CHECK(at(kPika353) == BinlogOffset{2, 1323});
  std::string replica = kPika353;
  replica.replace(replica.find("db0:"), 0, "repl_connect_status:\r\ndb0:connected\r\n");
  CHECK(at(replica) == BinlogOffset{2, 1323});
  // A link that is said to be up while a database says otherwise is not (R26).
  CHECK(facts_of(replica)->link_up);
  replica.replace(replica.find("connected\r"), 9, "syncing_full");
  CHECK_FALSE(facts_of(replica)->link_up);
  replica.replace(replica.find("binlog_offset=2 1323"), 20, "binlog_offset=2");
  CHECK_FALSE(facts_of(replica));
  std::string chained = kPika353;
  chained.replace(chained.find("role:slave"), 10, "role:master&&slave\r\nconnected_slaves:0");
  chained.replace(chained.find("master_host:127.0.0.1"), 21, "master_host:10.1.2.3");
  const auto facts = facts_of(chained);
  REQUIRE(facts);
  CHECK(facts->is_slave);
  CHECK(follows(*facts, {"10.1.2.3", 9221}));
  CHECK(follows(*facts, {"127.0.0.1", 9221}));
  CHECK_FALSE(follows(*facts, {"127.0.0.1", 9222}));
  CHECK_FALSE(follows(*facts, {"10.9.9.9", 9221}));
}

TEST_CASE("R01: a replica's link counts as up only if all of its words say so") {
  const auto facts = facts_of(kRedis);
  REQUIRE(facts);
  CHECK(facts->kind == ServerKind::kRedis);
  CHECK(facts->link_up);
  CHECK(facts->master == HostPort{"10.0.0.1", 6379});
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = kRedis;
    text.replace(text.find(from), from.size(), to);
    const auto changed = facts_of(text);
    return changed && changed->link_up;
  };
  CHECK_FALSE(with("master_link_status:up", "master_link_status:down"));
  CHECK_FALSE(with("master_link_status:up", "master_link_status:"));
  CHECK_FALSE(with("master_link_status:up", "x:y"));
  CHECK_FALSE(with("master_sync_in_progress:0", "master_sync_in_progress:1"));
}

}  // namespace
}  // namespace sf
