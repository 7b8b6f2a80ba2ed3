#include "replication/wire.h"

#include <doctest/doctest.h>

#include "common/base/coding.h"
#include "common/base/random.h"
#include "common/resp/request_parser.h"

namespace sf::wire {
namespace {

const std::string kA(40, 'a');

std::string key(int db, int slot, std::string_view rest) {
  std::string out;
  out.push_back(static_cast<char>(db));
  put_big16(out, static_cast<uint16_t>(slot));
  out.append(rest);
  return out;
}

template <class Decoded, class Message>
Decoded round(const Message& message, Result<Decoded> (*decode)(std::span<const std::string_view>),
              std::string& bytes) {
  bytes.clear();
  encode(bytes, Decoded(message));
  RequestParser parser;
  Request request;
  REQUIRE(parser.parse(bytes, &request) == RequestParser::Outcome::kRequest);
  auto back = decode(request.argv);
  REQUIRE_MESSAGE(back, back.status().text());
  std::string again;
  encode(again, *back);
  CHECK(again == bytes);
  return *back;
}

TEST_CASE("wire: every message survives the way over RESP") {
  std::string bytes;
  Sync sync{kProtocol,
            "run",
            9221,
            false,
            {{SlotSet::range(901, 1023), Position{kA, 7}}, {SlotSet::of(5), {}}}};
  auto back = round<FromReplica>(sync, decode_replica, bytes);
  CHECK(std::get<Sync>(back).groups.size() == 2);
  CHECK_FALSE(std::get<Sync>(back).groups[1].position);
  round<FromReplica>(Fetch{1023}, decode_replica, bytes);
  round<FromReplica>(StreamFrom{{kA, 3}}, decode_replica, bytes);
  round<FromReplica>(Ack{5, 4}, decode_replica, bytes);
  round<FromReplica>(Drop{SlotSet::range(1, 3)}, decode_replica, bytes);
  round<FromReplica>(Placed{SlotSet::of(7)}, decode_replica, bytes);
  round<FromReplica>(Want{{{SlotSet::of(7), {}}, {SlotSet::of(8), Position{kA, 4}}}},
                     decode_replica, bytes);
  Hello hello{kProtocol, "me", 12, {}, SlotSet::of(1), {}};
  REQUIRE(hello.chain.add({kA, "", 0}));
  round<FromMaster>(hello, decode_master, bytes);
  round<FromMaster>(Refuse{false, "a node cannot follow itself"}, decode_master, bytes);
  round<FromMaster>(CopyDone{7, {kA, 9}, 5, 1, 2, 3}, decode_master, bytes);
  round<FromMaster>(Frame{1, 9, 1700000000000, 8, "xyz"}, decode_master, bytes);
  round<FromMaster>(Reload{4, 5, 1, SlotSet::of(9)}, decode_master, bytes);
  round<FromMaster>(NewHistory{{kA, "", 4}}, decode_master, bytes);
  round<FromMaster>(Ping{44, 7}, decode_master, bytes);
  round<FromMaster>(Lost{"gone"}, decode_master, bytes);
  round<FromMaster>(Took{SlotSet::of(3), SlotSet::of(4)}, decode_master, bytes);
  round<FromMaster>(GetAck{}, decode_master, bytes);
}

TEST_CASE("wire: a damaged chunk is noticed") {
  std::string bytes;
  encode_chunk(bytes, 3, 1, 10, "file content");
  RequestParser parser;
  Request request;
  REQUIRE(parser.parse(bytes, &request) == RequestParser::Outcome::kRequest);
  CHECK(decode_master(request.argv));
  size_t at = bytes.find("content");
  bytes[at] = 'X';
  RequestParser second;
  REQUIRE(second.parse(bytes, &request) == RequestParser::Outcome::kRequest);
  auto damaged = decode_master(request.argv);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.status().code() == Code::kCorrupt);
}

TEST_CASE("wire: nonsense is refused, not believed") {
  using Args = std::vector<std::string_view>;
  for (const Args& args :
       {Args{"fetch"}, Args{"fetch", "1024"}, Args{"fetch", "-1"}, Args{"ack", "1"},
        Args{"nothing"}, Args{"stream", "xx", "1"}, Args{"drop", "9-3"},
        Args{"REPLICATION", "SYNC", "1", "r", "1", "half"},
        Args{"REPLICATION", "SYNC", "1", "r", "1", "full", "1-5", "-", "0", "5", "-", "0"}}) {
    CHECK_FALSE(decode_replica(args));
  }
  for (const Args& args :
       {Args{"frame", "9", "3", "1", "1", ""}, Args{"reload", "3", "5", "1", "9"},
        Args{"hello", "1"}, Args{"copydone", "1", "-"}, Args{}}) {
    CHECK_FALSE(decode_master(args));
  }
}

TEST_CASE("wire: records survive; cut ones are refused at every length") {
  std::string bytes;
  std::string k = key(0, 7, "k");
  encode_record(bytes, {5, 1700000000123, {{1, 0, k, "v"}, {2, 1, k, ""}}});
  encode_record(bytes, {9, 1700000000124, {}});
  auto records = decode_records(bytes);
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  CHECK((*records)[0].ops[0].value == "v");
  CHECK((*records)[0].time_ms == 1700000000123);
  size_t first = 0;
  std::string one;
  encode_record(one, {5, 1700000000123, {{1, 0, k, "v"}, {2, 1, k, ""}}});
  first = one.size();
  for (size_t n = 1; n < bytes.size(); ++n) {
    if (n != first) CHECK_FALSE(decode_records(std::string_view(bytes).substr(0, n)));
  }
  encode_record(bytes, {9, 1, {}});  // not ascending
  CHECK_FALSE(decode_records(bytes));
}

TEST_CASE("wire: random bytes never crash the decoders") {
  Random random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes;
    for (uint64_t n = random.below(40); n > 0; --n)
      bytes.push_back(static_cast<char>(random.next()));
    (void)decode_records(bytes);
  }
}

