#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

void flag(EngineFixture& f, int slot, uint8_t flags, int64_t until = 0) {
  REQUIRE(f.engine->with_gate([&](Gate& gate) {
    gate.set_flags(slot, flags);
    gate.set_fence_until(slot, until);
    return Status::ok();
  }));
}

}  // namespace

TEST_CASE("I1: a fenced slot refuses writes, retryably and by name, others take them") {
  EngineFixture f;
  const int slot = slot_of("a");
  flag(f, slot, kSlotFenced);
  const auto refused = f.try_set("a", "1");
  REQUIRE_FALSE(refused.is_ok());
  CHECK(refused.status().code() == Code::kRefused);
  CHECK(refused.status().text().rfind("TRYAGAIN slot " + std::to_string(slot), 0) == 0);
  CHECK(f.try_set("b", "1").is_ok());
  REQUIRE(f.engine->with_gate([&](Gate& gate) {
    gate.set_refusal(slot, "TRYAGAIN slot 5 is fenced by plan p", "MOVEDSLOT slot 5");
    return Status::ok();
  }));
  CHECK(f.try_set("a", "1").status().text() == "TRYAGAIN slot 5 is fenced by plan p");
  CHECK(f.engine->read_refusal(slot).empty());
  flag(f, slot, kSlotFenced | kSlotReadsRefused);
  CHECK(f.engine->read_refusal(slot) == "MOVEDSLOT slot 5");
}

TEST_CASE("I2: a leased fence lifts itself when its time is over, without anybody's doing") {
  EngineFixture f;
  flag(f, slot_of("a"), kSlotFenced, f.clock.mono_us() + 50'000);
  CHECK_FALSE(f.try_set("a", "1").is_ok());
  CHECK(f.engine->slot_flags(slot_of("a")) == kSlotFenced);
  f.clock.advance_ms(49);
  CHECK_FALSE(f.try_set("a", "1").is_ok());
  f.clock.advance_ms(1);
  CHECK(f.try_set("a", "1").is_ok());
  CHECK(f.engine->slot_flags(slot_of("a")) == 0);
}

TEST_CASE("I1: a followed slot is read-only for clients and takes replicated batches") {
  EngineFixture f;
  const int slot = slot_of("a");
  flag(f, slot, kSlotFollowed);
  CHECK(f.try_set("a", "1").status().text() ==
        "READONLY You can't write against a read only replica.");
  ApplyRequest request;
  request.time_ms = 1;
  request.ops = {{WriteOp::Kind::kPut, Cf::kMeta, meta_key(0, "a"), string_meta("m")}};
  request.sys = {{"replica/pos", "7"}};
  const auto seq = f.engine->apply(request);
  REQUIRE(seq.is_ok());
  CHECK(*seq == 1);
  CHECK(f.value("a") == "m");
  CHECK(f.engine->key_count(0, slot) == 1);
  CHECK(**f.engine->get_sys("replica/pos") == "7");
}

TEST_CASE("engine: apply counts keys by what is stored, clears and versions included") {
  EngineFixture f;
  f.set("a", "1");
  const int slot = slot_of("a");
  const std::string begin = slot_prefix(0, slot);
  ApplyRequest request;
  request.ops = {
      {WriteOp::Kind::kPut, Cf::kMeta, meta_key(0, "a"), string_meta("2")},
      {WriteOp::Kind::kPut, Cf::kMeta, meta_key(0, "{a}b"), set_meta(777, 1)},
      {WriteOp::Kind::kDelete, Cf::kMeta, meta_key(0, "{a}none"), ""},
  };
  REQUIRE(f.engine->apply(request).is_ok());
  CHECK(f.engine->key_count(0, slot) == 2);
  CHECK(f.engine->next_version() > 777);
  request.ops = {
      {WriteOp::Kind::kDeleteRange, Cf::kMeta, begin, prefix_end(begin)},
      {WriteOp::Kind::kPut, Cf::kMeta, meta_key(0, "a"), string_meta("3")},
  };
  REQUIRE(f.engine->apply(request).is_ok());
  CHECK(f.engine->key_count(0, slot) == 1);
  CHECK(f.value("{a}b") == "<none>");
}

TEST_CASE("engine: a full replica's batches keep the master's seq; going back is refused") {
  EngineFixture f;
  ApplyRequest request;
  request.as_seq = 501;
  request.ops = {{WriteOp::Kind::kPut, Cf::kMeta, meta_key(0, "a"), string_meta("1")}};
  CHECK(*f.engine->apply(request) == 501);
  request.as_seq = 502;
  request.ops.clear();  // nothing of it is ours, but the log goes on
  CHECK(*f.engine->apply(request) == 502);
  CHECK_FALSE(f.engine->apply(request).is_ok());
  CHECK(f.engine->read_log(400, 1000).status().code() == Code::kNotFound);
  const auto log = f.engine->read_log(500, 1000);
  REQUIRE(log.is_ok());
  CHECK(log->size() == 2);
  f.reopen();
  CHECK(f.engine->last_seq() == 502);
}

TEST_CASE("engine: subscribers hear of commits in the backlog, and no more after unsubscribe") {
  EngineFixture f;
  uint64_t heard = 0;
  const int id = f.engine->subscribe([&](uint64_t seq) { heard = seq; });
  f.set("a", "1");
  CHECK(heard == 1);
  const auto log = f.engine->read_log(0, 1000);
  REQUIRE(log.is_ok());
  REQUIRE(log->size() == 1);
  CHECK(log->front().ops->front().key == meta_key(0, "a"));
  CHECK(log->front().slots == SlotSet::of(slot_of("a")));
  CHECK(log->front().time_ms == f.clock.wall_ms());
  f.engine->unsubscribe(id);
  f.set("a", "2");
  CHECK(heard == 1);
}
