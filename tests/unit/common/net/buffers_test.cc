#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "common/base/random.h"
#include "common/net/read_buffer.h"
#include "common/net/timer_queue.h"
#include "common/net/write_buffer.h"

namespace sf {
namespace {

TEST_CASE("read buffer: any mix of reads and consumption keeps every byte in order") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    SharedBlock shared;
    ReadBuffer buffer;
    ReadBuffer idle;  // shares the block: its leftovers must survive the other's reads
    std::memcpy(idle.prepare(shared).at, "left over", 9);
    idle.filled(9);
    idle.consumed(5);
    uint8_t next_in = 0;
    uint8_t next_out = 0;
    bool same = true;
    for (int i = 0; i < 200; ++i) {
      const auto room = buffer.prepare(shared);
      REQUIRE(room.size >= 64 << 10);
      const size_t n = random.below(1 + std::min<size_t>(room.size, size_t{1} << random.below(18)));
      for (size_t k = 0; k < n; ++k) room.at[k] = static_cast<char>(next_in++);
      const std::string_view unread = buffer.filled(n);
      const size_t used = random.chance(0.3)   ? 0
                          : random.chance(0.3) ? unread.size()
                                               : random.below(unread.size() + 1);
      for (size_t k = 0; k < used; ++k) same &= static_cast<uint8_t>(unread[k]) == next_out++;
      buffer.consumed(used);
    }
    CHECK(same);
    CHECK(idle.unread() == "over");
  }
}

TEST_CASE("write buffer: partial sends keep order, memory goes back to the pool") {
  StringPool pool;
  WriteBuffer buffer;
  Random random(2);
  std::string expected;
  std::string sent;
  for (int i = 0; i < 2000; ++i) {
    std::string piece(random.below(2000), static_cast<char>('a' + i % 26));
    buffer.text(pool).append(piece);
    expected += piece;
    const std::string_view unsent = buffer.unsent();
    const size_t n = random.below(unsent.size() + 1);
    sent.append(unsent.substr(0, n));
    buffer.sent(n, pool);
  }
  sent.append(buffer.unsent());
  buffer.sent(buffer.size(), pool);
  CHECK(sent == expected);
  CHECK(buffer.size() == 0);
}

TEST_CASE("timer queue: a timer that adds itself without delay does not run twice in one call") {
  TimerQueue timers;
  int runs = 0;
  std::function<void()> again = [&] {
    ++runs;
    timers.add(0, again);
  };
  timers.add(0, again);
  timers.run_due(10);
  CHECK(runs == 1);
  timers.run_due(10);
  CHECK(runs == 2);
  CHECK(timers.next_due() == 0);
  timers.clear();
  CHECK_FALSE(timers.next_due().has_value());
}

}  // namespace
}  // namespace sf
