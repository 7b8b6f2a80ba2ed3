// Lines as recorded from Pika 3.4.0 in sharding mode.
#include "migrator/pika_slots.h"

#include <doctest/doctest.h>

namespace sf {
namespace {

const std::string kMasters =
    "(db0:0) binlog_offset=0 961,safety_purge=none\r\n  Role: Master\r\n  connected_slaves: 1\r\n"
    "  slave[0]: 127.0.0.1:19332\r\n  replication_status: SlaveBinlogSync\r\n  lag: 0\r\n\r\n"
    "(db0:1) binlog_offset=2 963,safety_purge=none\r\n  Role: Master\r\n  connected_slaves: 0\r\n"
    "\r\n\r\n";
const std::string kSlaves =
    "(db0:0) binlog_offset=0 961,safety_purge=none\r\n  Role: Slave\r\n  master: 10.1.2.3:19331\r\n"
    "  slave status: kConnected\r\n\r\n"
    "(db0:1) binlog_offset=0 0,safety_purge=none\r\n  Role: Slave\r\n  master: 10.1.2.3:19331\r\n"
    "  slave status: kWaitDBSync\r\n\r\n\r\n";

TEST_CASE("R02: slots of a sharding Pika, masters and slaves, as it says them") {
  const auto masters = parse_pika_slot_rows(kMasters);
  REQUIRE_MESSAGE(masters.is_ok(), masters.status().text());
  REQUIRE(masters->size() == 2);
  CHECK_FALSE(masters->at(0).is_slave);
  CHECK(masters->at(0).replicas == std::vector<std::string>{"127.0.0.1:19332"});
  CHECK(masters->at(1).replicas.empty());
  CHECK(masters->at(1).file == 2);
  CHECK(masters->at(1).offset == 963);
  CHECK_FALSE(follows(masters->at(0), {"127.0.0.1", 19331}));
  const auto slaves = parse_pika_slot_rows(kSlaves);
  REQUIRE_MESSAGE(slaves.is_ok(), slaves.status().text());
  CHECK(slaves->at(0).link_up());
  CHECK_FALSE(slaves->at(1).link_up());
  CHECK(follows(slaves->at(0), {"10.1.2.3", 19331}));
  CHECK(follows(slaves->at(0), {"127.0.0.1", 19331}));
  CHECK_FALSE(follows(slaves->at(0), {"10.1.2.4", 19331}));
  CHECK_FALSE(follows(slaves->at(0), {"127.0.0.1", 19332}));
}

// Recorded from 3.4.0 (tests/golden/pika/slots_17.txt).
TEST_CASE("R02: a slot that follows and has slaves of its own is a slave with replicas") {
  const auto rows = parse_pika_slot_rows(
      "(db0:901) binlog_offset=0 72,safety_purge=none\r\n  Role: Master\r\n"
      "  connected_slaves: 1\r\n  slave[0]: 127.0.0.1:26183\r\n"
      "  replication_status: SlaveNotSync\r\n  -----------\r\n  Role: Slave\r\n"
      "  master: 127.0.0.1:29680\r\n  slave status: kConnected\r\n\r\n");
  REQUIRE_MESSAGE(rows.is_ok(), rows.status().text());
  CHECK(rows->at(901).link_up());
  CHECK(rows->at(901).master == HostPort{"127.0.0.1", 29680});
  CHECK(rows->at(901).replicas == std::vector<std::string>{"127.0.0.1:26183"});
}

TEST_CASE("R02: none held is no error, and a text cut short is never a master") {
  const auto none = parse_pika_slot_rows("\r\n");
  REQUIRE(none.is_ok());
  CHECK(none->empty());
  for (const std::string text :
       {"(db0:0) binlog_offset=0 961,safety_purge=none\r\n", "(db0:0) binlog_offset=,x\r\n",
        "(db0:2000) binlog_offset=0 1,x\r\n  Role: Master\r\n", "  Role: Master\r\n",
        "(db0:0) binlog_offset=0 1,x\r\n  Role: Slave\r\n  slave status: kConnected\r\n",
        "(db0:0) binlog_offset=0 1,x\r\n  Role: Slave\r\n  master: 10.1.2.3:1\r\n",
        "(db0:0) binlog_offset=0 1,x\r\n  Role: Master\r\n  master: 10.1.2.3:1\r\n"}) {
    CHECK_MESSAGE(parse_pika_slot_rows(text).status().code() == Code::kCorrupt, text);
  }
}

}  // namespace
}  // namespace sf
