// What PKCLUSTER INFO SLOT says is read in common/pika; here: whom a slot follows.
#include "migrator/pika_slots.h"

#include <doctest/doctest.h>

namespace sf {
namespace {

PikaSlot slot_of_text(const std::string& text) {
  const auto slots = parse_pika_slots(text);
  REQUIRE_MESSAGE(slots.is_ok(), slots.status().text());
  REQUIRE(slots->size() == 1);
  return slots->begin()->second;
}

TEST_CASE("R02: whom a slot of a sharding Pika follows, by the address told or its interface's") {
  const std::string slave =
      "(db0:0) binlog_offset=0 961,safety_purge=none\r\n  Role: Slave\r\n"
      "  master: 10.1.2.3:19331\r\n  slave status: ";
  const PikaSlot row = slot_of_text(slave + "kConnected\r\n");
  CHECK(link_up(row));
  CHECK(row.state == "kConnected");
  CHECK_FALSE(link_up(slot_of_text(slave + "kWaitDBSync\r\n")));
  CHECK(follows(row, {"10.1.2.3", 19331}));
  CHECK(follows(row, {"127.0.0.1", 19331}));
  CHECK_FALSE(follows(row, {"10.1.2.4", 19331}));
  CHECK_FALSE(follows(row, {"127.0.0.1", 19332}));
  const PikaSlot master = slot_of_text(
      "(db0:0) binlog_offset=0 961,safety_purge=none\r\n  Role: Master\r\n"
      "  connected_slaves: 0\r\n\r\n");
  CHECK_FALSE(follows(master, {"127.0.0.1", 19331}));
  CHECK_FALSE(link_up(master));
}

TEST_CASE("R02: a slot that follows and has slaves of its own follows (3.4.0, recorded)") {
  const PikaSlot row = slot_of_text(
      "(db0:901) binlog_offset=0 72,safety_purge=none\r\n  Role: Master\r\n"
      "  connected_slaves: 1\r\n  slave[0]: 127.0.0.1:26183\r\n"
      "  replication_status: SlaveNotSync\r\n  -----------\r\n  Role: Slave\r\n"
      "  master: 127.0.0.1:29680\r\n  slave status: kConnected\r\n\r\n");
  CHECK(link_up(row));
  CHECK(follows(row, {"127.0.0.1", 29680}));
  REQUIRE(row.replicas.size() == 1);
  CHECK(row.replicas[0].address == HostPort{"127.0.0.1", 26183});
}

}  // namespace
}  // namespace sf
