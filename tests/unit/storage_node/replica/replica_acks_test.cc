#include "storage_node/replica/replica_acks.h"

#include <doctest/doctest.h>

namespace sf {
namespace {

TEST_CASE("acks: only replicas that stream count, applied and synced apart") {
  ReplicaAcks acks;
  CHECK(acks.update(1, {false, 0, 0, 0}));
  CHECK(acks.update(2, {true, 10, 5, 100}));
  CHECK_FALSE(acks.update(2, {true, 11, 5, 120}));
  CHECK(acks.count(11, false) == 1);
  CHECK(acks.count(12, false) == 0);
  CHECK(acks.count(5, true) == 1);
  CHECK(acks.count(6, true) == 0);
  CHECK(acks.good(120) == 1);
  CHECK(acks.good(121) == 0);
  acks.remove(2);
  CHECK(acks.count(0, false) == 0);
}

TEST_CASE("acks: a waiter is woken once, when enough replicas are there") {
  ReplicaAcks acks;
  acks.update(1, {true, 10, 10, 1});
  int woken = 0;
  auto there = acks.wait(10, false, 1, [&] { ++woken; });
  REQUIRE(there);
  CHECK(*there == 0);
  auto waiter = acks.wait(12, true, 2, [&] { ++woken; });
  REQUIRE(waiter);
  CHECK(*waiter != 0);
  acks.update(1, {true, 12, 12, 2});
  acks.update(2, {true, 12, 11, 2});
  CHECK(woken == 0);
  acks.update(2, {true, 12, 12, 3});
  CHECK(woken == 1);
  CHECK_FALSE(acks.stop(*waiter));
  auto given_up = acks.wait(13, false, 1, [&] { ++woken; });
  REQUIRE(given_up);
  CHECK(acks.stop(*given_up));
  acks.update(1, {true, 13, 13, 4});
  CHECK(woken == 1);
}

TEST_CASE("acks: waiters are bounded (I9)") {
  ReplicaAcks acks;
  for (size_t i = 0; i < ReplicaAcks::kWaitersMax; ++i) REQUIRE(acks.wait(1, false, 1, [] {}));
  CHECK(acks.wait(1, false, 1, [] {}).status().code() == Code::kNoSpace);
}

}  // namespace
}  // namespace sf
