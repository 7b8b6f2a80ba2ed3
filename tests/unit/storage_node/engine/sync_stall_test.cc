// An fsync that takes as long as it likes: who does not wait for it by his policy must not notice.
#include <future>

#include "tests/unit/storage_node/engine/engine_fixture.h"
#include "tests/unit/storage_node/engine/slow_disk.h"

using namespace sf;

namespace {

struct SlowFixture : EngineFixture {
  std::shared_ptr<SlowDisk> disk = std::make_shared<SlowDisk>();
  explicit SlowFixture(SyncPolicy sync) {
    engine.reset();
    options.dir = temp.sub("slow");
    options.sync = sync;
    options.file_system = disk;
    reopen();
  }
  ~SlowFixture() { disk->turnpike.shut(false); }
};

}  // namespace

TEST_CASE("sync everysec: writers go on while the fsync takes as long as it likes") {
  SlowFixture f(SyncPolicy::kEverySecond);
  f.set("first", "v");
  f.disk->turnpike.shut(true);
  REQUIRE(f.disk->turnpike.wait_for_somebody());
  auto writes = std::async(std::launch::async, [&f] {
    const std::string value(5'000, 'x');
    // More than a memtable, so that a WAL file ends meanwhile too.
    for (int i = 0; i < 1200; ++i) f.set("k" + std::to_string(i), value);
  });
  CHECK(writes.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  CHECK(f.disk->turnpike.somebody_waits());
  f.disk->turnpike.shut(false);
}

TEST_CASE("sync always: a write is told of only after its fsync, and readers do not wait for it") {
  SlowFixture f(SyncPolicy::kAlways);
  f.set("first", "v");
  f.disk->turnpike.shut(true);
  auto write = std::async(std::launch::async, [&f] { f.set("second", "v"); });
  REQUIRE(f.disk->turnpike.wait_for_somebody());
  CHECK(write.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  CHECK(f.value("first") == "v");
  f.disk->turnpike.shut(false);
  CHECK(write.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
}
