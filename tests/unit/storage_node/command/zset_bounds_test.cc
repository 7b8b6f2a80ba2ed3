// The score bounds in a sorted set's meta: never tighter than the scores, and they move with pops.
#include <doctest/doctest.h>

#include "tests/unit/storage_node/command/shell.h"

namespace sf {

namespace {

std::pair<double, double> bounds(Shell& shell, std::string_view key) {
  auto meta = load_meta(shell.engine(), 0, key);
  REQUIRE(meta.is_ok());
  REQUIRE(meta->live.has_value());
  return {score_of((*meta)->head), score_of((*meta)->tail)};
}

}  // namespace

TEST_CASE("pops move the bounds, additions widen them, and nothing outside is missed") {
  Shell shell;
  shell({"ZADD", "z", "1", "a", "2", "b", "3", "c", "4", "d", "5", "e"});
  CHECK(bounds(shell, "z") == std::pair(1.0, 5.0));
  CHECK(shell({"ZPOPMIN", "z"}) == bulks({"a", "1"}));
  CHECK(bounds(shell, "z").first == 1.0);
  shell({"ZPOPMIN", "z"});
  CHECK(bounds(shell, "z").first == 2.0);
  shell({"ZPOPMAX", "z"});
  CHECK(bounds(shell, "z").second == 5.0);
  shell({"ZADD", "z", "-inf", "low", "+inf", "high"});
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({"low", "c", "d", "high"}));
  CHECK(shell({"ZPOPMIN", "z", "2"}) == bulks({"low", "-inf", "c", "3"}));
  CHECK(bounds(shell, "z").first == 3.0);
  CHECK(shell({"ZADD", "z", "0", "zero", "3", "c2"}) == ":2\r\n");
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({"zero", "c2", "d", "high"}));
}

TEST_CASE("range removal moves the low bound only if it began at the low end") {
  Shell shell;
  shell({"ZADD", "z", "1", "a", "1", "b", "1", "c", "2", "d", "3", "e"});
  CHECK(shell({"ZREMRANGEBYRANK", "z", "1", "3"}) == ":3\r\n");
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({"a", "e"}));
  shell({"ZADD", "z", "1", "b", "2", "d"});
  CHECK(shell({"ZREMRANGEBYLEX", "z", "[b", "[d"}) == ":2\r\n");
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({"a", "e"}));
  shell({"ZADD", "z", "2", "d"});
  CHECK(shell({"ZREMRANGEBYSCORE", "z", "-inf", "2"}) == ":2\r\n");
  CHECK(bounds(shell, "z").first == 2.0);
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({"e"}));
  shell({"ZADD", "z", "1", "a"});
  CHECK(shell({"ZREMRANGEBYRANK", "z", "0", "0"}) == ":1\r\n");
  CHECK(shell({"ZRANK", "z", "e"}) == ":0\r\n");
}

TEST_CASE("among equal scores the low member moves with pops and back with additions") {
  Shell shell;
  std::string longer(100, 'q');
  shell({"ZADD", "z", "0", "b", "0", "d", "0", "f", "0", longer + "1", "0", longer + "2"});
  CHECK(shell({"ZPOPMIN", "z", "2"}) == bulks({"b", "0", "d", "0"}));
  CHECK(shell({"ZADD", "z", "0", "c", "0", "e"}) == ":2\r\n");
  CHECK(shell({"ZRANGE", "z", "0", "2"}) == bulks({"c", "e", "f"}));
  CHECK(shell({"ZPOPMIN", "z", "4"}).starts_with("*8"));
  CHECK(shell({"ZADD", "z", "0", longer + "0"}) == ":1\r\n");
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({longer + "0", longer + "2"}));
  shell.reopen();
  CHECK(shell({"ZRANGE", "z", "0", "-1"}) == bulks({longer + "0", longer + "2"}));
}

}  // namespace sf
