#include "storage_node/replica/slot_control.h"

#include "tests/unit/storage_node/replica/replica_rig.h"

namespace sf {
namespace {

const HostPort kMaster{"127.0.0.1", 7001};
const HostPort kOther{"127.0.0.1", 7002};
const SlotSet kSlots = SlotSet::range(5, 6);

HistoryChain chain_of(char c) {
  HistoryChain chain;
  REQUIRE(chain.add({std::string(40, c), "", 0}));
  return chain;
}

bool starts(const std::string& text, std::string_view word) {
  return text.starts_with(word);
}

TEST_CASE("fence: leased, refuses writes, lifts itself (I2 c)") {
  ReplicaRig rig;
  CHECK(rig.write(5, "a").empty());
  auto end = rig.control->fence_leased(kSlots, {"p", 1}, 1000);
  REQUIRE(end);
  CHECK(end->end.seq == rig.engine->slot_seq(5));
  CHECK(end->end.history == rig.state->histories.current());
  CHECK(rig.write(5, "b") == "TRYAGAIN slot 5 is fenced by plan p");
  CHECK(rig.write(7, "b").empty());
  CHECK(rig.status(5).fence == "leased");
  CHECK(rig.engine->read_refusal(5).empty());
  rig.clock.advance_ms(999);
  CHECK(starts(rig.write(5, "b"), "TRYAGAIN"));
  rig.clock.advance_ms(1);
  CHECK(rig.write(5, "b").empty());
  CHECK(rig.status(5).fence == "no");
  auto late = rig.control->fence_permanently(kSlots, {"p", 1}, kOther);
  REQUIRE_FALSE(late);
  CHECK(starts(late.status().text(), "LEASEEXPIRED slot 5"));
}

TEST_CASE("fence: permanent survives a restart, refuses reads, UNFENCE opens it (I10)") {
  ReplicaRig rig;
  rig.write(5, "a");
  auto end = rig.control->fence_leased(kSlots, {"p", 2}, 1000);
  REQUIRE(end);
  auto sealed = rig.control->fence_permanently(kSlots, {"p", 2}, kOther);
  REQUIRE(sealed);
  CHECK(sealed->end == end->end);
  rig.clock.advance_ms(5000);
  CHECK(rig.control->fence_permanently(kSlots, {"p", 2}, kOther));  // asked twice
  rig.restart();
  CHECK(starts(rig.write(5, "b"), "TRYAGAIN slot 5 is fenced by plan p"));
  CHECK(rig.engine->read_refusal(5) == "MOVEDSLOT slot 5 now lives on 127.0.0.1:7002 (plan p)");
  CHECK(rig.status(5).fence == "permanent");
  CHECK(rig.status(5).at.seq == end->end.seq);  // exact though slot_seq is not known any more
  CHECK_FALSE(rig.control->fence_leased(kSlots, {"p", 3}, 1000));
  CHECK_FALSE(rig.control->unfence(kSlots, {"q", 1}));
  CHECK(rig.control->unfence(kSlots, {"p", 2}));
  CHECK(rig.control->unfence(kSlots, {"p", 2}));
  CHECK(rig.write(5, "b").empty());
  rig.restart();
  CHECK(rig.write(6, "b").empty());
}

TEST_CASE("epochs: lower ones are refused for every verb, also after a restart") {
  ReplicaRig rig;
  REQUIRE(rig.control->announce_epoch(SlotSet::of(5), {"p", 7}));
  rig.restart();
  Position from{std::string(40, 'a'), 1};
  std::string text = "STALEEPOCH plan p is at epoch 7 for slot 5, not 6";
  CHECK(rig.control->announce_epoch(kSlots, {"p", 6}).text() == text);
  CHECK(rig.control->fence_leased(kSlots, {"p", 6}, 10).status().text() == text);
  CHECK(rig.control->fence_permanently(kSlots, {"p", 6}, kOther).status().text() == text);
  CHECK(rig.control->unfence(kSlots, {"p", 6}).text() == text);
  CHECK(rig.control->promote(kSlots, {"p", 6}, from).status().text() == text);
  CHECK(rig.control->follow(kSlots, {"p", 6}, kMaster, from).text() == text);
  CHECK(rig.control->fence_leased(SlotSet::of(6), {"p", 1}, 10));  // another slot
  CHECK(rig.control->fence_leased(SlotSet::of(5), {"q", 1}, 10));  // another plan
}

TEST_CASE("promote: only from the applied position; read-only before, writable after (I1, I2 d)") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  CHECK(rig.write(5, "x") == "READONLY You can't write against a read only replica.");
  CHECK(starts(rig.control->promote(kSlots, {"p", 1}, {chain.current(), 0}).status().text(),
               "NOTAPPLIED slot 5 is not copied yet"));
  rig.accept(kMaster, chain, 10);
  rig.apply(kMaster, 12, 5);
  CHECK(starts(rig.control->promote(kSlots, {"p", 1}, {chain.current(), 13}).status().text(),
               "NOTAPPLIED"));
  std::string before = rig.state->histories.current();
  auto done = rig.control->promote(SlotSet::of(5), {"p", 1}, {chain.current(), 12});
  REQUIRE(done);
  CHECK(done->applied == 12);
  CHECK(done->own.seq == rig.engine->last_seq());
  CHECK(done->own.history != before);
  CHECK(rig.write(5, "x").empty());
  CHECK(starts(rig.write(6, "x"), "READONLY"));
  auto again = rig.control->promote(SlotSet::of(5), {"p", 1}, {chain.current(), 12});
  REQUIRE(again);
  CHECK(again->own == done->own);
  // The rest of the stream does not reach it any more.
  CHECK_FALSE(rig.source(kMaster)->positions.follows(5));
  rig.restart();
  CHECK(rig.status(5).master);
  CHECK(rig.write(5, "y").empty());
  CHECK(rig.status(6).at == Position{chain.current(), 12});
  REQUIRE(rig.control->promote(SlotSet::of(5), {"p", 1}, {chain.current(), 12}));
}

TEST_CASE("promote: a position of an older history counts if the master's chain holds it") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(chain.add({std::string(40, 'b'), std::string(40, 'a'), 20}));
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  rig.accept(kMaster, chain, 30);
  CHECK_FALSE(rig.control->promote(kSlots, {"p", 1}, {std::string(40, 'a'), 21}));
  CHECK(rig.control->promote(kSlots, {"p", 1}, {std::string(40, 'a'), 20}));
}

