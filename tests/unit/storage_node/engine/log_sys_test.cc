#include "tests/unit/storage_node/engine/engine_fixture.h"

namespace sf {
namespace {

const std::string kName = std::string(kSharedPrefix) + "slot/0007";

uint64_t log_sys(EngineFixture& f, const SysRecords& records) {
  uint64_t end = 0;
  REQUIRE(f.engine->with_gate([&](Gate& gate) {
    auto logged = gate.log_sys(records, true);
    if (logged) end = *logged;
    return logged.status();
  }));
  return end;
}

TEST_CASE("shared records are entries of the log that touch no slot (I1, I3)") {
  EngineFixture f;
  REQUIRE(f.try_set("a", "1"));
  uint64_t told = 0;
  int id = f.engine->subscribe([&](uint64_t seq) { told = seq; });
  bool with_memory = false;
  SUBCASE("read from the files") {
    f.engine->unsubscribe(id);
  }
  SUBCASE("read from memory") {
    with_memory = true;
  }
  CHECK(log_sys(f, {{kName, "fenced"}, {"repl/slot/0007", "own"}}) == 2);
  CHECK(told == (with_memory ? 2 : 0));
  CHECK(log_sys(f, {{kName, std::nullopt}}) == 3);
  CHECK(log_sys(f, {{"repl/slot/0008", "own"}}) == 3);  // not shared: no entry
  CHECK(f.engine->slot_seq(slot_of("a")) == 1);
  auto log = f.engine->read_log(1, 1000);
  REQUIRE(log);
  REQUIRE(log->size() == 2);
  const LogEntry& put = log->front();
  CHECK(put.slots.empty());
  REQUIRE(put.ops->size() == 1);
  CHECK(put.ops->front().cf == Cf::kSys);
  CHECK(put.ops->front().key == kName);
  CHECK(put.ops->front().value == "fenced");
  CHECK(log->back().ops->front().kind == WriteOp::Kind::kDelete);
  if (with_memory) f.engine->unsubscribe(id);
  CHECK(*f.engine->get_sys("repl/slot/0007") == "own");
  f.reopen();
  CHECK(f.engine->last_seq() == 3);
}

TEST_CASE("shared records of a master are applied with its numbers; other records are refused") {
  EngineFixture f;
  ApplyRequest request;
  request.as_seq = 5;
  request.ops = {{WriteOp::Kind::kPut, Cf::kSys, kName, "fenced"}};
  REQUIRE(f.engine->apply(request));
  CHECK(*f.engine->get_sys(kName) == "fenced");
  auto log = f.engine->read_log(4, 1000);
  REQUIRE(log);
  REQUIRE(log->size() == 1);
  CHECK(log->front().ops->size() == 1);
  request.as_seq = 6;
  request.ops = {{WriteOp::Kind::kPut, Cf::kSys, "repl/full", "x"}};
  CHECK_FALSE(f.engine->apply(request));
  CHECK(f.engine->last_seq() == 5);
}

}  // namespace
}  // namespace sf
