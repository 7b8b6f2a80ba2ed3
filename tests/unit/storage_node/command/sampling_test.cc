// Random members: shapes (C34), and that large collections are drawn from all over.
#include <doctest/doctest.h>

#include <set>

#include "storage_node/types/sampling.h"
#include "tests/unit/storage_node/command/shell.h"

namespace sf {

TEST_CASE("C34 SPOP and SRANDMEMBER: reply shapes and counts") {
  Shell shell;
  shell({"SADD", "s", "a", "b", "c"});
  CHECK(shell({"SRANDMEMBER", "s", "-5"}).starts_with("*5\r\n"));
  CHECK(shell({"SRANDMEMBER", "s", "5"}).starts_with("*3\r\n"));
  CHECK(shell({"SRANDMEMBER", "s", "-9223372036854775808"})
            .starts_with("-ERR value is out of range"));
  CHECK(shell({"SPOP", "s", "0"}) == "*0\r\n");
  CHECK(shell({"SPOP", "s", "-1"}) == "-ERR value is out of range, must be positive\r\n");
  CHECK(shell({"SPOP", "s", "2"}).starts_with("*2\r\n"));
  CHECK(shell({"SPOP", "s"}).starts_with("$1\r\n"));
  CHECK(shell({"SPOP", "s"}) == "$-1\r\n");
  CHECK(shell({"SPOP", "s", "3"}) == "*0\r\n");
}

TEST_CASE("a large set is sampled without a pass over it, from all over, without doubles") {
  Shell shell;
  std::vector<std::string> argv = {"SADD", "s"};
  for (int i = 0; i < 20000; ++i) argv.push_back("user:" + std::to_string(i));
  shell(argv);
  KeyTxn keys(shell.engine(), 0);
  Collection& set = keys.open("s", KeyType::kSet);
  Random random(5);
  std::set<std::string> distinct;
  for (const Entry& entry : sample_distinct(set, 300, random)) distinct.insert(entry.field);
  CHECK(distinct.size() == 300);
  std::set<char> first_digits;
  sample_repeated(set, 300, random,
                  [&](const Entry& entry) { first_digits.insert(entry.field[5]); });
  CHECK(first_digits.size() == 10);
  CHECK(shell({"SPOP", "s", "1000"}).starts_with("*1000\r\n"));
  CHECK(shell({"SCARD", "s"}) == ":19000\r\n");
}

TEST_CASE("a set popped down to few is put anew, with its members and its TTL") {
  Shell shell;
  std::vector<std::string> argv = {"SADD", "s"};
  for (int i = 0; i < 12000; ++i) argv.push_back("user:" + std::to_string(i));
  shell(argv);
  shell.expire("s", shell.clock().wall_ms() + 1000);
  auto version = [&] { return (*load_meta(shell.engine(), 0, "s"))->version; };
  uint64_t before = version();
  shell({"SPOP", "s", "11990"});
  shell({"SPOP", "s"});
  CHECK(version() != before);
  CHECK(shell({"SCARD", "s"}) == ":9\r\n");
  CHECK(shell({"SMEMBERS", "s"}).starts_with("*9\r\n"));
  CHECK((*load_meta(shell.engine(), 0, "s"))->expire_ms == shell.clock().wall_ms() + 1000);
  CHECK(shell.engine().key_count(0) == 1);
}

}  // namespace sf
