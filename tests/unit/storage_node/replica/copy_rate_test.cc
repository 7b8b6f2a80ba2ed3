// How a copy is held back: by bytes, and by the time it takes from others.
#include "storage_node/replica/copy_rate.h"

#include <doctest/doctest.h>

using namespace sf;

namespace {

struct Rig {
  ManualClock clock;
  ReplicaSettings settings;
  CopyRate rate{clock, [this] { return settings; }};

  // Works for so long, rests as told, and says how long that was.
  int64_t work(int64_t us) {
    clock.advance_mono_us(us);
    const int64_t rest = rate.worked(us);
    clock.advance_mono_us(std::max<int64_t>(0, rest));
    return rest;
  }
};

}  // namespace

TEST_CASE("copy rate: who works a fifth of the time rests four times as long as it worked") {
  Rig rig;
  rig.settings.copy_cpu_percent = 20;
  for (int i = 0; i < 100; ++i) CHECK(rig.work(500) == 2000);
  rig.clock.advance_ms(10'000);  // time nobody used is not saved up
  CHECK(rig.work(500) == 2000);
}

TEST_CASE("copy rate: two readers share what there is") {
  Rig rig;
  rig.settings.copy_cpu_percent = 50;
  rig.clock.advance_mono_us(1000);
  CHECK(rig.rate.worked(1000) == 1000);
  CHECK(rig.rate.worked(1000) == 3000);  // at the same time
}

TEST_CASE("copy rate: a limit of more than one core lets one reader go on, 0 is no limit") {
  Rig rig;
  rig.settings.copy_cpu_percent = 200;
  for (int i = 0; i < 10; ++i) CHECK(rig.work(500) <= 0);
  rig.settings.copy_cpu_percent = 0;
  CHECK(rig.work(1'000'000) == 0);
}

TEST_CASE("copy rate: bytes leave at the rate set, after a short burst") {
  Rig rig;
  rig.settings.copy_bytes_per_second = 1'000'000;
  rig.clock.advance_ms(1000);
  CHECK(rig.rate.take(20'000) == 0);
  CHECK(rig.rate.take(50'000) == 50'000);
  rig.settings.copy_bytes_per_second = 0;
  CHECK(rig.rate.take(1 << 30) == 0);
}
