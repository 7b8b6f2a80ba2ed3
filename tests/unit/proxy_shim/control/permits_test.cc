#include "proxy_shim/control/permits.h"

#include <doctest/doctest.h>

namespace sf {
namespace {

TEST_CASE("a permit lasts ten seconds and names the slots without one") {
  ManualClock clock(0, 5);
  Permits permits(&clock);
  std::string why;
  CHECK(!permits.valid(SlotSet::range(901, 903), &why));
  CHECK(why.find("901-903") != std::string::npos);
  permits.grant(SlotSet::range(901, 902));
  CHECK(permits.valid(SlotSet::of(901), &why));
  CHECK(!permits.valid(SlotSet::range(901, 903), &why));
  CHECK(why.find("slots 903 have") != std::string::npos);
  CHECK(permits.ms_left(SlotSet::range(901, 902)) == 10'000);
  CHECK(permits.ms_left(SlotSet::range(901, 903)) == 0);
  clock.advance_ms(9'999);
  CHECK(permits.valid(SlotSet::of(901), &why));
  clock.advance_ms(1);
  CHECK(!permits.valid(SlotSet::of(901), &why));
}

}  // namespace
}  // namespace sf
