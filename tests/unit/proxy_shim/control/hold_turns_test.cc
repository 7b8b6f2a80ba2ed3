// DESIGN 6.2, ADR 0019: who may prepare and hold, on a clock of the test's own.
#include "proxy_shim/control/hold_turns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace sf {
namespace {

constexpr int64_t kMs = 1'000;

TEST_CASE("pacing: the next hold waits until 5 % of the time was held, and no longer than 40 ms") {
  for (const auto& [held_ms, gap_ms] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 19}, {2, 38}, {3, 40}, {400, 40}}) {
    HoldTurns turns({1, 5, 40 * kMs});
    turns.prepare();
    CHECK(turns.wait_us(7) == 0);
    CHECK(turns.begin(0, 0) == -1);
    CHECK(turns.wait_us(1) == HoldTurns::kNotYet);
    turns.end(held_ms * kMs);
    CHECK(turns.wait_us(held_ms * kMs) == gap_ms * kMs);
    CHECK(turns.wait_us((held_ms + gap_ms) * kMs) == 0);
  }
}

TEST_CASE("pacing: after a hold that was taken back all of the share is waited for") {
  HoldTurns turns({1, 5, 40 * kMs});
  turns.prepare();
  turns.begin(0, 0);
  turns.end(500 * kMs, true);
  CHECK(turns.wait_us(500 * kMs, 0) == 9'500 * kMs);          // the automatic mode's
  CHECK(turns.wait_us(500 * kMs, 500 * kMs) == 9'500 * kMs);  // asked for while it was held
  CHECK(turns.wait_us(501 * kMs, 501 * kMs) == 39 * kMs);     // again, by somebody who knows
  turns.prepare();
  turns.begin(600 * kMs, 600 * kMs);
  turns.end(602 * kMs);
  CHECK(turns.wait_us(602 * kMs, 0) == 9'398 * kMs);       // what is asked for does not shorten it
  CHECK(turns.wait_us(602 * kMs, 550 * kMs) == 38 * kMs);  // nor who asked before that one
  CHECK(turns.wait_us(10'000 * kMs, 0) == 0);
}

TEST_CASE("pacing: a rest is a minute at most, and none where the usual gap is the whole share") {
  HoldTurns turns({1, 5, 40 * kMs});
  turns.prepare();
  turns.begin(0, 0);
  turns.end(kMs, true);
  CHECK(turns.rests_until_us(0) == 0);
  CHECK(turns.wait_us(kMs, 0) == 19 * kMs);
  turns.prepare();
  turns.begin(1'000 * kMs, 0);
  turns.end(61'000 * kMs, true);
  CHECK(turns.rests_until_us(61'000 * kMs) == 121'000 * kMs);
}

TEST_CASE("while one holds nobody else is prepared; one more than may hold is") {
  HoldTurns turns({1, 5, 40 * kMs});
  REQUIRE(turns.may_prepare());
  turns.prepare();
  REQUIRE(turns.may_prepare());
  turns.prepare();
  CHECK(!turns.may_prepare());
  turns.begin(0, 0);
  turns.end(kMs);
  CHECK(turns.may_prepare());
  turns.prepare();
  turns.begin(50 * kMs, 0);
  turns.withdraw();  // the other one gave up meanwhile
  CHECK(!turns.may_prepare());
  turns.end(51 * kMs);
  CHECK(turns.may_prepare());
}

TEST_CASE("several at once: a batch is filled until one of it ends, and paced as a whole") {
  HoldTurns turns({2, 5, 400 * kMs});
  for (int i = 0; i < 3; ++i) {
    REQUIRE(turns.may_prepare());
    turns.prepare();
  }
  turns.begin(0, 0);
  CHECK(turns.wait_us(kMs) == 0);
  turns.begin(kMs, 0);
  CHECK(turns.wait_us(kMs) == HoldTurns::kNotYet);
  turns.end(2 * kMs);
  CHECK(turns.wait_us(2 * kMs) == HoldTurns::kNotYet);  // one place is free, and the batch is over
  turns.end(4 * kMs);
  CHECK(turns.wait_us(4 * kMs) == 4 * 19 * kMs);
}

// A move of `units` that are all there from the start: each lane prepares a unit, waits for its
// turn, holds, and ties up what is left. Answers the idle gaps.
std::vector<int64_t> gaps_of(int units, int lanes, int64_t prepare_us, int64_t hold_us,
                             int64_t after_us) {
  enum class Doing { kIdle, kPreparing, kReady, kHolding, kAfter };
  struct Lane {
    Doing doing = Doing::kIdle;
    int64_t until = 0;
  };
  HoldTurns turns({1, 5, 40 * kMs});
  std::vector<Lane> all(static_cast<size_t>(lanes));
  std::vector<int64_t> gaps;
  int left = units;
  for (int64_t now = 0;
       left > 0 ||
       std::any_of(all.begin(), all.end(), [](const Lane& l) { return l.doing != Doing::kIdle; });
       now += 100) {
    for (Lane& lane : all) {
      const bool over = now >= lane.until;
      if (lane.doing == Doing::kAfter && over) lane.doing = Doing::kIdle;
      if (lane.doing == Doing::kHolding && over) {
        turns.end(now);
        lane = {Doing::kAfter, now + after_us};
      }
      if (lane.doing == Doing::kPreparing && over) lane.doing = Doing::kReady;
      if (lane.doing == Doing::kReady && turns.wait_us(now) == 0) {
        const int64_t gap = turns.begin(now, 0);
        if (gap >= 0) gaps.push_back(gap);
        lane = {Doing::kHolding, now + hold_us};
      }
      if (lane.doing == Doing::kIdle && left > 0 && turns.may_prepare()) {
        turns.prepare();
        --left;
        lane = {Doing::kPreparing, now + prepare_us};
      }
    }
  }
  return gaps;
}

TEST_CASE("the idle gap between 123 units is what pacing asks for, and at most 50 ms") {
  struct Shape {
    int64_t prepare_ms, hold_ms, after_ms, gap_ms;
  };
  for (const Shape& shape : std::vector<Shape>{{5, 2, 10, 38},    // as measured
                                               {30, 2, 30, 38},   // a slow disk
                                               {5, 10, 100, 40},  // slow to link
                                               {60, 5, 60, 40},   // preparing longer than pacing
                                               {1, 1, 1, 19}}) {
    CAPTURE(shape.prepare_ms);
    const auto gaps =
        gaps_of(123, 3, shape.prepare_ms * kMs, shape.hold_ms * kMs, shape.after_ms * kMs);
    REQUIRE(gaps.size() == 122);
    CHECK(*std::max_element(gaps.begin(), gaps.end()) <= 50 * kMs);
    CHECK(*std::min_element(gaps.begin(), gaps.end()) >= shape.gap_ms * kMs - 100);
    CHECK(gaps[60] <= shape.gap_ms * kMs + 200);
  }
  // One lane, as it was before: everything comes on top of the pacing.
  const auto before = gaps_of(10, 1, 5 * kMs, 2 * kMs, 10 * kMs);
  CHECK(*std::min_element(before.begin(), before.end()) > 15 * kMs);
}

TEST_CASE("idle time without a unit is no gap") {
  HoldTurns turns({1, 5, 40 * kMs});
  turns.prepare();
  CHECK(turns.begin(0, 0) == -1);
  turns.end(kMs);
  turns.prepare();
  CHECK(turns.begin(900 * kMs, 800 * kMs) == -1);  // asked for long after
  turns.end(901 * kMs);
  turns.prepare();
  CHECK(turns.begin(941 * kMs, 900 * kMs) == 40 * kMs);
}

}  // namespace
}  // namespace sf