TEST_CASE("follow: take back from the exact position, until a write of its own (I3)") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  rig.accept(kMaster, chain, 10);
  Position end{chain.current(), 10};
  REQUIRE(rig.control->promote(kSlots, {"p", 1}, end));
  rig.write(6, "mine");
  SUBCASE("at once") {}
  SUBCASE("after a restart") {
    rig.restart();
  }
  SUBCASE("after writes elsewhere and a restart") {
    rig.write(9, "x");
    rig.restart();
  }
  CHECK(starts(rig.control->follow(SlotSet::of(6), {"p", 1}, kMaster, end).text(),
               "ERR slot 6 took writes of its own"));
  CHECK_FALSE(rig.control->follow(kSlots, {"p", 1}, kMaster, end));
  CHECK(rig.status(5).master);  // nothing by half
  REQUIRE(rig.control->follow(SlotSet::of(5), {"p", 1}, kMaster, end));
  CHECK(rig.status(5).at == end);
  CHECK(starts(rig.write(5, "x"), "READONLY"));
  rig.restart();
  CHECK(rig.status(5).at == end);
  CHECK_FALSE(rig.status(5).master);
}

TEST_CASE(
    "follow: the fence stays over the reverse link and the way back, until UNFENCE (I3, I6)") {
  ReplicaRig rig;
  rig.write(5, "a");
  REQUIRE(rig.control->fence_leased(kSlots, {"p", 1}, 1000));
  REQUIRE(rig.control->fence_permanently(kSlots, {"p", 1}, kOther));
  Position there{std::string(40, 'c'), 77};
  rig.restart();
  REQUIRE(rig.control->follow(kSlots, {"p", 1}, kOther, there));
  CHECK(rig.status(5).at == there);
  CHECK(rig.status(5).fence == "permanent");
  CHECK(starts(rig.engine->read_refusal(5), "MOVEDSLOT"));
  HistoryChain chain = chain_of('c');
  rig.accept(kOther, chain, 77);
  rig.apply(kOther, 80, 5);
  Position end{chain.current(), 80};
  REQUIRE(rig.control->promote(kSlots, {"p", 2}, end));
  // Nobody may reach it before it owns the slot by the shim's record, whoever else knows of it.
  CHECK(starts(rig.engine->read_refusal(5), "MOVEDSLOT"));
  CHECK(starts(rig.write(5, "b"), "TRYAGAIN slot 5 is fenced by plan p"));
  rig.restart();
  CHECK(rig.status(5).master);
  CHECK(rig.status(5).fence == "permanent");
  SUBCASE("taken back") {
    REQUIRE(rig.control->follow(kSlots, {"p", 3}, kOther, end));
    CHECK(rig.status(5).at == end);
    CHECK(starts(rig.engine->read_refusal(5), "MOVEDSLOT"));
    REQUIRE(rig.control->promote(kSlots, {"p", 4}, end));
    REQUIRE(rig.control->unfence(kSlots, {"p", 4}));
  }
  SUBCASE("opened") {
    REQUIRE(rig.control->unfence(kSlots, {"p", 2}));
  }
  CHECK(rig.engine->read_refusal(5).empty());
  CHECK(rig.write(5, "b").empty());
}

