#include "storage_node/replica/slot_record.h"

#include <doctest/doctest.h>

#include "storage_node/replica/wait_table.h"

namespace sf {
namespace {

TEST_CASE("slot record: survives its byte form, damage is noticed at every length") {
  SlotRecord record;
  record.followed = true;
  record.master = {"10.0.0.7", 9221};
  record.placed = true;
  record.fenced = true;
  record.fence_plan = "g3-g4";
  record.fence_epoch = 7;
  record.new_owner = "10.0.0.8:9221";
  record.mark = 0;
  record.promote_plan = "g3-g4";
  record.promote_epoch = 6;
  record.promote_applied = 99;
  record.promote_own = {std::string(40, 'a'), 12};
  std::string bytes = encode_slot_record(record);
  auto back = decode_slot_record(bytes);
  REQUIRE(back);
  CHECK(encode_slot_record(*back) == bytes);
  CHECK(back->mark == 0);
  CHECK(back->master == record.master);
  CHECK(back->promote_own == record.promote_own);
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode_slot_record(bytes.substr(0, n)));
  CHECK_FALSE(decode_slot_record(bytes + "x"));
  record.left = {std::string(40, 'c'), 300};
  bytes = encode_slot_record(record);
  back = decode_slot_record(bytes);
  REQUIRE(back);
  CHECK(back->left == record.left);
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decode_slot_record(bytes.substr(0, n)));
  CHECK_FALSE(decode_slot_record(bytes + "x"));
  CHECK(SlotRecord().ordinary());
  CHECK_FALSE(back->ordinary());
}

TEST_CASE("slot record: who takes over from a replica knows no state of a followed slot (I2)") {
  SlotRecord record;
  record.fenced = true;
  record.mark = 12;
  record.left = {std::string(40, 'c'), 300};
  const auto shared = [&record] {
    SysRecords records;
    put_slot_record(5, record, records);
    auto decoded = decode_slot_record(records.back().second.value());
    REQUIRE(decoded);
    return *decoded;
  };
  CHECK(shared().mark == 12);
  CHECK(shared().left == record.left);
  record.followed = record.placed = true;
  record.master = {"10.0.0.8", 9221};
  CHECK(shared().fenced);
  CHECK_FALSE(shared().mark);
  CHECK(shared().left.history.empty());
}

TEST_CASE("slot record: epochs, positions and the replica record survive") {
  std::map<std::string, uint64_t> epochs{{"p", 1}, {"a plan", 1ULL << 60}};
  CHECK(*decode_epochs(encode_epochs(epochs)) == epochs);
  CHECK(decode_epochs(encode_epochs({}))->empty());
  Position position{std::string(40, 'b'), 77};
  CHECK(*decode_position(encode_position(position)) == position);
  CHECK_FALSE(decode_position("\2"));
  auto full = decode_full(encode_full({{"h", 1}, false}));
  REQUIRE(full);
  CHECK_FALSE(full->mirror);
  CHECK(slot_record_name(905) == "repl/slot/0905");
  CHECK(stream_record_name({"h", 9}) == "repl/stream/h:9");
}

TEST_CASE("wait table: wakes when the last slot is there, once, and forgets who left") {
  WaitTable table;
  std::map<int, uint64_t> at;
  auto reached = [&](int slot, const Position& want) { return at[slot] >= want.seq; };
  int woken = 0;
  SlotSet slots = SlotSet::range(1, 3);
  uint64_t id = table.add(
      slots, {"h", 5}, [&] { ++woken; }, reached);
  CHECK(id != 0);
  at[1] = at[3] = 5;
  table.moved(reached);
  CHECK(woken == 0);
  at[2] = 6;
  table.moved(reached);
  table.moved(reached);
  CHECK(woken == 1);
  CHECK_FALSE(table.remove(id));
  CHECK(table.add(
            slots, {"h", 5}, [&] { ++woken; }, reached) == 0);
  id = table.add(
      slots, {"h", 9}, [&] { ++woken; }, reached);
  CHECK(table.remove(id));
  CHECK(table.empty());
  CHECK(woken == 1);
}

}  // namespace
}  // namespace sf
