// The fake Pika does what was recorded from real ones, fault by fault.
#include "tests/support/fake_pika/fake_pika.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "common/base/strings.h"

namespace sf::fake_pika {
namespace {

bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a server can only be asked
  }
  return false;
}

bool has(FakePika& pika, const Words& question, const std::string& part) {
  return pika.call(question).find(part) != std::string::npos;
}

struct Pair {
  explicit Pair(PikaOptions options = {}) : master(options), slave(options) {}
  void follow() {
    slave.call({"SLAVEOF", "127.0.0.1", std::to_string(master.port())});
    REQUIRE(eventually([&] { return has(slave, {"INFO", "replication"}, "status:up"); }));
  }
  bool equal_offsets() {
    const auto at = [](FakePika& pika) {
      const std::string text = pika.call({"INFO", "replication"});
      const size_t mark = text.find("binlog_offset=");
      return text.substr(mark, text.find(',', mark) - mark);
    };
    return at(master) == at(slave);
  }
  FakePika master, slave;
};

TEST_CASE("fake pika: a copy, then the stream; offsets as recorded") {
  Pair pair;
  pair.master.call({"SET", "k", "v"});
  CHECK(has(pair.master, {"INFO", "replication"}, "db0:binlog_offset=0 69,safety_purge=none"));
  pair.follow();
  CHECK(pair.slave.call({"GET", "k"}) == "$1\r\nv\r\n");
  pair.master.call({"HSET", "h", "f", "v"});
  pair.master.call({"SET", "t", "x", "EX", "100"});
  CHECK(eventually([&] {
    return pair.slave.call({"TTL", "t"}) == ":100\r\n" ||
           pair.slave.call({"TTL", "t"}) == ":99\r\n";
  }));
  CHECK(pair.equal_offsets());
  CHECK(has(pair.slave, {"SET", "a", "b"}, "-ERR READONLY"));
  CHECK(has(pair.master, {"INFO", "replication"}, "lag=(db0:0)"));
  // Leaving and coming back needs no copy.
  pair.slave.call({"SLAVEOF", "NO", "ONE"});
  pair.master.call({"SET", "later", "1"});
  pair.follow();
  CHECK(eventually([&] { return pair.slave.call({"GET", "later"}) == "$1\r\n1\r\n"; }));
}

TEST_CASE("fake pika: acknowledged before applied, and applied over a promoted node's own writes") {
  for (const bool late : {true, false}) {
    Pair pair;
    pair.follow();
    pair.slave.call({"FAKE", "SET", "apply_delay_ms", "100"});
    pair.slave.call({"FAKE", "SET", "late_apply", late ? "1" : "0"});
    pair.master.call({"SET", "k", "old"});
    REQUIRE(eventually([&] { return pair.equal_offsets(); }));
    CHECK(has(pair.master, {"INFO", "replication"}, "lag=(db0:0)"));
    CHECK(pair.slave.call({"GET", "k"}) == "$-1\r\n");
    pair.slave.call({"SLAVEOF", "NO", "ONE"});
    CHECK(pair.slave.call({"SET", "k", "new"}) == "+OK\r\n");
    REQUIRE(eventually([&] { return pair.slave.call({"FAKE", "QUEUED"}) == ":0\r\n"; }));
    CHECK(pair.slave.call({"GET", "k"}) == (late ? "$3\r\nold\r\n" : "$3\r\nnew\r\n"));
  }
}

TEST_CASE(
    "fake pika: kill -9 of a slave loses its queue for ever; a slaveof in the file comes back") {
  Pair pair;
  pair.follow();
  pair.slave.call({"CONFIG", "REWRITE"});
  pair.slave.call({"FAKE", "SET", "apply_delay_ms", "10000"});
  pair.master.call({"SET", "k", "v"});
  REQUIRE(eventually([&] { return pair.equal_offsets(); }));
  const std::string before = pair.slave.call({"INFO", "server"});
  pair.slave.call({"FAKE", "CRASH"});
  CHECK(eventually([&] { return pair.slave.call({"INFO", "server"}) != before; }));
  CHECK(eventually([&] { return has(pair.slave, {"INFO", "replication"}, "status:up"); }));
  CHECK(pair.equal_offsets());
  CHECK(pair.slave.call({"GET", "k"}) == "$-1\r\n");
}

