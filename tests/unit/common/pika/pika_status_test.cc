// Every text recorded from real Pika servers (tests/golden/pika), and broken ones. The .expect
// files were written by another parser than the one under test.
#include "common/pika/pika_status.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace sf {
namespace {

std::string whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string summary(const PikaReplication& from) {
  std::string out = cat("role=", from.is_master ? "master" : "slave", " id=");
  out += !from.replication_id           ? "absent"
         : from.replication_id->empty() ? "empty"
                                        : *from.replication_id;
  if (!from.is_master) {
    out += cat(" master=", from.master.text(), " link=", pika_link_text(from.link));
  }
  std::string binlog, replicas;
  for (const auto& [db, at] : from.binlog) {
    binlog += cat(binlog.empty() ? "" : " ", db, "=", at.text());
  }
  for (const PikaReplica& replica : from.replicas) {
    replicas += cat(replicas.empty() ? "" : "; ", replica.address.text(), " lag ");
    replicas +=
        replica.lag ? std::to_string(*replica.lag) : cat("unknown (", replica.lag_text, ")");
  }
  return cat(out, " binlog=[", binlog, "] slaves=[", replicas, "]\n");
}

std::string summary(const PikaServer& from) {
  return cat("version=", from.version, " threads=", from.sync_threads, " port=", from.port,
             " run=", from.run_id.empty() ? from.process : from.run_id, "\n");
}

std::string summary(const std::map<int, PikaSlot>& from) {
  std::string out;
  for (const auto& [number, slot] : from) {
    out += cat(number, " at ", slot.at.text(), slot.is_master ? " master" : " slave");
    if (!slot.is_master)
      out += cat(" of ", slot.master.text(), " link=", pika_link_text(slot.link));
    for (const PikaSlot::Replica& replica : slot.replicas) {
      out += cat(" replica ", replica.address.text(), " ", replica.state);
      if (replica.lag) out += cat(" lag ", *replica.lag);
    }
    out += "\n";
  }
  return out;
}

std::string summary(const std::vector<PikaTable>& from) {
  std::string out;
  for (const PikaTable& table : from) out += cat("table ", table.id, " slots ", table.slots, "\n");
  return out;
}

template <class T>
std::string told(const Result<T>& result) {
  return result ? summary(*result) : result.status().text();
}

TEST_CASE("R01 R02 every recorded Pika text is understood, with CRLF and with LF") {
  int seen = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(SF_SOURCE_DIR "/tests/golden/pika")) {
    if (entry.path().extension() != ".txt") continue;
    const std::string name = entry.path().stem().string();
    const std::string text = whole(entry.path());
    std::string other;  // with the other kind of line ends
    for (char c : text) {
      if (c == '\r') continue;
      if (c == '\n' && text.find('\r') == std::string::npos) other += '\r';
      other += c;
    }
    auto expect_path = entry.path();
    const std::string expect = whole(expect_path.replace_extension(".expect"));
    INFO(name);
    for (const std::string& form : {text, other}) {
      if (name.starts_with("replication")) CHECK(told(parse_pika_replication(form)) == expect);
      if (name.starts_with("server")) CHECK(told(parse_pika_server(form)) == expect);
      if (name.starts_with("slots")) CHECK(told(parse_pika_slots(form)) == expect);
      if (name.starts_with("tables")) CHECK(told(parse_pika_tables(form)) == expect);
    }
    ++seen;
  }
  CHECK(seen == 52);
}

const std::string kSlave =
    "# Replication(SLAVE)\nrole:slave\nReplicationID:abc\nmaster_host:10.0.0.1\nmaster_port:9221\n"
    "master_link_status:up\nrepl_connect_status:\ndb0:connected\nslave_priority:100\n"
    "is_eligible_for_master_election:true\ndb0:binlog_offset=3 1000,safety_purge=none\n";
