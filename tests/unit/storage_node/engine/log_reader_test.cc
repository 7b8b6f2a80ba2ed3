#include <atomic>
#include <filesystem>
#include <thread>

#include "common/base/file.h"
#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

namespace {

// Reads the whole log in small pieces; every entry must follow the one before.
uint64_t read_through(Engine& engine, uint64_t after, int* reloads = nullptr) {
  while (after < engine.last_seq()) {
    const auto entries = engine.read_log(after, 4000);
    REQUIRE_MESSAGE(entries.is_ok(), entries.status().text());
    REQUIRE_FALSE(entries->empty());
    for (const LogEntry& entry : *entries) {
      REQUIRE(entry.seq == after + 1);
      if (reloads != nullptr && entry.kind == LogEntry::Kind::kReload) ++*reloads;
      after = entry.seq;
    }
  }
  return after;
}

std::vector<std::pair<Cf, std::string>> export_files(Engine& engine, int slot,
                                                     const std::string& dir) {
  std::vector<std::pair<Cf, std::string>> files;
  const ReadView view = engine.snapshot();
  const auto store = [&](Engine::SstChunk chunk) {
    const std::string path = dir + "/" + std::to_string(files.size()) + ".sst";
    files.emplace_back(chunk.cf, path);
    return write_file_atomic(path, chunk.bytes);
  };
  const Status done = engine.export_slot(slot, view, 4000, store, [] { return Status::ok(); });
  REQUIRE_MESSAGE(done.is_ok(), done.text());
  return files;
}

}  // namespace

TEST_CASE(
    "engine: the log reads on across memtable flushes, reopening and the node's own records") {
  EngineFixture f;
  const std::string big(20'000, 'x');
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 300; ++i) {
      f.set("k" + std::to_string(i), big);
      if (i % 50 == 0) {
        REQUIRE(f.engine->with_gate([](Gate& gate) {
          return gate.write_sys({{"note", "x"}}, false);
        }));
      }
    }
    CHECK(read_through(*f.engine, 0) == f.engine->last_seq());
    f.reopen();
  }
  CHECK(f.engine->last_seq() == 900);
  CHECK(f.engine->oldest_seq() == 1);
  CHECK(read_through(*f.engine, 0) == 900);
  CHECK(read_through(*f.engine, 450) == 900);
}

TEST_CASE(
    "engine: a slot goes through files to another engine, and the log reads on over the ingest") {
  EngineFixture source;
  EngineFixture target;
  const std::string tag = "{a}";
  const int slot = slot_of("a");
  for (int i = 0; i < 500; ++i) source.set(tag + std::to_string(i), std::string(100, 'v'));
  WriteTxn txn;
  source.engine->raise_version(900);
  txn.put(Cf::kMeta, meta_key(5, tag + "set"), set_meta(900, 1));
  txn.put(Cf::kData, data_prefix(5, tag + "set", 900) + "member", "");
  txn.count_keys(5, slot, 1);
  REQUIRE(source.engine->commit(txn).is_ok());

  target.set(tag + "stale", "v");
  target.set("elsewhere", "v");
  const auto files = export_files(*source.engine, slot, target.temp.path());
  CHECK(files.size() > 10);
  const Status replaced = target.engine->replace_slot(slot, files, {{"slot/pos", "501"}},
                                                      source.engine->next_version());
  REQUIRE_MESSAGE(replaced.is_ok(), replaced.text());

  CHECK(target.engine->key_count(0, slot) == 500);
  CHECK(target.engine->key_count(5, slot) == 1);
  CHECK(target.value(tag + "stale") == "<none>");
  CHECK(target.value("elsewhere") == "v");
  CHECK(target.value(tag + "499").size() == 100);
  CHECK(target.engine->next_version() > 900);
  CHECK(**target.engine->get_sys("slot/pos") == "501");
  CHECK(target.engine->slot_seq(slot) == 3);
  target.set("after", "v");
  int reloads = 0;
  CHECK(read_through(*target.engine, 0, &reloads) == 4);
  CHECK(reloads == 1);
  target.reopen();
  CHECK(target.engine->key_count(0, slot) == 500);
  reloads = 0;
  CHECK(read_through(*target.engine, 0, &reloads) == 4);
  CHECK(reloads == 1);
  // Again over a filled slot: wiped, not merged.
  const Status emptied = target.engine->replace_slot(slot, {}, {}, 0);
  REQUIRE(emptied.is_ok());
  CHECK(target.engine->key_count(0, slot) == 0);
  CHECK(target.engine->last_seq() == 5);
}

TEST_CASE("R12: a purged log says so, and its end is known without any WAL file") {
  EngineFixture f;
  for (int i = 0; i < 700; ++i) f.set("k" + std::to_string(i), "v");
  f.engine.reset();
  // As after a purge: nothing of the log is left, only the tables.
  f.options.wal_keep_seconds = 0;
  f.reopen();
  f.engine.reset();
  for (const auto& entry : std::filesystem::directory_iterator(f.options.dir + "/archive")) {
    std::filesystem::remove(entry.path());
  }
  f.reopen();
  const uint64_t last = f.engine->last_seq();
  CHECK(last >= 700);
  CHECK(f.engine->key_count(0) == 700);
  const uint64_t next = f.set("more", "v");
  CHECK(next == last + 1);
  CHECK(f.engine->read_log(10, 1000).status().code() == Code::kNotFound);
  CHECK(f.engine->oldest_seq() > 700);
  const auto log = f.engine->read_log(last, 1000);
  REQUIRE_MESSAGE(log.is_ok(), log.status().text());
  CHECK(log->size() == 1);
}

TEST_CASE("engine: a reader at the log's end never has to go to the files for the newest entry") {
  EngineFixture f;
  const int id = f.engine->subscribe([](uint64_t) {});
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int i = 0; i < 20'000; ++i) f.set("k" + std::to_string(i % 100), "v");
    over = true;
  });
  uint64_t after = 0;
  int from_files = 0;
  while (!over || after < f.engine->last_seq()) {
    const auto entries = f.engine->read_backlog(after, 1 << 20);
    if (!entries) {
      ++from_files;
      break;
    }
    for (const LogEntry& entry : *entries) {
      if (entry.seq != after + 1) ++from_files;
      after = entry.seq;
    }
  }
  writer.join();
  f.engine->unsubscribe(id);
  CHECK(from_files == 0);
  CHECK(after == f.engine->last_seq());
  // Nobody follows: the memory is let go of, and the files have it all.
  f.set("k", "v");
  CHECK_FALSE(f.engine->read_backlog(0, 1 << 20).has_value());
  CHECK(read_through(*f.engine, 0) == f.engine->last_seq());
}