TEST_CASE("fake pika: what the binlog says otherwise") {
  Pair pair;
  pair.master.call({"FAKE", "SET", "ttl_lost", "1"});
  pair.master.call({"FAKE", "SET", "append_empty", "1"});
  pair.master.call({"SET", "n", "1", "EX", "1000"});
  pair.follow();
  pair.master.call({"INCR", "n"});
  pair.master.call({"APPEND", "a", "text"});
  CHECK(eventually([&] { return pair.slave.call({"GET", "a"}) == "$0\r\n\r\n"; }));
  CHECK(pair.slave.call({"GET", "n"}) == "$1\r\n2\r\n");
  CHECK(pair.slave.call({"TTL", "n"}) == ":-1\r\n");
  CHECK(pair.master.call({"GET", "a"}) == "$4\r\ntext\r\n");
}

TEST_CASE("fake pika: streams left out of the copy, SLAVEOF during it, the endless one") {
  Pair pair;
  pair.master.call({"FAKE", "SET", "no_streams_in_copy", "1"});
  pair.master.call({"FAKE", "SET", "copy_ms", "50"});
  pair.master.call({"XADD", "st", "*", "f", "v"});
  pair.slave.call({"SLAVEOF", "127.0.0.1", std::to_string(pair.master.port())});
  CHECK(eventually([&] { return has(pair.slave, {"INFO"}, "db0:syncing_full"); }));
  CHECK(has(pair.slave, {"INFO"}, "is_eligible_for_master_election:false"));
  CHECK(has(pair.master, {"INFO"}, "lag=(db0:full syncing)"));
  CHECK(eventually([&] { return has(pair.slave, {"INFO"}, "status:up"); }));
  CHECK(has(pair.slave, {"XLEN", "st"}, "no such key"));
  CHECK(pair.master.call({"XLEN", "st"}) == ":1\r\n");

  pair.master.call({"FAKE", "SET", "endless_copy", "1"});
  pair.master.call({"PURGELOGSTO", "write2file0"});
  CHECK(eventually([&] { return has(pair.slave, {"INFO"}, "db0:syncing_full"); }));
  CHECK(eventually([&] { return has(pair.slave, {"INFO"}, "db0:try_to_incr_sync"); }));
  CHECK(eventually([&] { return has(pair.slave, {"INFO"}, "db0:syncing_full"); }));
  pair.slave.call({"FAKE", "SET", "wedge", "1"});
  CHECK(pair.slave.call({"SLAVEOF", "NO", "ONE"}).empty());
  CHECK(pair.slave.call({"INFO"}).empty());
}

TEST_CASE("fake pika: slots of 3.4 follow one by one") {
  PikaOptions options;
  options.version = "3.4.0";
  options.sharding = true;
  options.slot_num = 16;
  options.slots = "0-15";
  Pair pair(options);
  for (int i = 0; i < 200; ++i) pair.master.call({"SET", cat("k", i), cat("v", i)});
  pair.master.call({"MSET", "x", "1", "y", "2"});
  pair.master.call({"DEL", "k1", "k2"});
  // As recorded.
  const std::string text = pair.master.call({"PKCLUSTER", "INFO", "SLOT", "0-2"});
  for (const char* end : {"=0 961,", "=0 963,", "=0 890,"})
    CHECK(text.find(end) != std::string::npos);
  pair.slave.call(
      {"PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", std::to_string(pair.master.port()), "0-3"});
  CHECK(eventually([&] {
    return has(pair.slave, {"PKCLUSTER", "INFO", "SLOT", "3"}, "kConnected");
  }));
  CHECK(has(pair.slave, {"PKCLUSTER", "INFO", "SLOT", "4"}, "Role: Master"));
  CHECK(eventually([&] { return pair.slave.call({"GET", "k5"}) == "$2\r\nv5\r\n"; }));
  CHECK(has(pair.slave, {"SET", "k5", "x"}, "Server in read-only"));
  pair.slave.call({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", "0-3"});
  CHECK(pair.slave.call({"SET", "k5", "x"}) == "+OK\r\n");
}

TEST_CASE("fake pika: a write of a connection that is gone") {
  FakePika pika(PikaOptions{});
  pika.call({"FAKE", "ON", "INFO", "2", "SET", "late", "1"});
  CHECK(pika.call({"GET", "late"}) == "$-1\r\n");
  pika.call({"INFO", "replication"});
  CHECK(pika.call({"GET", "late"}) == "$-1\r\n");
  pika.call({"INFO", "replication"});
  CHECK(pika.call({"GET", "late"}) == "$1\r\n1\r\n");
}

}  // namespace
}  // namespace sf::fake_pika
