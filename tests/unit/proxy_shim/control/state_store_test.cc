#include "proxy_shim/control/state_store.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/records/record_db.h"
#include "tests/support/file_size_limit.h"
#include "tests/support/log_files.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

namespace fs = std::filesystem;

std::vector<nlohmann::json> audit_of(const std::string& dir) {
  std::vector<nlohmann::json> out;
  std::ifstream file(dir + "/audit.jsonl");
  for (std::string line; std::getline(file, line);) out.push_back(nlohmann::json::parse(line));
  return out;
}

TEST_CASE("I10: what is written is there after a restart") {
  TempDir dir;
  SystemClock clock;
  const MovePlan plan = test_plan();
  {
    auto store = StateStore::open(dir.path(), plan, true, &clock);
    REQUIRE(store.is_ok());
    CHECK((*store)->records().size() == 10);
    CHECK((*store)->record_intent(SlotSet::of(905), 1, {{"what", "begin"}}).is_ok());
    SlotRecord record;
    record.phase = SlotPhase::kNew;
    record.epoch = record.attempt = 1;
    record.proof = {"h", 77};
    record.promoted = {"n", 5};
    CHECK((*store)->commit_owner(SlotSet::of(905), record, {{"what", "owner"}}).is_ok());
    CHECK(*(*store)->next_epoch() == 2);
    CHECK((*store)->take_lock("me", false)->epoch == 1);
    CHECK((*store)->put_note("period", "10").is_ok());
  }
  auto store = StateStore::open(dir.path(), plan, false, &clock);
  REQUIRE(store.is_ok());
  CHECK((*store)->epoch() == 2);
  CHECK((*store)->record(905).phase == SlotPhase::kNew);
  CHECK((*store)->record(905).proof == ReplPosition{"h", 77});
  CHECK((*store)->record(905).promoted == ReplPosition{"n", 5});
  CHECK((*store)->record(904).phase == SlotPhase::kOld);
  CHECK((*store)->run_lock().owner == "me");
  CHECK((*store)->note("period") == "10");
  CHECK((*store)->drop_note("period").is_ok());
  CHECK(!(*store)->note("period"));
}

TEST_CASE("I3: the direction of an attempt is there after a restart, until the slot is final") {
  TempDir dir;
  SystemClock clock;
  const MovePlan plan = test_plan();
  const SlotSet one = SlotSet::of(905);
  {
    auto store = StateStore::open(dir.path(), plan, true, &clock);
    SlotRecord record;
    record.phase = SlotPhase::kNew;
    record.epoch = record.attempt = 1;
    CHECK((*store)->commit_owner(one, record, {}).is_ok());
    CHECK((*store)->record_intent(one, 2, {}, true).is_ok());
  }
  auto store = StateStore::open(dir.path(), plan, false, &clock);
  CHECK((*store)->record(905).back);
  CHECK((*store)->record(905).phase == SlotPhase::kNew);
  CHECK((*store)->record(905).epoch == 1);
  CHECK((*store)->record(905).attempt == 2);
  CHECK((*store)->set_final(one, {}).is_ok());
  CHECK(!(*store)->record(905).back);
}

TEST_CASE("records of a shim that could not go back are read") {
  TempDir dir;
  SystemClock clock;
  const MovePlan plan = test_plan();
  (void)StateStore::open(dir.path(), plan, true, &clock);
  {
    auto db = RecordDb::open(dir.path() + "/state", RecordDb::Mode::kExisting);
    REQUIRE(db.is_ok());
    RecordBatch batch;
    batch.put(std::string("s\x03\x89", 3),
              R"({"attempt":4,"epoch":4,"linked":true,"marked":true,"phase":"NEW",)"
              R"("promoted":{"history":"n","seq":5},"proof":{"history":"h","seq":77}})");
    REQUIRE((*db)->write(batch, true).is_ok());
  }
  auto store = StateStore::open(dir.path(), plan, false, &clock);
  REQUIRE(store.is_ok());
  CHECK((*store)->record(905).phase == SlotPhase::kNew);
  CHECK((*store)->record(905).linked);
  CHECK(!(*store)->record(905).back);
}

TEST_CASE("I10: attempts side by side: no epoch twice, and the highest stays the highest") {
  TempDir dir;
  SystemClock clock;
  const MovePlan plan = test_plan();
  {
    auto store = StateStore::open(dir.path(), plan, true, &clock);
    const uint64_t first = (*store)->reserve_epoch();
    const uint64_t second = (*store)->reserve_epoch();
    CHECK(first < second);
    CHECK(*(*store)->next_epoch() > second);
    CHECK((*store)->record_intent(SlotSet::of(902), second, {}).is_ok());
    CHECK((*store)->record_intent(SlotSet::of(901), first, {}).is_ok());
    CHECK((*store)->epoch() == second + 1);
    CHECK((*store)->reserve_epoch() == second + 2);
  }
  auto store = StateStore::open(dir.path(), plan, false, &clock);
  CHECK((*store)->epoch() == 3);
  CHECK((*store)->record(901).attempt == 1);
}

