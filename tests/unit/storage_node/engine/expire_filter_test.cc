#include "storage_node/engine/expire_filter.h"

#include <doctest/doctest.h>

#include <map>

#include "storage_node/engine/key_format.h"
#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

constexpr int64_t kHourMs = 3600 * 1000;

struct World {
  std::map<std::string, MetaPeek> metas;
  bool silent = false;
  int64_t now_ms = 10 * kHourMs;
};

class FakeMetas : public MetaSource {
 public:
  explicit FakeMetas(World& world) : world_(world) {}
  std::optional<Answer> find(std::string_view meta_key) override {
    if (world_.silent) return std::nullopt;
    const auto it = world_.metas.find(std::string(meta_key));
    if (it == world_.metas.end()) return Answer{};
    return Answer{true, it->second};
  }
  int64_t expiry_now_ms(int) override { return world_.now_ms; }

 private:
  World& world_;
};

bool drops(World& world, const std::string& key, uint64_t version) {
  const auto factory = make_expire_filter([&] { return std::make_unique<FakeMetas>(world); });
  const auto filter = factory->CreateCompactionFilter(rocksdb::CompactionFilter::Context());
  bool changed = false;
  std::string value;
  return filter->Filter(1, data_prefix(0, key, version) + "f", "", &value, &changed);
}

}  // namespace

TEST_CASE("compaction drops entries of deleted, replaced and long expired collections only") {
  World world;
  world.metas[meta_key(0, "live")] = {0, 5};
  world.metas[meta_key(0, "later")] = {world.now_ms + 1, 5};
  world.metas[meta_key(0, "just")] = {world.now_ms - kHourMs + 1, 5};
  world.metas[meta_key(0, "long")] = {world.now_ms - kHourMs - 1, 5};
  world.metas[meta_key(0, "string")] = {0, 0};
  CHECK_FALSE(drops(world, "live", 5));
  CHECK(drops(world, "live", 4));
  CHECK(drops(world, "gone", 5));
  CHECK(drops(world, "string", 5));
  CHECK_FALSE(drops(world, "later", 5));
  CHECK_FALSE(drops(world, "just", 5));
  CHECK(drops(world, "long", 5));
  world.silent = true;
  CHECK_FALSE(drops(world, "gone", 5));
}
