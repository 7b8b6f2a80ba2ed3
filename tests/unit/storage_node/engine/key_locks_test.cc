#include "storage_node/engine/key_locks.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace sf;

TEST_CASE(
    "key locks: many keys in any order, doubles included, exclude each other and never hang") {
  const auto locks = std::make_unique<KeyLocks>();
  std::array<int, 8> counters{};
  std::vector<std::string> names;
  for (size_t i = 0; i < counters.size(); ++i) names.push_back("k" + std::to_string(i));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t n = 0; n < 2000; ++n) {
        const size_t a = (t + n) % counters.size();
        const size_t b = (t * 3 + n * 5) % counters.size();
        if (n % 100 == 0) {
          const KeyLocks::Held all = locks->lock_all();
          for (int& counter : counters) ++counter;
          continue;
        }
        const std::array<std::string_view, 3> keys = {names[b], names[a], names[b]};
        const KeyLocks::Held held = locks->lock(0, keys);
        ++counters[a];
        if (a != b) ++counters[b];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int expected = 0;
  for (size_t t = 0; t < 4; ++t) {
    for (size_t n = 0; n < 2000; ++n) {
      const bool same = (t + n) % 8 == (t * 3 + n * 5) % 8;
      expected += n % 100 == 0 ? 8 : (same ? 1 : 2);
    }
  }
  int sum = 0;
  for (const int counter : counters) sum += counter;
  CHECK(sum == expected);
}

TEST_CASE("key locks: one more key is never waited for") {
  const auto locks = std::make_unique<KeyLocks>();
  const std::array<std::string_view, 1> mine = {"a"};
  KeyLocks::Held held = locks->lock(0, mine);
  KeyLocks::Held more;
  CHECK(locks->try_lock_more(0, "a", 0, mine, &more));  // held already
  KeyLocks::Held other = locks->lock(1, "b");
  std::thread([&] {
    KeyLocks::Held third;
    const std::array<std::string_view, 1> theirs = {"c"};
    const KeyLocks::Held c = locks->lock(0, theirs);
    CHECK_FALSE(locks->try_lock_more(1, "b", 0, theirs, &third));
  }).join();
  other.release();
  CHECK(locks->try_lock_more(1, "b", 0, mine, &more));
}