TEST_CASE("I12: the audit file repeats the store's entries, and is completed after a crash") {
  TempDir dir;
  SystemClock clock;
  const MovePlan plan = test_plan();
  {
    auto store = StateStore::open(dir.path(), plan, true, &clock);
    (*store)->audit({{"what", "one"}});
    (*store)->audit({{"what", "bytes \xff that are no UTF-8"}});
    CHECK((*store)->audit_synced({{"what", "three"}}).is_ok());
  }
  auto lines = audit_of(dir.path());
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["what"] == "one");
  CHECK(lines[2]["n"] == 3);
  CHECK(lines[2]["time"].get<std::string>().size() == 24);
  // The last line was cut in the middle, and the one before it as well.
  const std::string path = dir.path() + "/audit.jsonl";
  fs::resize_file(path, fs::file_size(path) / 2);
  {
    auto store = StateStore::open(dir.path(), plan, false, &clock);
    (*store)->audit({{"what", "four"}});
  }
  lines = audit_of(dir.path());
  REQUIRE(lines.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(lines[i]["n"] == i + 1);
}

TEST_CASE(
    "I10 I12: after a write that failed half way the store goes on, from what is on the disk") {
  TempDir dir;
  SystemClock clock;
  const MovePlan plan = test_plan();
  auto store = StateStore::open(dir.path(), plan, true, &clock);
  REQUIRE(store.is_ok());
  SlotRecord record;
  record.phase = SlotPhase::kNew;
  record.epoch = record.attempt = 1;
  CHECK((*store)->record_intent(SlotSet::of(905), 1, {{"what", "begin"}}).is_ok());
  CHECK((*store)->commit_owner(SlotSet::of(905), record, {{"what", "owner"}}).is_ok());
  const uint64_t given = (*store)->reserve_epoch();
  {
    const FileSizeLimit limit(fs::file_size(newest_log(dir.path() + "/state")) + 100);
    record.epoch = record.attempt = given;
    CHECK_FALSE((*store)->commit_owner(SlotSet::of(906), record, {{"what", "lost"}}).is_ok());
    CHECK_FALSE((*store)->audit_synced({{"what", "refused"}}).is_ok());
    (*store)->audit({{"what", "forgotten"}});
  }
  CHECK((*store)->take_lock("me", false)->epoch == 1);
  CHECK((*store)->record(905).phase == SlotPhase::kNew);
  CHECK((*store)->record(906).phase == SlotPhase::kOld);
  CHECK((*store)->reserve_epoch() > given);
  CHECK((*store)->set_linked(SlotSet::of(905), true).is_ok());
  const auto lines = audit_of(dir.path());
  std::vector<std::string> whats;
  for (const auto& line : lines) whats.push_back(line["what"]);
  CHECK(whats == std::vector<std::string>{"begin", "owner",
                                          "state opened anew after a failed write", "lock taken"});
  for (size_t i = 1; i < lines.size(); ++i) CHECK(lines[i]["n"] > lines[i - 1]["n"]);
  store->reset();
  store = StateStore::open(dir.path(), plan, false, &clock);
  REQUIRE(store.is_ok());
  CHECK((*store)->record(905).linked);
  CHECK((*store)->record(906).phase == SlotPhase::kOld);
  CHECK((*store)->run_lock().owner == "me");
}

TEST_CASE("I12: lines that the file had no room for follow when it has") {
  TempDir dir;
  const std::string path = dir.path() + "/audit.jsonl";
  std::vector<std::string> entries;
  AuditFile file(path, [&](uint64_t last) {
    std::string out;
    for (size_t n = last; n < entries.size(); ++n) out += entries[n];
    return out;
  });
  REQUIRE(file.open().is_ok());
  const auto add = [&] {
    const uint64_t n = entries.size() + 1;
    entries.push_back(R"({"n":)" + std::to_string(n) + R"(,"what":"something that happened"})" +
                      "\n");
    file.append(n, entries.back());
  };
  add();
  {
    const FileSizeLimit limit(fs::file_size(path) + 10);
    add();
    add();
    CHECK(fs::file_size(path) <= entries[0].size() + 10);
  }
  add();
  const auto lines = audit_of(dir.path());
  REQUIRE(lines.size() == 4);
  for (size_t i = 0; i < 4; ++i) CHECK(lines[i]["n"] == i + 1);
}

TEST_CASE("DESIGN 6.6: no record, another plan's, a changed plan, --init over a record: refused") {
  TempDir dir;
  SystemClock clock;
  MovePlan plan = test_plan();
  CHECK(StateStore::open(dir.path(), plan, false, &clock).status().text().find("--init") !=
        std::string::npos);
  CHECK(StateStore::open(dir.path(), plan, true, &clock).is_ok());
  CHECK(StateStore::open(dir.path(), plan, true, &clock).status().code() == Code::kExists);
  plan.id = "p2";
  CHECK(StateStore::open(dir.path(), plan, false, &clock)
            .status()
            .text()
            .find("belongs to plan p1") != std::string::npos);
  plan.id = "p1";
  plan.slots = SlotSet::range(901, 911);
  CHECK(StateStore::open(dir.path(), plan, false, &clock).status().text().find("901-911") !=
        std::string::npos);
  plan = test_plan();
  plan.new_side.master.port = 7004;
  CHECK(StateStore::open(dir.path(), plan, false, &clock).status().code() == Code::kRefused);
}

