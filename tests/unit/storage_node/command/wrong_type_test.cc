// C32: a command on a key of another type answers WRONGTYPE and changes nothing.
#include <doctest/doctest.h>

#include <map>

#include "tests/unit/storage_node/command/shell.h"

namespace sf {

namespace {

using Commands = std::vector<std::vector<std::string>>;

// K is the key in question; OTHER a name where nothing is.
const std::map<std::string, Commands> kCommands = {
    {"hash",
     {{"HSET", "K", "f", "v"},
      {"HMSET", "K", "f", "v"},
      {"HSETNX", "K", "f", "v"},
      {"HGET", "K", "f"},
      {"HMGET", "K", "f"},
      {"HGETALL", "K"},
      {"HKEYS", "K"},
      {"HVALS", "K"},
      {"HLEN", "K"},
      {"HDEL", "K", "f"},
      {"HEXISTS", "K", "f"},
      {"HSTRLEN", "K", "f"},
      {"HINCRBY", "K", "f", "1"},
      {"HINCRBYFLOAT", "K", "f", "1"},
      {"HSCAN", "K", "0"},
      {"HRANDFIELD", "K"}}},
    {"list",
     {{"LPUSH", "K", "e"},
      {"RPUSH", "K", "e"},
      {"LPUSHX", "K", "e"},
      {"RPUSHX", "K", "e"},
      {"LPOP", "K"},
      {"RPOP", "K", "2"},
      {"LLEN", "K"},
      {"LRANGE", "K", "0", "-1"},
      {"LINDEX", "K", "0"},
      {"LSET", "K", "0", "e"},
      {"LTRIM", "K", "0", "-1"},
      {"LREM", "K", "0", "e"},
      {"LINSERT", "K", "BEFORE", "e", "f"},
      {"RPOPLPUSH", "K", "OTHER"},
      {"LMOVE", "K", "OTHER", "LEFT", "RIGHT"},
      {"LPOS", "K", "e"}}},
    {"set",
     {{"SADD", "K", "m"},
      {"SREM", "K", "m"},
      {"SMEMBERS", "K"},
      {"SCARD", "K"},
      {"SISMEMBER", "K", "m"},
      {"SMISMEMBER", "K", "m"},
      {"SPOP", "K"},
      {"SRANDMEMBER", "K", "-2"},
      {"SMOVE", "K", "OTHER", "m"},
      {"SINTER", "OTHER", "K"},
      {"SUNION", "K"},
      {"SDIFF", "OTHER", "K"},
      {"SINTERSTORE", "OTHER", "K"},
      {"SUNIONSTORE", "OTHER", "K"},
      {"SDIFFSTORE", "OTHER", "K"},
      {"SINTERCARD", "1", "K"},
      {"SSCAN", "K", "0"}}},
    {"zset",
     {{"ZADD", "K", "1", "m"},
      {"ZINCRBY", "K", "1", "m"},
      {"ZREM", "K", "m"},
      {"ZSCORE", "K", "m"},
      {"ZMSCORE", "K", "m"},
      {"ZCARD", "K"},
      {"ZCOUNT", "K", "0", "1"},
      {"ZLEXCOUNT", "K", "-", "+"},
      {"ZRANK", "K", "m"},
      {"ZREVRANK", "K", "m"},
      {"ZPOPMIN", "K"},
      {"ZPOPMAX", "K"},
      {"ZSCAN", "K", "0"},
      {"ZRANDMEMBER", "K"},
      {"ZRANGE", "K", "0", "-1"},
      {"ZREVRANGE", "K", "0", "-1"},
      {"ZRANGEBYSCORE", "K", "0", "1"},
      {"ZREVRANGEBYSCORE", "K", "1", "0"},
      {"ZRANGEBYLEX", "K", "-", "+"},
      {"ZREVRANGEBYLEX", "K", "+", "-"},
      {"ZRANGESTORE", "OTHER", "K", "0", "-1"},
      {"ZREMRANGEBYRANK", "K", "0", "-1"},
      {"ZREMRANGEBYSCORE", "K", "0", "1"},
      {"ZREMRANGEBYLEX", "K", "-", "+"}}},
    {"set or zset",
     {{"ZUNION", "1", "K"},
      {"ZINTER", "2", "OTHER", "K"},
      {"ZDIFF", "1", "K"},
      {"ZUNIONSTORE", "OTHER", "1", "K"},
      {"ZINTERSTORE", "OTHER", "1", "K"},
      {"ZDIFFSTORE", "OTHER", "1", "K"},
      {"ZINTERCARD", "1", "K"}}},
};

void make(Shell& shell, const std::string& type) {
  if (type == "string") shell.make_string("K", "v");
  if (type == "hash") shell({"HSET", "K", "f", "v"});
  if (type == "list") shell({"RPUSH", "K", "e"});
  if (type == "set") shell({"SADD", "K", "m"});
  if (type == "zset") shell({"ZADD", "K", "1", "m"});
}

}  // namespace

TEST_CASE("C32 every command on a key of another type answers WRONGTYPE and writes nothing") {
  for (std::string type : {"string", "hash", "list", "set", "zset"}) {
    Shell shell;
    make(shell, type);
    uint64_t seq = shell.engine().last_seq();
    for (const auto& [owner, commands] : kCommands) {
      if (owner.find(type) != std::string::npos) continue;
      for (const auto& argv : commands) {
        CAPTURE(type);
        CAPTURE(argv[0]);
        CHECK(shell(argv) ==
              "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
        CHECK(shell.engine().last_seq() == seq);
      }
    }
  }
}

TEST_CASE("C29 moving an element to a key of another type leaves the source as it was") {
  Shell shell;
  shell({"RPUSH", "l", "a", "b"});
  shell({"SADD", "s", "m"});
  shell.make_string("str", "v");
  CHECK(shell({"RPOPLPUSH", "l", "str"}).starts_with("-WRONGTYPE"));
  CHECK(shell({"LMOVE", "l", "s", "LEFT", "LEFT"}).starts_with("-WRONGTYPE"));
  CHECK(shell({"LRANGE", "l", "0", "-1"}) == bulks({"a", "b"}));
  CHECK(shell({"SMOVE", "s", "l", "m"}).starts_with("-WRONGTYPE"));
  CHECK(shell({"SMEMBERS", "s"}) == bulks({"m"}));
  // Redis looks at the destination only when there is something to move.
  CHECK(shell({"RPOPLPUSH", "none", "str"}) == "$-1\r\n");
  CHECK(shell({"SMOVE", "none", "str", "m"}) == ":0\r\n");
}

TEST_CASE("STORE forms replace a destination of any type") {
  Shell shell;
  shell.make_string("d", "v");
  shell({"SADD", "s", "m"});
  CHECK(shell({"SUNIONSTORE", "d", "s"}) == ":1\r\n");
  CHECK(shell({"SMEMBERS", "d"}) == bulks({"m"}));
  shell({"ZADD", "z", "2", "n"});
  CHECK(shell({"ZUNIONSTORE", "d", "2", "z", "s"}) == ":2\r\n");
  CHECK(shell({"ZRANGE", "d", "0", "-1"}) == bulks({"m", "n"}));
  CHECK(shell({"ZRANGESTORE", "d", "z", "5", "9"}) == ":0\r\n");
  CHECK_FALSE(shell.stored("d"));
}

}  // namespace sf
