#include "common/records/record_db.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/file_size_limit.h"
#include "tests/support/log_files.h"
#include "tests/support/temp_dir.h"

namespace sf {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<RecordDb> opened(const std::string& dir,
                                 RecordDb::Mode mode = RecordDb::Mode::kCreate) {
  auto db = RecordDb::open(dir, mode);
  REQUIRE_MESSAGE(db.is_ok(), db.status().text());
  return std::move(*db);
}

Status put(RecordDb& db, const std::string& key, const std::string& value, bool sync = true) {
  RecordBatch batch;
  batch.put(key, value);
  return db.write(batch, sync);
}

constexpr const char* kNone = "(none)";

std::string value(const RecordDb& db, const std::string& key) {
  const auto found = db.get(key);
  REQUIRE(found.is_ok());
  return found.value().value_or(kNone);
}

std::map<std::string, std::string> all(const RecordDb& db, const std::string& from = "") {
  std::map<std::string, std::string> out;
  CHECK(db.scan(from, [&](std::string_view key, std::string_view value) {
            out[std::string(key)] = value;
            return true;
          }).is_ok());
  return out;
}

TEST_CASE("records: what is written is there after a restart, a batch whole") {
  TempDir dir;
  CHECK_FALSE(RecordDb::exists(dir.path()));
  {
    auto db = opened(dir.path());
    RecordBatch batch;
    batch.put("a", "1");
    batch.put("b", "2");
    batch.put("k1", "");
    batch.put("k2", "");
    CHECK(db->write(batch, true).is_ok());
    RecordBatch more;
    more.erase("a");
    more.erase_range("k", "l");
    more.put("c", std::string("\0\xff", 2));
    CHECK(db->write(more, false).is_ok());
  }
  CHECK(RecordDb::exists(dir.path()));
  auto db = opened(dir.path(), RecordDb::Mode::kExisting);
  CHECK(all(*db) ==
        std::map<std::string, std::string>{{"b", "2"}, {"c", std::string("\0\xff", 2)}});
  CHECK(all(*db, "c").size() == 1);
  CHECK(value(*db, "b") == "2");
  CHECK(value(*db, "a") == kNone);
}

TEST_CASE("records: a folder that is not there, and one that is only read") {
  TempDir dir;
  CHECK(RecordDb::open(dir.sub("none"), RecordDb::Mode::kExisting).status().code() != Code::kOk);
  { CHECK(put(*opened(dir.path()), "a", "1").is_ok()); }
  auto reader = opened(dir.path(), RecordDb::Mode::kReadOnly);
  CHECK(value(*reader, "a") == "1");
  CHECK(put(*reader, "b", "2").code() == Code::kRefused);
}

// What stands behind the last synced write, cut off where a crash may have cut it.
TEST_CASE("I10: a last record that was cut off before it was synced is left out") {
  for (const uint64_t missing : {1, 5, 40, 80}) {
    CAPTURE(missing);
    TempDir dir;
    {
      auto db = opened(dir.path());
      CHECK(put(*db, "a", std::string(60, 'x')).is_ok());
      CHECK(put(*db, "b", std::string(60, 'y'), false).is_ok());
    }
    const std::string log = newest_log(dir.path());
    fs::resize_file(log, fs::file_size(log) - missing);
    auto db = opened(dir.path(), RecordDb::Mode::kExisting);
    CHECK(value(*db, "a") == std::string(60, 'x'));
    CHECK(value(*db, "b") == kNone);
    CHECK(put(*db, "c", "3").is_ok());
  }
}

void check_damaged(const std::string& dir) {
  for (const auto mode : {RecordDb::Mode::kExisting, RecordDb::Mode::kReadOnly}) {
    auto db = RecordDb::open(dir, mode);
    CHECK(db.status().code() == Code::kCorrupt);
    CHECK(db.status().text().find(dir) != std::string::npos);
  }
}

TEST_CASE("I10: a log that ends before what was synced is an error, not an older state") {
  for (const uint64_t missing : {1, 40, 82, 90, 120, 164, 166}) {  // some whole records, too
    CAPTURE(missing);
    TempDir dir;
    {
      auto db = opened(dir.path());
      for (const char* key : {"a", "b", "c"}) CHECK(put(*db, key, std::string(60, 'x')).is_ok());
    }
    const std::string log = newest_log(dir.path());
    fs::resize_file(log, fs::file_size(log) - missing);
    check_damaged(dir.path());
  }
}

TEST_CASE("I10: any byte that is wrong is an error, not an older state") {
  TempDir dir;
  {
    auto db = opened(dir.path());
    for (int i = 0; i < 5; ++i) CHECK(put(*db, std::to_string(i), std::string(50, 'x')).is_ok());
  }
  const uint64_t size = fs::file_size(newest_log(dir.path()));
  for (uint64_t at = 0; at < size; at += 7) {
    CAPTURE(at);
    TempDir copy;
    fs::copy(dir.path(), copy.sub("d"), fs::copy_options::recursive);
    std::fstream file(newest_log(copy.sub("d")), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.write("\x55\xaa\x55\xaa", 4);
    file.close();
    check_damaged(copy.sub("d"));
  }
}

TEST_CASE(
    "I10: a write that fails half way is followed by refusals; opened anew, all before it is "
    "there") {
  for (const uint64_t room : {1, 70, 700}) {
    CAPTURE(room);
    TempDir dir;
    auto db = opened(dir.path());
    CHECK(put(*db, "a", "1").is_ok());
    {
      const FileSizeLimit limit(fs::file_size(newest_log(dir.path())) + room);
      CHECK_FALSE(put(*db, "b", std::string(1000, 'x')).is_ok());
    }
    CHECK(db->broken());
    // There is room again, but the log is broken: RocksDB would end the process here.
    CHECK(put(*db, "c", "3").code() == Code::kUnavailable);
    CHECK(value(*db, "a") == "1");
    REQUIRE(db->reopen().is_ok());
    CHECK_FALSE(db->broken());
    CHECK(value(*db, "a") == "1");
    CHECK(value(*db, "b") == kNone);
    CHECK(put(*db, "c", "3").is_ok());
    db.reset();
    CHECK(all(*opened(dir.path(), RecordDb::Mode::kExisting)).size() == 2);
  }
}

TEST_CASE("I10: killed after a write that failed half way, the next start opens it") {
  TempDir dir;
  auto db = opened(dir.path());
  CHECK(put(*db, "a", "1").is_ok());
  {
    const FileSizeLimit limit(fs::file_size(newest_log(dir.path())) + 300);
    CHECK_FALSE(put(*db, "b", std::string(1000, 'x')).is_ok());
  }
  TempDir copy;
  fs::copy(dir.path(), copy.sub("d"), fs::copy_options::recursive);  // as a kill would leave it
  auto next = opened(copy.sub("d"), RecordDb::Mode::kExisting);
  CHECK(all(*next) == std::map<std::string, std::string>{{"a", "1"}});
}

}  // namespace
}  // namespace sf