TEST_CASE("I10: a changed plan is adopted only as far as the record allows, and for good") {
  TempDir dir;
  SystemClock clock;
  MovePlan plan = test_plan();
  const SlotSet before = plan.slots;
  {
    auto store = StateStore::open(dir.path(), plan, true, &clock);
    plan.slots.remove(SlotSet::of(901));
    CHECK((*store)->adopt_plan(plan).text().find("slots 901 are not in the plan file") !=
          std::string::npos);
    plan = test_plan();
    plan.id = "p2";
    CHECK((*store)->adopt_plan(plan).code() == Code::kRefused);
    CHECK((*store)->records().size() == static_cast<size_t>(before.size()));
  }
  plan = test_plan();
  CHECK(StateStore::open(dir.path(), plan, false, &clock).is_ok());
  plan.slots.add(SlotSet::range(950, 959));
  plan.old_side.master.port = 7009;
  CHECK(StateStore::open(dir.path(), plan, false, &clock).status().text().find("--adopt") !=
        std::string::npos);
  {
    // Opening changes nothing yet: who replaces whom is there to be compared first (ADR 0022).
    auto store = StateStore::open(dir.path(), plan, false, &clock, true);
    REQUIRE_MESSAGE(store.is_ok(), store.status().text());
    CHECK((*store)->masters().old_side == test_plan().old_side.master.text());
    CHECK((*store)->records().size() == static_cast<size_t>(before.size()));
  }
  CHECK(StateStore::open(dir.path(), test_plan(), false, &clock).is_ok());
  {
    auto store = StateStore::open(dir.path(), plan, false, &clock, true);
    REQUIRE_MESSAGE(store.is_ok(), store.status().text());
    REQUIRE((*store)->adopt_plan(plan).is_ok());
    CHECK((*store)->masters().old_side == plan.old_side.master.text());
    CHECK((*store)->masters().new_side == plan.new_side.master.text());
    CHECK((*store)->record(955).phase == SlotPhase::kOld);
    SlotRecord record;
    record.phase = SlotPhase::kNew;
    record.epoch = 1;
    CHECK((*store)->commit_owner(SlotSet::of(955), record, {{"what", "owner record"}}).is_ok());
  }
  auto store = StateStore::open(dir.path(), plan, false, &clock);
  REQUIRE_MESSAGE(store.is_ok(), store.status().text());
  CHECK((*store)->record(955).phase == SlotPhase::kNew);
  CHECK(audit_of(dir.path())[0]["what"] == "plan adopted");
  // A unit of all slots that was switched takes no more.
  plan.unit = CutUnit::kPlan;
  plan.slots.add(SlotSet::of(960));
  CHECK((*store)->adopt_plan(plan).text().find("one unit") != std::string::npos);
}

TEST_CASE("DESIGN 6.6: a damaged record is an error, not an older state") {
  SystemClock clock;
  const MovePlan plan = test_plan();
  for (const double where : {0.2, 0.5, 0.95}) {
    TempDir dir;
    {
      auto store = StateStore::open(dir.path(), plan, true, &clock);
      SlotRecord record;
      record.phase = SlotPhase::kNew;
      CHECK((*store)->commit_owner(SlotSet::of(905), record, {{"what", "owner"}}).is_ok());
    }
    const std::string log = newest_log(dir.path() + "/state");
    REQUIRE(!log.empty());
    std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(static_cast<double>(fs::file_size(log)) * where));
    file.write("\x55\xaa\x55\xaa", 4);
    file.close();
    auto store = StateStore::open(dir.path(), plan, false, &clock);
    CAPTURE(where);
    CHECK(store.status().code() == Code::kCorrupt);
    CHECK(store.status().text().find(dir.path()) != std::string::npos);
  }
}

TEST_CASE("the run lock is one at a time, taken over only by FORCE, and its epoch rises") {
  TempDir dir;
  SystemClock clock;
  auto opened = StateStore::open(dir.path(), test_plan(), true, &clock);
  StateStore& store = **opened;
  CHECK(store.take_lock("a", false)->epoch == 1);
  CHECK(store.take_lock("a", false)->epoch == 2);
  CHECK(store.take_lock("b", false).status().code() == Code::kRefused);
  CHECK(store.take_lock("b", true)->epoch == 3);
  CHECK(store.drop_lock("a", 2).code() == Code::kRefused);
  CHECK(store.drop_lock("b", 3).is_ok());
  CHECK(store.take_lock("a", false)->epoch == 4);
}

}  // namespace
}  // namespace sf
