#include "storage_node/engine/log_retention.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

constexpr LogLimits kLimits{1000, 3600, 300};

// Files of 100 sequences and 100 bytes each, from 1 on; the last is still open.
std::vector<LogFile> ten_files() {
  std::vector<LogFile> out;
  for (uint64_t i = 0; i < 10; ++i) out.push_back({"", 1 + i * 100, 100, 0, i < 9});
  return out;
}

// Entries until at least `bytes` of log are closed and archived.
uint64_t write_megabytes(EngineFixture& f, int megabytes) {
  const std::string value(10'000, 'x');
  uint64_t seq = 0;
  for (int i = 0; i < megabytes * 100; ++i) seq = f.set("k" + std::to_string(i % 500), value);
  return seq;
}

std::vector<std::filesystem::path> archived_files(const EngineFixture& f) {
  std::vector<std::filesystem::path> out;
  for (const auto& e : std::filesystem::directory_iterator(f.options.dir + "/archive")) {
    out.push_back(e.path());
  }
  return out;
}

size_t still_there(const std::vector<std::filesystem::path>& files) {
  return static_cast<size_t>(std::count_if(
      files.begin(), files.end(), [](const auto& file) { return std::filesystem::exists(file); }));
}

// Files are closed by flushes, which come when they come: writes and trims until it is so.
template <typename Condition>
void trim_until(EngineFixture& f, Condition condition) {
  for (int i = 0; i < 400 && !condition(); ++i) {
    write_megabytes(f, 1);
    REQUIRE(f.engine->trim_log());
  }
}

// A small engine: a memtable, and so a WAL file, is a megabyte.
struct SmallLog : EngineFixture {
  SmallLog(size_t keep_mb, size_t spare_mb) {
    options.write_buffer_bytes = 1 << 20;
    options.wal_keep_bytes = keep_mb << 20;
    options.wal_spare_bytes = spare_mb << 20;
    reopen();
  }
};

}  // namespace

TEST_CASE("log retention: what nobody needs goes down to the spare size") {
  const LogCut cut = decide_log_cut(ten_files(), UINT64_MAX, 0, kLimits);
  CHECK(cut.files == 7);
  CHECK(cut.limit == LogCut::Limit::kNone);
  CHECK(decide_log_cut(ten_files(), UINT64_MAX, 0, {1000, 3600, 1000}).files == 0);
  CHECK(decide_log_cut(ten_files(), UINT64_MAX, 0, {1000, 3600, 0}).files == 9);
}

TEST_CASE("R08: what somebody needs is kept up to the limits, and no longer") {
  CHECK(decide_log_cut(ten_files(), 1, 0, kLimits).files == 0);
  // The file with the needed entry stays, those before it go.
  CHECK(decide_log_cut(ten_files(), 301, 0, kLimits).files == 3);
  CHECK(decide_log_cut(ten_files(), 400, 0, kLimits).files == 3);
  CHECK(decide_log_cut(ten_files(), 401, 0, kLimits).files == 4);
  const LogCut over = decide_log_cut(ten_files(), 1, 0, {650, 3600, 300});
  CHECK(over.files == 4);
  CHECK(over.limit == LogCut::Limit::kBytes);
  auto files = ten_files();
  files[0].age_ms = 3600 * 1000;
  const LogCut old = decide_log_cut(files, 1, 0, kLimits);
  CHECK(old.files == 1);
  CHECK(old.limit == LogCut::Limit::kSeconds);
  // Old, but needed by nobody: no limit is to be told of.
  CHECK(decide_log_cut(files, 101, 0, kLimits).limit == LogCut::Limit::kNone);
}

TEST_CASE("log retention: files RocksDB still uses stay, and unreadable ones go at once") {
  auto files = ten_files();
  for (size_t i = 2; i < files.size(); ++i) files[i].archived = false;
  CHECK(decide_log_cut(files, UINT64_MAX, 0, {0, 0, 0}).files == 2);
  CHECK(decide_log_cut(files, 1, 0, {0, 0, 0}).files == 2);
  CHECK(decide_log_cut(ten_files(), UINT64_MAX, 501, {1000, 3600, 1000}).files == 5);
  CHECK(decide_log_cut({}, 1, 0, kLimits).files == 0);
  CHECK(log_bytes_from(ten_files(), 801) == 200);
  CHECK(log_bytes_from(ten_files(), 0) == 1000);
}