TEST_CASE("follow: a slot taken out by hand goes on where it stood, whatever is named (I2, I10)") {
  ReplicaRig rig;
  rig.write(5, "a");
  REQUIRE(rig.control->fence_leased(kSlots, {"p", 1}, 1000));
  REQUIRE(rig.control->fence_permanently(kSlots, {"p", 1}, kOther));
  const HistoryChain chain = chain_of('c');
  const Position switched{chain.current(), 77};
  REQUIRE(rig.control->follow(kSlots, {"p", 1}, kOther, switched));
  rig.accept(kOther, chain, 77);
  rig.apply(kOther, 80, 5);
  REQUIRE(rig.control->slots_slave_of_no_one(kSlots));
  CHECK(rig.status(5).master);
  CHECK(rig.status(5).fence == "permanent");
  const Position stood{chain.current(), 80};
  SUBCASE("older: nothing is applied twice") {
    REQUIRE(rig.control->follow(kSlots, {"p", 2}, kOther, switched));
  }
  SUBCASE("older, after a restart and a fence anew") {
    rig.restart();
    REQUIRE(rig.control->unfence(kSlots, {"p", 2}));
    REQUIRE(rig.control->fence_leased(kSlots, {"p", 2}, 1000));
    REQUIRE(rig.control->fence_permanently(kSlots, {"p", 2}, kOther));
    rig.restart();
    REQUIRE(rig.control->follow(kSlots, {"p", 2}, kOther, switched));
  }
  SUBCASE("newer: nothing is left out") {
    REQUIRE(rig.control->follow(kSlots, {"p", 2}, kOther, {chain.current(), 95}));
  }
  SUBCASE("once more") {
    REQUIRE(rig.control->follow(kSlots, {"p", 2}, kOther, switched));
    REQUIRE(rig.control->slots_slave_of_no_one(kSlots));
    REQUIRE(rig.control->follow(kSlots, {"p", 2}, kOther, switched));
  }
  CHECK(rig.status(5).at == stood);
  CHECK(rig.status(6).at == stood);
  rig.restart();
  CHECK(rig.status(5).at == stood);
  CHECK_FALSE(rig.status(5).master);
}

TEST_CASE("follow: who wrote after NO ONE, or was half copied, is copied anew only (I2)") {
  ReplicaRig rig;
  rig.write(5, "a");
  REQUIRE(rig.control->fence_leased(kSlots, {"p", 1}, 1000));
  REQUIRE(rig.control->fence_permanently(kSlots, {"p", 1}, kOther));
  const HistoryChain chain = chain_of('c');
  const Position switched{chain.current(), 77};
  REQUIRE(rig.control->follow(kSlots, {"p", 1}, kOther, switched));
  SUBCASE("written to") {
    rig.accept(kOther, chain, 77);
    REQUIRE(rig.control->slots_slave_of_no_one(kSlots));
    REQUIRE(rig.control->unfence(kSlots, {"p", 1}));
    CHECK(rig.write(5, "mine").empty());
    REQUIRE(rig.control->follow(SlotSet::of(6), {"p", 1}, kOther, switched));
  }
  SUBCASE("the master wanted it copied, and the copy was broken off") {
    auto source = rig.source(kOther);
    FollowStore store(*rig.state, source);
    source->positions.accept(chain.current(), {}, kSlots);
    REQUIRE(store.accepted(wire::Hello{wire::kProtocol, "m", 90, chain, {}, kSlots}));
    REQUIRE(rig.control->slots_slave_of_no_one(kSlots));
  }
  SUBCASE("the same, and a restart") {
    auto source = rig.source(kOther);
    FollowStore store(*rig.state, source);
    source->positions.accept(chain.current(), {}, kSlots);
    REQUIRE(store.accepted(wire::Hello{wire::kProtocol, "m", 90, chain, {}, kSlots}));
    rig.restart();
    REQUIRE(rig.control->slots_slave_of_no_one(kSlots));
    rig.restart();
  }
  CHECK(starts(rig.control->follow(kSlots, {"p", 2}, kOther, switched).text(),
               "ERR slot 5 took writes of its own since its fence, promote or copy"));
  CHECK(rig.status(5).master);
}

