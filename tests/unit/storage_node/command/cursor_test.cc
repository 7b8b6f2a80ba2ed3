// HSCAN, SSCAN, ZSCAN over many calls (C54 and SCAN's guarantee).
#include <doctest/doctest.h>

#include <set>

#include "tests/unit/storage_node/command/shell.h"

namespace sf {

namespace {

// The lines of bulks in a reply, in order: cursor first. Fields here hold no CR LF.
std::vector<std::string> lines(const std::string& reply) {
  std::vector<std::string> out;
  size_t at = 0;
  bool value = false;
  while (at < reply.size()) {
    size_t end = reply.find("\r\n", at);
    std::string line = reply.substr(at, end - at);
    if (value) out.push_back(line);
    value = !value && line[0] == '$';
    at = end + 2;
  }
  return out;
}

}  // namespace

TEST_CASE("C54 a scan of a missing key is over at once") {
  Shell shell;
  CHECK(shell({"HSCAN", "nokey", "0"}) == "*2\r\n$1\r\n0\r\n*0\r\n");
  CHECK(shell({"SSCAN", "nokey", "1000", "COUNT", "5"}) == "*2\r\n$1\r\n0\r\n*0\r\n");
  CHECK(shell({"ZSCAN", "nokey", "7"}) == "*2\r\n$1\r\n0\r\n*0\r\n");
  CHECK(shell({"SSCAN", "nokey", "x"}) == "-ERR invalid cursor\r\n");
}

TEST_CASE("what is there during a whole scan is returned, whatever is removed or forgotten") {
  Shell shell;
  std::vector<std::string> argv = {"SADD", "s"};
  for (int i = 1000; i < 2000; ++i) argv.push_back("m" + std::to_string(i));
  shell(argv);
  std::set<std::string> seen;
  std::string cursor = "0";
  int calls = 0;
  do {
    auto reply = lines(shell({"SSCAN", "s", cursor, "COUNT", "37"}));
    cursor = reply[0];
    seen.insert(reply.begin() + 1, reply.end());
    // The member the cursor stands at may go.
    shell({"SREM", "s", "m" + std::to_string(1000 + 37 * ++calls)});
    if (calls == 5) shell.reopen();  // cursors are forgotten: begins again
    REQUIRE(calls < 100);
  } while (cursor != "0");
  for (int i = 1000; i < 2000; ++i) {
    if (shell({"SISMEMBER", "s", "m" + std::to_string(i)}) == ":1\r\n") {
      CHECK(seen.count("m" + std::to_string(i)) == 1);
    }
  }
}

TEST_CASE("MATCH filters, COUNT counts what is looked at") {
  Shell shell;
  shell({"HSET", "h", "aa", "1", "ab", "2", "b", "3"});
  CHECK(shell({"HSCAN", "h", "0", "MATCH", "a*"}) ==
        "*2\r\n$1\r\n0\r\n*4\r\n$2\r\naa\r\n$1\r\n1\r\n$2\r\nab\r\n$1\r\n2\r\n");
  CHECK(shell({"HSCAN", "h", "0", "COUNT", "0"}) == "-ERR syntax error\r\n");
  shell({"ZADD", "z", "1.5", "m"});
  CHECK(shell({"ZSCAN", "z", "0"}) == "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nm\r\n$3\r\n1.5\r\n");
}

}  // namespace sf