TEST_CASE("R08: the engine keeps a claimed log, and lets it go when the claim is dropped") {
  SmallLog f(100, 0);
  f.set("first", "v");
  f.engine->claim_log_after("copy", 1);
  write_megabytes(f, 8);
  REQUIRE(f.engine->trim_log());
  CHECK(f.engine->oldest_seq() <= 2);
  auto kept = f.engine->log_kept();
  CHECK(kept.bytes > 7U << 20);
  REQUIRE(kept.claims.size() == 1);
  CHECK(kept.claims[0].bytes > 7U << 20);
  CHECK(f.engine->lost_log_claim("copy").empty());
  const auto entries = f.engine->read_log(1, 1000);
  REQUIRE_MESSAGE(entries.is_ok(), entries.status().text());
  CHECK(entries->front().seq == 2);

  // A restart keeps it within the spare size only: whoever comes back is too late here.
  f.engine->drop_log_claim("copy");
  trim_until(f, [&f] { return f.engine->oldest_seq() > 2; });
  kept = f.engine->log_kept();
  CHECK(kept.cuts == 0);
  const uint64_t last = f.engine->last_seq();
  const uint64_t oldest = f.engine->oldest_seq();
  CHECK(oldest > 2);
  CHECK(oldest <= last + 1);
  CHECK(f.engine->read_log(1, 1000).status().code() == Code::kNotFound);
  if (oldest <= last) {
    const auto rest = f.engine->read_log(oldest - 1, 1000);
    REQUIRE_MESSAGE(rest.is_ok(), rest.status().text());
    CHECK(rest->front().seq == oldest);
  }
  f.reopen();
  CHECK(f.engine->last_seq() == last);
  CHECK(f.set("more", "v") == last + 1);
}

TEST_CASE(
    "R08: after a restart the log is kept for a minute, until replicas have claimed it again") {
  SmallLog f(100, 0);
  write_megabytes(f, 8);
  f.engine->claim_log_after("replica", 1);
  f.reopen();
  REQUIRE(f.engine->trim_log());
  CHECK(f.engine->oldest_seq() <= 2);
  CHECK(f.engine->read_log(1, 1000).is_ok());
  f.clock.advance_ms(61'000);
  trim_until(f, [&f] { return f.engine->oldest_seq() > 2; });
  CHECK(f.engine->oldest_seq() > 2);
}

TEST_CASE("R08: a claim over the limit is lost, and says its position and the limit") {
  SmallLog f(3, 0);
  f.set("first", "v");
  f.engine->claim_log_after("replica 10.0.0.1:9221 (7)", 1);
  write_megabytes(f, 12);
  trim_until(f, [&f] { return f.engine->log_kept().cuts > 0; });
  const std::string lost = f.engine->lost_log_claim("replica 10.0.0.1:9221 (7)");
  CHECK(lost.find("after 1 ") != std::string::npos);
  CHECK(lost.find("wal-keep-size 3 MB") != std::string::npos);
  const auto kept = f.engine->log_kept();
  CHECK(kept.cuts == 1);
  CHECK(kept.last_cut.find("10.0.0.1:9221") != std::string::npos);
  CHECK(kept.claims[0].bytes == 0);
  // Told once; a new claim is a new chance.
  REQUIRE(f.engine->trim_log());
  CHECK(f.engine->log_kept().cuts == 1);
  f.engine->claim_log_after("replica 10.0.0.1:9221 (7)", f.engine->last_seq());
  CHECK(f.engine->lost_log_claim("replica 10.0.0.1:9221 (7)").empty());
}

TEST_CASE("log retention: the age limit counts in monotonic time, whatever the wall clock does") {
  SmallLog f(100, 100);
  f.options.wal_keep_seconds = 600;
  f.reopen();
  write_megabytes(f, 12);
  REQUIRE(f.engine->trim_log());
  trim_until(f, [&f] { return archived_files(f).size() > 1; });
  const auto files = archived_files(f);  // a flush under way may add more
  REQUIRE(files.size() > 1);
  f.clock.jump_wall_ms(3 * 24 * 3600 * 1000LL);
  REQUIRE(f.engine->trim_log());
  CHECK(still_there(files) == files.size());
  f.clock.advance_ms(601 * 1000);
  REQUIRE(f.engine->trim_log());
  CHECK(still_there(files) == 0);
}

TEST_CASE("log retention: readers and writers go on while the log is let go of") {
  SmallLog f(100, 2);
  std::atomic<bool> over{false};
  std::thread trimmer([&] {
    while (!over) REQUIRE(f.engine->trim_log());
  });
  std::thread reader([&] {
    uint64_t after = 0;
    while (!over || after < f.engine->last_seq()) {
      f.engine->claim_log_after("reader", after);
      const auto entries = f.engine->read_log(after, 100'000);
      if (!entries) {
        REQUIRE_MESSAGE(entries.status().code() == Code::kNotFound, entries.status().text());
        REQUIRE(after == 0);  // before the claim counted
        after = f.engine->oldest_seq() - 1;
        continue;
      }
      for (const LogEntry& entry : *entries) {
        REQUIRE(entry.seq == after + 1);
        after = entry.seq;
      }
    }
  });
  write_megabytes(f, 20);
  over = true;
  trimmer.join();
  reader.join();
}