TEST_CASE("follow: an ordinary slot has no exact position") {
  ReplicaRig rig;
  CHECK(starts(rig.control->follow(kSlots, {"p", 1}, kMaster, {std::string(40, 'a'), 0}).text(),
               "ERR slot 5 took writes of its own"));
}

TEST_CASE("a slot taken back is never given what lies between its position and the stream's") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  rig.accept(kMaster, chain, 10);
  REQUIRE(rig.control->promote(SlotSet::of(5), {"p", 1}, {chain.current(), 10}));
  rig.apply(kMaster, 40, 6);
  REQUIRE(rig.control->follow(SlotSet::of(5), {"p", 1}, kMaster, {chain.current(), 10}));
  auto source = rig.source(kMaster);
  // The session under way goes on; the slot takes part from the master's answer on.
  CHECK(source->positions.streaming());
  CHECK(source->positions.unanswered() == SlotSet::of(5));
  source->positions.take_on(SlotSet::of(5), {});
  CHECK(source->positions.rewind());
  CHECK(source->positions.cursor() == 10);
  rig.restart();
  CHECK(rig.source(kMaster)->positions.position(5)->seq == 10);
  CHECK(rig.source(kMaster)->positions.position(6)->seq == 40);
}

TEST_CASE("slots: keys are not wiped without FORCE; NO ONE makes a slot its own in a new history") {
  ReplicaRig rig;
  rig.write(5, "a");
  CHECK(starts(rig.control->slots_slave_of(kMaster, kSlots, false).text(),
               "ERR slot 5 holds 1 keys"));
  CHECK(rig.write(6, "a").empty());
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, true));
  rig.accept(kMaster, chain_of('a'), 4);
  CHECK(rig.engine->key_count(0, 5) == 0);
  std::string before = rig.state->histories.current();
  REQUIRE(rig.control->slots_slave_of_no_one(SlotSet::of(5)));
  CHECK(rig.state->histories.current() != before);
  CHECK(rig.write(5, "b").empty());
  CHECK(starts(rig.write(6, "b"), "READONLY"));
  REQUIRE(rig.control->slots_slave_of_no_one(kSlots));
  CHECK(rig.state->sources.empty());
}

TEST_CASE(
    "whole node: a new history each start as a master, none as a replica; NO ONE begins one") {
  ReplicaRig rig;
  rig.write(5, "a");
  std::string first = rig.state->histories.current();
  rig.restart();
  std::string second = rig.state->histories.current();
  CHECK(first != second);
  auto chain = rig.state->histories.snapshot().chain;
  CHECK(chain.is_prefix({first, rig.engine->last_seq()}, rig.engine->last_seq()));
  REQUIRE(rig.control->slave_of(kMaster));
  // Nobody wrote in the history of this start: the position is told in the one before.
  CHECK(rig.status(5).at == Position{first, rig.engine->last_seq()});
  rig.restart();
  CHECK(rig.state->histories.current() == second);
  CHECK(starts(rig.write(5, "b"), "READONLY"));
  CHECK_FALSE(rig.control->fence_leased(kSlots, {"p", 1}, 100));
  CHECK_FALSE(rig.control->slots_slave_of(kOther, kSlots, false));
  REQUIRE(rig.control->slave_of_no_one(false));
  CHECK(rig.state->histories.current() != second);
  CHECK(rig.write(5, "b").empty());
}

