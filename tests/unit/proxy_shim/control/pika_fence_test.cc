// Fence keys and the accounting of a binlog. The expected ends were recorded from real servers
// (tests/golden/pika).
#include "proxy_shim/control/pika_fence.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <set>

#include "common/slots/slot_hash.h"
#include "common/slots/slot_tag.h"

namespace sf {
namespace {

constexpr uint64_t kFileSize = 104'857'600;

TEST_CASE(
    "I2 the binlog's ends are predicted as recorded: one SET, three slots of 3.4, 200010 items") {
  BinlogMeter one({}, kFileSize);
  one.append({"set", "k", "v"});
  CHECK(one.at() == BinlogOffset{0, 69});
  // Three slots of a 3.4 server with 16 slots after SET k0..k199, MSET x y, DEL k1 k2.
  const uint64_t recorded[] = {961, 963, 890};
  for (uint32_t slot = 0; slot < 3; ++slot) {
    BinlogMeter meter({}, kFileSize);
    const auto log = [&](const std::vector<std::string>& argv) {
      if (crc32_ieee(argv[1]) % 16 == slot) meter.append(argv);
    };
    for (int i = 0; i < 200; ++i) log({"set", cat("k", i), cat("v", i)});
    log({"set", "x", "1"});
    log({"set", "y", "2"});
    log({"del", "k1"});
    log({"del", "k2"});
    CHECK(meter.at() == BinlogOffset{0, recorded[slot]});
  }
  // A 3.5 server: ten items, then 200,000 over 840 blocks.
  BinlogMeter many({}, kFileSize);
  many.append({"set", "str", "v"});
  many.append({"pksetexat", "ttlk", "1796030000", "v"});
  many.append({"hset", "h", "f", "v"});
  many.append({"rpush", "l", "a", "b"});
  many.append({"sadd", "s", "a", "b"});
  many.append({"zadd", "z", "1", "a"});
  many.append({"xadd", "st", "1796027703839-0", "f", "v"});
  many.append({"pfadd", "hll", "a", "b"});
  many.append({"setbit", "bit", "7", "1"});
  many.append({"geoadd", "geo", "13.361389", "38.115556", "P"});
  const std::string value(200, 'x');
  for (int i = 0; i < 200'000; ++i) many.append({"set", cat("k", i), value});
  CHECK(many.at() == BinlogOffset{0, 55'096'144});
}

TEST_CASE("I2 a block's rest below 8 bytes is filled, a file larger than its size is left") {
  const auto after = [](uint64_t offset, size_t content) {
    BinlogMeter meter({4, offset}, 100'000);
    meter.append_content(content);
    return meter.at();
  };
  CHECK(after(65'536 - 7, 10) == BinlogOffset{4, 65'536 + 8 + 44});
  CHECK(after(65'536 - 8, 10) == BinlogOffset{4, 65'536 + 8 + 44});  // an empty fragment
  CHECK(after(65'536 - 9, 10) == BinlogOffset{4, 65'536 + 8 + 43});  // one byte in this block
  CHECK(after(100'000, 10) == BinlogOffset{4, 100'000 + 8 + 44});    // not larger yet
  CHECK(after(100'001, 10) == BinlogOffset{5, 8 + 44});              // the next file
  CHECK(after(0, 65'536 - 8 - 34) == BinlogOffset{4, 65'536});       // fills the block
  CHECK(after(0, 2 * 65'536) == BinlogOffset{4, 2 * 65'536 + 34 + 3 * 8});
}

TEST_CASE("I2 each worker gets three fence keys, and missing one by chance is below 1e-12") {
  for (int workers : {1, 2, 3, 6, 8, 12, 24}) {
    INFO(workers);
    const PikaFence fence = choose_fence("tag", "p1", "0123456789abcdef0123456789abcdef", workers);
    std::vector<int> got(static_cast<size_t>(workers), 0);
    for (const std::string& key : fence.keys) {
      ++got[std::hash<std::string>{}(key) % static_cast<size_t>(workers)];
      CHECK(hash_tag(key) == "tag");
    }
    for (int count : got) CHECK(count >= 3);
    if (workers > 1) {
      const double n = workers;
      const double miss = n * std::pow(1 - 1 / n, static_cast<double>(fence.keys.size()));
      CHECK(miss < 1e-12);
    }
    CHECK(fence.keys.size() < 40 * static_cast<size_t>(workers) + 20);
    CHECK(std::set<std::string>(fence.keys.begin(), fence.keys.end()).size() == fence.keys.size());
    CHECK(same_fence("tag", "p1", fence.value, fence.keys.size()).keys == fence.keys);
  }
  CHECK(choose_fence("t", "p", "n", 6).keys.size() >= 162);
  CHECK(choose_fence("t", "p", "n", 6).keys[0] == "{t}__slotferry:p:n:0");
}

TEST_CASE("I2 a tag for each slot, of 1024 and of fewer") {
  for (int slot = 0; slot < kSlotCount; slot += 31) {
    CHECK(slot_of(cat("{", tag_of_slot(slot, kSlotCount), "}x")) == slot);
  }
  for (int slot = 0; slot < 16; ++slot) {
    CHECK(crc32_ieee(tag_of_slot(slot, 16)) % 16 == static_cast<uint32_t>(slot));
  }
  CHECK(tag_of_slot(16, 16).empty());
}

TEST_CASE("I2 one foreign write between start and end is not our end") {
  const PikaFence fence = choose_fence("tag", "p1", "0123456789abcdef0123456789abcdef", 6);
  const BinlogOffset start{0, 65'000};
  const BinlogOffset end = end_after(fence, start, kFileSize);
  for (size_t at = 0; at <= fence.keys.size(); ++at) {
    BinlogMeter meter(start, kFileSize);
    for (size_t i = 0; i < fence.keys.size(); ++i) {
      if (i == at) meter.append({"del", "x"});
      meter.append(fence.set_command(i));
    }
    if (at == fence.keys.size()) meter.append({"del", "x"});
    CHECK(meter.at() != end);
  }
}

}  // namespace
}  // namespace sf
