// C21, C22: what a key was before it was deleted or expired never shows again, and DBSIZE stays
// exact.
#include <doctest/doctest.h>

#include "common/slots/slot_hash.h"
#include "storage_node/types/collection.h"
#include "tests/unit/storage_node/command/shell.h"

namespace sf {

TEST_CASE("C22 after DEL and re-creation no old element shows") {
  Shell shell;
  shell({"HSET", "k", "old", "1"});
  shell.erase("k");
  shell({"HSET", "k", "new", "2"});
  CHECK(shell({"HGETALL", "k"}) == bulks({"new", "2"}));
  CHECK(shell({"HGET", "k", "old"}) == "$-1\r\n");
  shell.erase("k");
  shell({"RPUSH", "k", "a"});
  CHECK(shell({"LRANGE", "k", "0", "-1"}) == bulks({"a"}));
  shell.erase("k");
  shell({"ZADD", "k", "1", "old"});
  shell.erase("k");
  shell({"ZADD", "k", "2", "new"});
  CHECK(shell({"ZRANGE", "k", "0", "-1", "WITHSCORES"}) == bulks({"new", "2"}));
  CHECK(shell({"ZRANGEBYLEX", "k", "-", "+"}) == bulks({"new"}));
  shell.reopen();
  CHECK(shell({"ZRANGE", "k", "0", "-1", "WITHSCORES"}) == bulks({"new", "2"}));
  CHECK(shell.engine().key_count(0) == 1);
}

TEST_CASE("C22 removing the last element deletes the key, its TTL included") {
  Shell shell;
  shell({"HSET", "h", "f", "1"});
  shell.expire("h", shell.clock().wall_ms() + 1000);
  CHECK(shell({"HDEL", "h", "f"}) == ":1\r\n");
  CHECK_FALSE(shell.stored("h"));
  CHECK(shell.engine().key_count(0) == 0);
  shell({"HSET", "h", "g", "1"});
  shell.clock().advance_ms(2000);
  CHECK(shell({"HLEN", "h"}) == ":1\r\n");
  for (auto argv : std::vector<std::vector<std::string>>{
           {"SADD", "s", "m"}, {"ZADD", "z", "1", "m"}, {"RPUSH", "l", "m"}}) {
    shell(argv);
  }
  CHECK(shell.engine().key_count(0) == 4);
  shell({"SREM", "s", "m"});
  shell({"ZREM", "z", "m"});
  shell({"LPOP", "l"});
  CHECK(shell.engine().key_count(0) == 1);
}

TEST_CASE("C21 an expired collection is absent and may come back as another type, counted once") {
  Shell shell;
  shell({"HSET", "k", "a", "1", "b", "2"});
  shell.expire("k", shell.clock().wall_ms() + 60);
  CHECK(shell({"HLEN", "k"}) == ":2\r\n");
  shell.clock().advance_ms(60);
  CHECK(shell({"HLEN", "k"}) == ":0\r\n");
  CHECK(shell({"HGETALL", "k"}) == "*0\r\n");
  CHECK(shell({"SMEMBERS", "k"}) == "*0\r\n");
  CHECK(shell.engine().key_count(0) == 1);
  CHECK(shell({"SADD", "k", "m"}) == ":1\r\n");
  CHECK(shell({"SMEMBERS", "k"}) == bulks({"m"}));
  CHECK(shell.engine().key_count(0) == 1);
  shell.clock().advance_ms(1'000'000);
  CHECK(shell({"SMEMBERS", "k"}) == bulks({"m"}));
}

TEST_CASE("a collection keeps its TTL when it is changed") {
  Shell shell;
  shell({"RPUSH", "l", "a"});
  shell.expire("l", shell.clock().wall_ms() + 50);
  shell({"RPUSH", "l", "b"});
  shell({"RPOPLPUSH", "l", "l"});
  CHECK(shell({"LLEN", "l"}) == ":2\r\n");
  shell.clock().advance_ms(50);
  CHECK(shell({"LLEN", "l"}) == ":0\r\n");
}

TEST_CASE("copy_key makes an independent copy of any type, expiry included") {
  Shell shell;
  shell({"ZADD", "{t}z", "1", "a", "2", "b"});
  shell({"RPUSH", "{t}l", "x", "y"});
  shell.make_string("{t}s", "text");
  int64_t expire_ms = shell.clock().wall_ms() + 500;
  for (std::string name : {"{t}z", "{t}l", "{t}s"}) {
    shell.expire(name, expire_ms);
    auto source = load_meta(shell.engine(), 0, name);
    auto target = load_meta(shell.engine(), 0, "copy" + name);
    WriteTxn txn;
    REQUIRE(copy_key(shell.engine(), txn, 0, name, **source, 0, "copy" + name, *target).is_ok());
    REQUIRE(shell.engine().commit(txn).is_ok());
    auto copied = load_meta(shell.engine(), 0, "copy" + name);
    CHECK((*copied)->expire_ms == expire_ms);
  }
  CHECK(shell.engine().key_count(0) == 6);
  shell({"ZADD", "{t}z", "3", "c"});
  shell({"LPOP", "{t}l"});
  CHECK(shell({"ZRANGE", "copy{t}z", "0", "-1", "WITHSCORES"}) == bulks({"a", "1", "b", "2"}));
  CHECK(shell({"LRANGE", "copy{t}l", "0", "-1"}) == bulks({"x", "y"}));
}

}  // namespace sf