std::vector<StreamOp> filtered(const StreamOp& op, const SlotSet& slots, KeyArena& arena) {
  std::vector<StreamOp> out;
  REQUIRE(filter_op(
      op, [&](int s) { return slots.contains(s); }, arena, &out));
  return out;
}

TEST_CASE("wire: changes are filtered by slot, ranges clipped to the followed slots") {
  KeyArena arena;
  std::string k7 = key(0, 7, "k");
  CHECK(filtered({1, 0, k7, "v"}, SlotSet::of(7), arena).size() == 1);
  CHECK(filtered({1, 0, k7, "v"}, SlotSet::of(8), arena).empty());
  // A flush of db 0 as one range over all slots.
  std::string begin = key(0, 0, "");
  std::string end = key(1, 0, "");
  auto parts = filtered({3, 1, begin, end}, SlotSet::range(10, 11), arena);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].key == key(0, 10, ""));
  CHECK(parts[0].value == key(0, 11, ""));
  CHECK(parts[1].value == key(0, 12, ""));
  // Part of a slot stays as it is; two dbs are walked both.
  std::string a = key(3, 1023, "a");
  std::string b = key(3, 1023, "b");
  parts = filtered({3, 0, a, b}, SlotSet::of(1023), arena);
  REQUIRE(parts.size() == 1);
  CHECK(parts[0].value == b);
  std::string far = key(5, 3, "x");
  parts = filtered({3, 0, a, far}, SlotSet::of(2), arena);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].key == key(4, 2, ""));
  CHECK(parts[1].key == key(5, 2, ""));
  std::vector<StreamOp> out;
  CHECK_FALSE(filter_op(
      {1, 0, "k", ""}, [](int) { return true; }, arena, &out));
}

}  // namespace
}  // namespace sf::wire