const std::string kMaster =
    "role:master\nReplicationID:abc\nconnected_slaves:1\n"
    "slave0:ip=10.0.0.2,port=9221,conn_fd=74,lag=(db0:0)\ndb0:binlog_offset=3 1000,"
    "safety_purge=none\n";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("R01 a lag that is no number is unknown, never 0") {
  for (const std::string lag : {"(db0:full syncing)", "(db0:not syncing)", "(db0:)", "", "(db0:-1)",
                                "(db0:0)(db1:not syncing)", "(db0:0,db1:x)", "(db0:0x10)"}) {
    INFO(lag);
    const auto got = parse_pika_replication(with(kMaster, "(db0:0)", lag));
    REQUIRE(got.is_ok());
    CHECK_FALSE(got->replicas.at(0).lag.has_value());
  }
  CHECK(parse_pika_replication(with(kMaster, "(db0:0)", "(db0:3)(db1:7)"))->replicas[0].lag == 7);
  CHECK(parse_pika_replication(with(kMaster, "(db0:0)", "(db0:12345)"))->replicas[0].lag == 12345);
}

TEST_CASE("R02 the older form of the binlog line, several databases, none") {
  const auto older =
      parse_pika_replication(with(kSlave, "db0:binlog_offset=3 1000,safety_purge=none",
                                  "db0 binlog_offset=0 284,safety_purge=write2file0"));
  REQUIRE(older.is_ok());
  CHECK(older->binlog.at("db0") == BinlogOffset{0, 284});
  const auto two = parse_pika_replication(kMaster + "db1:binlog_offset=7 5,safety_purge=none\r\n");
  REQUIRE(two.is_ok());
  CHECK(two->binlog.at("db1") == BinlogOffset{7, 5});
  // slave_repl_offset alone says nothing about a file and an offset.
  const auto none = parse_pika_replication(
      with(kMaster, "db0:binlog_offset=3 1000,safety_purge=none", "slave_repl_offset:1000"));
  REQUIRE(none.is_ok());
  CHECK(none->binlog.empty());
}

TEST_CASE("R26 up is believed only if nothing contradicts it") {
  CHECK(parse_pika_replication(kSlave)->link == PikaLink::kUp);
  for (const std::string state : {"try_to_incr_sync", "connecting", "no_connect", "error", "new"}) {
    INFO(state);
    const auto got = parse_pika_replication(with(kSlave, "db0:connected", "db0:" + state));
    REQUIRE(got.is_ok());
    CHECK(got->link == PikaLink::kDown);
    CHECK(got->settled == (state != "connecting"));
  }
  const auto one_of_two =
      parse_pika_replication(with(kSlave, "db0:connected", "db0:connected\ndb1:connecting"));
  CHECK(one_of_two->link == PikaLink::kDown);
  const auto copying = parse_pika_replication(with(kSlave, "is_eligible_for_master_election:true",
                                                   "is_eligible_for_master_election:false"));
  CHECK(copying->link == PikaLink::kCopying);
}

TEST_CASE("R01 R02 what cannot be understood is an error that names the field") {
  const auto field_of = [](const std::string& text) {
    const auto got = parse_pika_replication(text);
    return got ? std::string("understood") : got.status().text();
  };
  const auto names = [&](const std::string& text, const char* field) {
    INFO(text);
    CHECK(field_of(text).find(field) != std::string::npos);
  };
  names("", "role");
  names(with(kSlave, "role:slave", "role:replica"), "role");
  names(with(kSlave, "role:slave", "role:"), "role");
  names(with(kSlave, "role:slave", "role:slave\nrole:master"), "role");
  names(with(kSlave, "master_host:10.0.0.1\n", ""), "master_host");
  names(with(kSlave, "master_port:9221", "master_port:x"), "master_port");
  names(with(kSlave, "master_port:9221", "master_port:99999"), "master_port");
  names(with(kSlave, "master_link_status:up\n", ""), "master_link_status");
  names(with(kSlave, "master_link_status:up", "master_link_status:yes"), "master_link_status");
  names(with(kMaster, "connected_slaves:1\n", ""), "connected_slaves");
  names(with(kMaster, "connected_slaves:1", "connected_slaves:2"), "connected_slaves");
  names(with(kMaster, "ip=10.0.0.2,", ""), "slave0");
  for (const std::string offset :
       {"binlog_offset=", "binlog_offset=3", "binlog_offset=3 ", "binlog_offset=-1 5",
        "binlog_offset=3 1000 7", "binlog_offset=3:1000", "binlog_offset=99999999 1",
        "binlog_offset=0 18446744073709551615", "binlog_offset=3 1e3"}) {
    names(with(kMaster, "binlog_offset=3 1000", offset), "binlog_offset");
  }
  names(kMaster + "db0:binlog_offset=3 1001,safety_purge=none\n", "binlog_offset");
  names(kMaster + "binlog_offset=3 1001\n", "binlog_offset");
}

