// DESIGN 6.2: the forecast before anything is held.
#include "proxy_shim/control/lag_trend.h"

#include <doctest/doctest.h>

#include <functional>

#include "common/base/random.h"

namespace sf {
namespace {

using Course = LagForecast::Course;

// `count` samples `gap_ms` apart; the lag by the sample's number, `rate` applied a second.
LagTrend trend_of(int count, int64_t gap_ms, int64_t rate, const std::function<int64_t(int)>& lag) {
  LagTrend out;
  for (int i = 0; i < count; ++i) {
    out.add({i * gap_ms * 1'000, lag(i), static_cast<uint64_t>(1'000 + i * rate * gap_ms / 1'000)});
  }
  return out;
}

TEST_CASE("forecast: nothing is known of nothing, and no lag needs no time") {
  LagTrend trend;
  CHECK(trend.forecast().lag == -1);
  CHECK(why_too_late(trend.forecast(), 500, 100, 0, false).empty());
  trend.add({0, 0, 7});
  CHECK(trend.forecast().apply_ms == 0);
  CHECK(trend.forecast().course == Course::kUnknown);
}

TEST_CASE("forecast: one sample says the lag alone, so only the limit counts") {
  LagTrend trend;
  trend.add({0, 90, 7});
  CHECK(trend.forecast().apply_ms == -1);
  CHECK(why_too_late(trend.forecast(), 500, 100, 0, false).empty());
  trend.add({1'000, 101, 7});
  CHECK(why_too_late(trend.forecast(), 500, 100, 0, false) ==
        "lag 101 writes, more than 100 writes; the bound would be missed, bound 500 ms");
}

TEST_CASE("forecast: a lag that grows is refused with figures, although it is below the limit") {
  const LagTrend trend = trend_of(10, 100, 600'000, [](int i) { return 930'000 + i * 30'000; });
  const LagForecast forecast = trend.forecast();
  CHECK(forecast.course == Course::kGrowing);
  CHECK(forecast.per_second == 300'000);
  CHECK(forecast.apply_ms == 2'100);  // 1.2 MB, and 60 KB more until writes are held
  CHECK(why_too_late(forecast, 500, 10 << 20, 0, true) ==
        "lag 1.2 MB, growing 300 KB/s; forecast 2.1 s, bound 500 ms");
  CHECK(why_too_late(forecast, 10'000, 10 << 20, 0, true).empty());
}

TEST_CASE("forecast: a lag that grows and is applied in no time is no reason to wait") {
  const LagTrend trend = trend_of(10, 100, 50'000, [](int i) { return 5 + i * 3; });
  CHECK(trend.forecast().course == Course::kGrowing);
  CHECK(trend.forecast().apply_ms == 0);
  CHECK(why_too_late(trend.forecast(), 500, 5'000, 0, false).empty());
}

TEST_CASE("forecast: a lag that falls is told, and starts when it is small enough") {
  const LagTrend trend = trend_of(8, 1'000, 2'000, [](int i) { return 4'000 - i * 400; });
  CHECK(trend.forecast().course == Course::kFalling);
  CHECK(trend.forecast().per_second == -400);
  CHECK(why_too_late(trend.forecast(), 500, 5'000, 0, false) ==
        "lag 1200 writes, falling 400 writes/s; forecast 600 ms, bound 500 ms");
  CHECK(why_too_late(trend.forecast(), 2'000, 5'000, 0, false).empty());
}

TEST_CASE("forecast: no course is named before four samples and 100 ms") {
  const auto growing = [](int i) { return 100 + i * 100; };
  CHECK(trend_of(3, 1'000, 10, growing).forecast().course == Course::kUnknown);
  CHECK(trend_of(8, 10, 10, growing).forecast().course == Course::kUnknown);
  CHECK(trend_of(4, 1'000, 10, growing).forecast().course == Course::kGrowing);
}

TEST_CASE("forecast: noise is steady, and a trend is seen through it") {
  Random random(5);
  int mistaken = 0;
  for (int round = 0; round < 200; ++round) {
    const auto noise = [&](int) { return static_cast<int64_t>(random.below(100)); };
    mistaken += trend_of(10, 1'000, 5'000, noise).forecast().course == Course::kGrowing ? 1 : 0;
    const auto rising = [&](int i) { return i * 60 + static_cast<int64_t>(random.below(100)); };
    CHECK(trend_of(10, 1'000, 5'000, rising).forecast().course == Course::kGrowing);
  }
  CHECK(mistaken <= 2);
  // Two samples of ten are wild: nothing changes.
  const LagTrend wild = trend_of(10, 1'000, 5'000, [](int i) {
    return i == 3 || i == 8 ? int64_t{9'000} : int64_t{40 + i % 3};
  });
  CHECK(wild.forecast().course == Course::kSteady);
}

TEST_CASE("forecast: a lag that is stuck is refused, however small") {
  const LagTrend trend = trend_of(5, 1'000, 0, [](int) { return 2; });
  CHECK(trend.forecast().stuck_ms == 4'000);
  CHECK(why_too_late(trend.forecast(), 500, 5'000, 0, false) ==
        "lag 2 writes, steady; the new side has applied nothing for 4.0 s, bound 500 ms");
  // Two looks in a row, or a moment, say nothing.
  CHECK(trend_of(2, 1'000, 0, [](int) { return 2; }).forecast().stuck_ms == 0);
  CHECK(trend_of(5, 20, 0, [](int) { return 2; }).forecast().stuck_ms == 0);
  // Applying again, or nothing left: not stuck.
  LagTrend again = trend;
  again.add({4'100'000, 1, 1'001});
  CHECK(again.forecast().stuck_ms == 0);
}

TEST_CASE("forecast: what was applied before an idle time tells the rate") {
  LagTrend trend;
  trend.add({0, 1'000, 0});
  trend.add({1'000'000, 0, 1'000});
  trend.add({2'000'000, 0, 1'000});
  trend.add({3'000'000, 100, 1'000});
  CHECK(trend.forecast().apply_ms == 100);
}

TEST_CASE("forecast: another history begins anew, and old samples are forgotten") {
  LagTrend trend = trend_of(6, 1'000, 1'000, [](int i) { return i * 500; });
  trend.add({6'000'000, 3, 1});
  CHECK(trend.forecast().course == Course::kUnknown);
  CHECK(trend.forecast().apply_ms == -1);
  LagTrend old = trend_of(6, 1'000, 1'000, [](int i) { return i * 500; });
  old.add({60'000'000, 3, 100'000});
  CHECK(old.forecast().course == Course::kUnknown);
}

TEST_CASE("forecast: what a trial of the server showed is added") {
  LagTrend trend;
  trend.add({0, 0, 7});
  CHECK(why_too_late(trend.forecast(), 500, 100, 490, true).empty());
  CHECK(why_too_late(trend.forecast(), 500, 100, 900, true) ==
        "lag 0 B; forecast 900 ms, bound 500 ms");
}

}  // namespace
}  // namespace sf
