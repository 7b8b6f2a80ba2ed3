// Power losses of an engine in this process: the file system stops writing, the engine goes, and
// another one opens what is on the disk.
#include "tests/support/power_loss_fs.h"

#include "common/base/random.h"
#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

struct PowerFixture : EngineFixture {
  std::shared_ptr<PowerLossFs> disk;
  uint64_t seed;

  explicit PowerFixture(SyncPolicy sync, uint64_t first_seed = 1) : seed(first_seed) {
    engine.reset();
    options.dir = temp.sub("power");
    options.sync = sync;
    options.write_buffer_bytes = 1 << 20;
    start();
  }

  void start() {
    disk = std::make_shared<PowerLossFs>(++seed);
    options.file_system = disk;
    reopen();
  }

  void lose_power() {
    disk->lose_power();
    engine.reset();
    start();
  }
};

}  // namespace

TEST_CASE("power loss: what was not synced is gone, what was is there") {
  PowerFixture f(SyncPolicy::kNo);
  f.set("synced", "v");
  REQUIRE(f.engine->flush_wal(true));
  f.set("unsynced", "v");
  CHECK(f.value("unsynced") == "v");
  f.lose_power();
  CHECK(f.value("synced") == "v");
  CHECK(f.value("unsynced") == "<none>");
}

TEST_CASE("power loss: with sync always nothing acknowledged is lost, in 60 lives") {
  PowerFixture f(SyncPolicy::kAlways);
  Random random(7);
  uint64_t last = 0;
  std::map<std::string, std::string> acked;
  for (int life = 0; life < 60; ++life) {
    const uint64_t writes = random.below(60);
    for (uint64_t i = 0; i < writes; ++i) {
      const std::string key = "k" + std::to_string(random.below(300));
      const std::string value = std::string(random.below(9000), 'x') + std::to_string(i);
      last = f.set(key, value);
      acked[key] = value;
    }
    f.lose_power();
    CHECK(f.engine->last_seq() >= last);
    for (const auto& [key, value] : acked) REQUIRE(f.value(key) == value);
    CHECK(f.engine->key_count(0) == static_cast<int64_t>(acked.size()));
  }
}

TEST_CASE("R12 power loss: what is left is a prefix, data and log alike, in 60 lives") {
  PowerFixture f(SyncPolicy::kNo, 1000);
  Random random(11);
  std::map<uint64_t, std::string> key_of;  // seq -> key, each written once
  uint64_t n = 0;
  for (int life = 0; life < 60; ++life) {
    const uint64_t before = f.engine->last_seq();
    const uint64_t writes = random.below(200);
    uint64_t synced = before;
    for (uint64_t i = 0; i < writes; ++i) {
      const std::string key = "k" + std::to_string(n++);
      key_of[f.set(key, std::string(random.below(9000), 'x'))] = key;
      if (random.below(40) == 0) {
        REQUIRE(f.engine->flush_wal(true));
        synced = f.engine->last_seq();
      }
    }
    f.lose_power();
    const uint64_t end = f.engine->last_seq();
    REQUIRE(end >= synced);
    for (auto it = key_of.upper_bound(end); it != key_of.end(); it = key_of.erase(it)) {
      REQUIRE(f.value(it->second) == "<none>");
    }
    int64_t there = 0;
    for (const auto& [seq, key] : key_of) there += f.value(key) != "<none>" ? 1 : 0;
    REQUIRE(there == static_cast<int64_t>(key_of.size()));
    // The log of this life's survivors is readable and is what the data says.
    for (uint64_t after = before; after < end;) {
      const auto entries = f.engine->read_log(after, 50'000);
      REQUIRE_MESSAGE(entries.is_ok(), entries.status().text());
      for (const LogEntry& entry : *entries) {
        REQUIRE(entry.seq == after + 1);
        REQUIRE(entry.ops->front().key == meta_key(0, key_of[entry.seq]));
        after = entry.seq;
      }
    }
  }
}