TEST_CASE(
    "whole node: half a copy is not made a master by accident; then the log is the master's") {
  ReplicaRig rig;
  for (int i = 0; i < 50; ++i) rig.write(5, cat("a", i));
  REQUIRE(rig.control->slave_of(kMaster));
  auto source = rig.source(kMaster);
  HistoryChain chain = chain_of('d');
  auto store = std::make_unique<FollowStore>(*rig.state, source);
  source->positions.accept(chain.current(), {}, SlotSet::all());
  REQUIRE(store->accepted({wire::kProtocol, "m", 20, chain, {}, SlotSet::all()}));
  CHECK(starts(rig.control->slave_of_no_one(false).text(), "ERR the first copy"));
  for (int slot = 0; slot < kSlotCount; ++slot) {
    wire::CopyDone done{slot, {chain.current(), slot == 9 ? 25U : 20U}, 1, 0, 0, 0};
    REQUIRE(store->store_job(done, std::nullopt).run(*rig.engine, {}));
    store->stored(done, std::nullopt);
    source->positions.set_copied(slot, done.at);
    if (slot == 500) {
      rig.restart();  // a copy that broke goes on at the next slot
      source = rig.source(kMaster);
      CHECK(source->positions.without_position().size() == kSlotCount - 501);
      source->positions.accept(chain.current(), SlotSet::range(0, 500), SlotSet::range(501, 1023));
      store = std::make_unique<FollowStore>(*rig.state, source);
      REQUIRE(store->accepted(
          {wire::kProtocol, "m", 22, chain, SlotSet::range(0, 500), SlotSet::range(501, 1023)}));
    }
  }
  source->positions.begin_stream(20);
  REQUIRE(store->begin_stream(20));
  CHECK(rig.engine->last_seq() == 20);  // lower than it was
  CHECK(rig.state->histories.current() == chain.current());
  CHECK(rig.state->floor == 25);
  auto mirror = [&](uint64_t seq, int slot) {
    follow::Apply apply{seq - 1, seq, 1, 1, {}, {}, {}, {}, seq};
    std::string key = ReplicaRig::key_of(slot, "m");
    apply.records.push_back({seq, 1, {{1, 0, key, "v"}}});
    REQUIRE(store->apply(apply));
    source->positions.advance(seq);
  };
  mirror(21, 3);
  CHECK(rig.engine->last_seq() == 21);
  auto log = rig.engine->read_log(20, 1000);
  REQUIRE(log);
  CHECK(log->size() == 1);
  CHECK(rig.engine->read_log(5, 1000).status().code() == Code::kNotFound);
  rig.restart();
  CHECK(rig.engine->last_seq() == 21);
  CHECK(rig.engine->oldest_seq() == 21);
  CHECK(rig.status(3).at == Position{chain.current(), 21});
  CHECK(rig.status(9).at == Position{chain.current(), 25});
  CHECK(rig.state->full->mirror);
  log = rig.engine->read_log(20, 1000);
  REQUIRE(log);
  CHECK(log->size() == 1);
}

TEST_CASE("a slot stored while the stream begins keeps its own position over a restart (R05)") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  auto source = rig.source(kMaster);
  FollowStore store(*rig.state, source);
  source->positions.accept(chain.current(), {}, kSlots);
  REQUIRE(store.accepted({wire::kProtocol, "m", 20, chain, {}, kSlots}));
  wire::CopyDone first{5, {chain.current(), 20}, 1, 0, 0, 0};
  wire::CopyDone second{6, {chain.current(), 25}, 1, 0, 0, 0};
  REQUIRE(store.store_job(first, std::nullopt).run(*rig.engine, {}));
  source->positions.set_copied(5, first.at);
  // The other one is on record, but the link has not heard of it.
  REQUIRE(store.store_job(second, std::nullopt).run(*rig.engine, {}));
  source->positions.begin_stream(20);
  REQUIRE(store.begin_stream(20));
  rig.restart();
  CHECK(rig.status(5).at.seq == 20);
  CHECK(rig.status(6).at.seq == 25);
}

TEST_CASE("positions are saved with the data: empty frames later, joined slots at once") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  rig.accept(kMaster, chain, 10);
  rig.apply(kMaster, 20);
  rig.apply(kMaster, 21, 5);
  rig.apply(kMaster, 30);
  CHECK(rig.status(5).at.seq == 30);
  rig.restart();
  CHECK(rig.status(5).at.seq == 21);
  CHECK(rig.engine->get(Cf::kMeta, ReplicaRig::key_of(5, "r"))->value() == "replicated");
}

TEST_CASE("waiting for a position is woken by the apply") {
  ReplicaRig rig;
  HistoryChain chain = chain_of('a');
  REQUIRE(rig.control->slots_slave_of(kMaster, kSlots, false));
  rig.accept(kMaster, chain, 10);
  int woken = 0;
  uint64_t id = 0;
  CHECK(*rig.control->wait_applied(
      kSlots, {chain.current(), 10}, [&] { ++woken; }, &id));
  CHECK_FALSE(*rig.control->wait_applied(
      kSlots, {chain.current(), 12}, [&] { ++woken; }, &id));
  rig.apply(kMaster, 11);
  CHECK(woken == 0);
  rig.apply(kMaster, 12);
  CHECK(woken == 1);
  CHECK_FALSE(rig.control->stop_waiting(id));
}

}  // namespace
}  // namespace sf