TEST_CASE("R02 INFO server: what is missing or strange is named") {
  const std::string good =
      "pika_version:3.4.0\r\nprocess_id:15174\r\ntcp_port:19331\r\nsync_thread_num:6\r\n";
  REQUIRE(parse_pika_server(good).is_ok());
  CHECK(parse_pika_server(good)->process == "pid 15174");
  for (const char* field : {"pika_version", "process_id", "tcp_port", "sync_thread_num"}) {
    INFO(field);
    std::string without;
    for (std::string_view line : split(good, '\n')) {
      if (!line.starts_with(field)) without += cat(line, "\n");
    }
    CHECK(parse_pika_server(without).status().text().find(field) != std::string::npos);
  }
  CHECK_FALSE(parse_pika_server(with(good, "3.4.0", "unstable")).is_ok());
  CHECK_FALSE(parse_pika_server(with(good, "sync_thread_num:6", "sync_thread_num:0")).is_ok());
}

TEST_CASE("R01 R02 PKCLUSTER INFO SLOT: what is missing or strange is named") {
  const std::string slave =
      "(db0:0) binlog_offset=0 961,safety_purge=none\r\n  Role: Slave\r\n  master: "
      "127.0.0.1:19331\r\n"
      "  slave status: kConnected\r\n\r\n";
  REQUIRE(parse_pika_slots(slave).is_ok());
  const std::vector<std::pair<std::string, std::string>> broken = {
      {"binlog_offset=0 961", "binlog_offset=0"},
      {"binlog_offset=0 961,safety_purge=none", ""},
      {"Role: Slave", "Role: Both"},
      {"  Role: Slave\r\n", ""},
      {"  master: 127.0.0.1:19331\r\n", ""},
      {"127.0.0.1:19331", "127.0.0.1"},
      {"kConnected", "kFine"},
      {"  slave status: kConnected\r\n", ""},
      {"(db0:0)", "(db0:x)"},
      {"(db0:0)", "db0 0"}};
  for (const auto& [from, to] : broken) {
    INFO(from);
    const auto got = parse_pika_slots(with(slave, from, to));
    CHECK_FALSE(got.is_ok());
  }
  CHECK_FALSE(parse_pika_slots(slave + slave).is_ok());
  CHECK(parse_pika_slots(slave)->at(0).state == "kConnected");
  CHECK_FALSE(parse_pika_slots(with(slave, "Slave", "Master")).is_ok());  // and a master of its own
  CHECK_FALSE(parse_pika_slots("  Role: Master\r\n").is_ok());
  CHECK(parse_pika_slots("\r\n")->empty());
  // A slot that has a replica and follows is a slave: it cannot be written to.
  const std::string both = with(slave, "  Role: Slave\r\n",
                                "  Role: Master\r\n  connected_slaves: 1\r\n  slave[0]: "
                                "127.0.0.1:19332\r\n  replication_status: SlaveBinlogSync\r\n"
                                "  lag: 0\r\n  -----------\r\n  Role: Slave\r\n");
  const auto chain = parse_pika_slots(both);
  REQUIRE_MESSAGE(chain.is_ok(), chain.status().text());
  CHECK_FALSE(chain->at(0).is_master);
  CHECK(chain->at(0).link == PikaLink::kUp);
  CHECK(chain->at(0).replicas.size() == 1);
  CHECK_FALSE(parse_pika_slots(with(both, "connected_slaves: 1", "connected_slaves: 2")).is_ok());
  CHECK(parse_pika_slots("")->empty());
}

}  // namespace
}  // namespace sf
