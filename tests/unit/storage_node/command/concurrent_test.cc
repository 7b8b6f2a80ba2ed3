// Reads take no key locks: they must still see each command's writes all or not at all.
#include <doctest/doctest.h>

#include <atomic>
#include <thread>

#include "tests/unit/storage_node/command/shell.h"

namespace sf {

TEST_CASE("readers beside a writer see whole commands only") {
  Shell shell;
  constexpr int kRounds = 1500;
  std::atomic<bool> done{false};
  std::atomic<int> torn{0};
  auto reader = [&] {
    while (!done) {
      // "*2 nil nil" or two equal values.
      std::string pair = shell.run({"HMGET", "h", "a", "b"});
      size_t half = 4 + (pair.size() - 4) / 2;
      if (pair.substr(4, half - 4) != pair.substr(half)) ++torn;
      std::string all = shell.run({"HGETALL", "h"});
      if (!all.starts_with("*0") && !all.starts_with("*4")) ++torn;
      // Two elements whatever is pushed and popped; positions move, the content does not.
      if (!shell.run({"LRANGE", "l", "0", "-1"}).starts_with("*2")) ++torn;
      if (!shell.run({"ZRANGE", "z", "-1", "-1"}).starts_with("*1")) ++torn;
      if (shell.run({"SINTER", "{t}x", "{t}y"}) != "*0\r\n") ++torn;
    }
  };
  shell.run({"RPUSH", "l", "1", "2"});
  shell.run({"ZADD", "z", "1", "m", "2", "n"});
  shell.run({"SADD", "{t}x", "m"});
  std::thread first(reader);
  std::thread second(reader);
  for (int i = 0; i < kRounds; ++i) {
    std::string n = std::to_string(i);
    shell.run({"HSET", "h", "a", n, "b", n});
    shell.run({"RPOPLPUSH", "l", "l"});
    shell.run({"ZADD", "z", n, "m", std::to_string(kRounds - i), "n"});
    shell.run({"SMOVE", i % 2 == 0 ? "{t}x" : "{t}y", i % 2 == 0 ? "{t}y" : "{t}x", "m"});
    if (i % 10 == 9) shell.erase("h");
  }
  done = true;
  first.join();
  second.join();
  CHECK(torn == 0);
}

}  // namespace sf
