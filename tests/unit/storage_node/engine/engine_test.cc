#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/unit/storage_node/engine/engine_fixture.h"

using namespace sf;

TEST_CASE("engine: what is committed is read, after a reopen too") {
  EngineFixture f;
  CHECK(f.set("a", "1") == 1);
  CHECK(f.set("b", "2") == 2);
  CHECK(f.value("a") == "1");
  f.reopen();
  CHECK(f.value("b") == "2");
  CHECK(f.engine->last_seq() == 2);
  CHECK(f.engine->slot_seq(5) == 2);  // conservative after a start
  CHECK(f.set("c", "3") == 3);
  CHECK(f.engine->slot_seq(slot_of("c")) == 3);
  CHECK(f.engine->slot_seq(slot_of("a")) == 2);
}

TEST_CASE("engine: a view is exact") {
  EngineFixture f;
  f.set("a", "old");
  const ReadView view = f.engine->snapshot();
  f.set("a", "new");
  CHECK(view.seq() == 1);
  CHECK(f.value("a", &view) == "old");
  CHECK(f.value("a") == "new");
}

// The child of the next test, a process of its own: writes until it is killed, and says each seq.
TEST_CASE("engine: child that writes until it is killed" * doctest::skip()) {
  const char* dir = std::getenv("SF_TEST_CHILD_DIR");
  REQUIRE(dir != nullptr);
  EngineOptions options;
  options.dir = dir;
  options.reserve_bytes = 0;
  const SystemClock clock;
  auto engine = Engine::open(options, clock, Log());
  for (uint64_t i = 1; engine.is_ok(); ++i) {
    WriteTxn txn;
    const std::string key = "k" + std::to_string(i);
    txn.put(Cf::kMeta, meta_key(0, key), string_meta(key));
    txn.count_keys(0, slot_of(key), 1);
    const auto seq = (*engine)->commit(std::move(txn));
    if (!seq || write(STDOUT_FILENO, &*seq, sizeof(*seq)) != sizeof(*seq)) break;
  }
}

TEST_CASE(
    "I10: killed at any moment, the engine has every acknowledged batch and goes on from there") {
  TempDir temp;
  EngineOptions options;
  options.dir = temp.sub("db");
  options.reserve_bytes = 0;
  int pipe_fds[2];
  REQUIRE(pipe(pipe_fds) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_fds[1], STDOUT_FILENO);
    close(pipe_fds[0]);
    setenv("SF_TEST_CHILD_DIR", options.dir.c_str(), 1);
    execl("/proc/self/exe", "child", "--no-skip", "--no-intro=true", "--no-version=true",
          "--test-case=engine: child that writes until it is killed", nullptr);
    _exit(127);
  }
  close(pipe_fds[1]);
  uint64_t acknowledged = 0;
  uint64_t seq = 0;
  while (read(pipe_fds[0], &seq, sizeof(seq)) == sizeof(seq)) {
    acknowledged = seq;
    if (seq == 5000) kill(child, SIGKILL);
  }
  close(pipe_fds[0]);
  waitpid(child, nullptr, 0);
  REQUIRE(acknowledged >= 5000);

  const SystemClock clock;
  auto engine = Engine::open(options, clock, Log());
  REQUIRE_MESSAGE(engine.is_ok(), engine.status().text());
  const uint64_t last = (*engine)->last_seq();
  CHECK(last >= acknowledged);
  CHECK(last <= acknowledged + 1);
  CHECK((*engine)->key_count(0) == static_cast<int64_t>(last));
  const std::string newest = "k" + std::to_string(acknowledged);
  CHECK(*(*engine)->get(Cf::kMeta, meta_key(0, newest)));
  const auto log = (*engine)->read_log(acknowledged - 10, 1 << 20);
  REQUIRE_MESSAGE(log.is_ok(), log.status().text());
  CHECK(log->front().seq == acknowledged - 9);
  CHECK(log->back().seq == last);
}

TEST_CASE("engine: four threads get a dense sequence and readers see it in that order") {
  EngineFixture f;
  std::vector<std::thread> threads;
  std::array<std::vector<uint64_t>, 4> seqs;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&f, &seqs, t] {
      for (int i = 0; i < 2000; ++i) {
        WriteTxn txn;
        const std::string key = std::to_string(t) + ":" + std::to_string(i);
        txn.put(Cf::kMeta, meta_key(0, key), string_meta("v"));
        txn.count_keys(0, slot_of(key), 1);
        const auto seq = f.engine->commit(std::move(txn));
        if (seq) seqs[t].push_back(*seq);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> seen(8001);
  for (const auto& mine : seqs) {
    CHECK(std::is_sorted(mine.begin(), mine.end()));
    for (const uint64_t seq : mine) seen[seq] = true;
  }
  CHECK(std::count(seen.begin() + 1, seen.end(), true) == 8000);
  uint64_t expected = 1;
  for (uint64_t after = 0; after < 8000;) {
    const auto entries = f.engine->read_log(after, 10'000);
    REQUIRE_MESSAGE(entries.is_ok(), entries.status().text());
    REQUIRE_FALSE(entries->empty());
    for (const LogEntry& entry : *entries) CHECK(entry.seq == expected++);
    after = entries->back().seq;
  }
}

TEST_CASE("engine: sync always groups the waiters, and its seq is on disk when commit returns") {
  EngineFixture f;
  f.options.sync = SyncPolicy::kAlways;
  f.reopen();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&f, t] {
      for (int i = 0; i < 20; ++i) {
        WriteTxn txn;
        txn.put(Cf::kMeta, meta_key(0, std::to_string(t * 100 + i)), string_meta("v"));
        CHECK(f.engine->commit(std::move(txn)).is_ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(f.engine->last_seq() == 80);
}

TEST_CASE("engine: key counts are exact through sets, deletes, clears and reopening") {
  EngineFixture f;
  for (int i = 0; i < 300; ++i) f.set("k" + std::to_string(i), "v");
  f.set("k7", "again");
  CHECK(f.engine->key_count(0) == 300);
  const int slot = slot_of("k7");
  const int64_t in_slot = f.engine->key_count(0, slot);
  WriteTxn txn;
  txn.erase_range(Cf::kMeta, slot_prefix(0, slot), prefix_end(slot_prefix(0, slot)));
  txn.count_slot_cleared(0, slot);
  REQUIRE(f.engine->commit(txn).is_ok());
  CHECK(f.engine->key_count(0, slot) == 0);
  CHECK(f.engine->key_count(0) == 300 - in_slot);
  f.reopen();
  CHECK(f.engine->key_count(0) == 300 - in_slot);
}

TEST_CASE("engine: versions rise over reopening and over what was copied") {
  EngineFixture f;
  const uint64_t first = f.engine->next_version();
  CHECK(f.engine->next_version() == first + 1);
  f.engine->raise_version(5'000'000);
  CHECK(f.engine->next_version() == 5'000'001);
  f.reopen();
  CHECK(f.engine->next_version() > 5'000'001);
}

TEST_CASE(
    "R14: the expiry clock never goes back; in followed slots only the master's time counts") {
  EngineFixture f;
  const int64_t before = f.engine->expiry_now_ms(905);
  f.clock.jump_wall_ms(-60'000);
  CHECK(f.engine->expiry_now_ms(905) == before);
  REQUIRE(f.engine->with_gate([](Gate& gate) {
    gate.set_flags(905, kSlotFollowed);
    return Status::ok();
  }));
  f.engine->raise_master_time(before + 5000, SlotSet::of(905));
  CHECK(f.engine->expiry_now_ms(905) == before + 5000);
  f.clock.jump_wall_ms(120'000);
  CHECK(f.engine->expiry_now_ms(905) == before + 5000);
  CHECK(f.engine->expiry_now_ms(906) == before + 60'000);
  REQUIRE(f.engine->with_gate([](Gate& gate) {
    gate.set_flags(905, 0);
    return Status::ok();
  }));
  CHECK(f.engine->expiry_now_ms(905) == before + 60'000);
}

TEST_CASE("engine: expired keys of own slots are removed, others are left") {
  EngineFixture f;
  const int64_t now = f.clock.wall_ms();
  for (int i = 0; i < 100; ++i) f.set("t" + std::to_string(i), "v", now + 50);
  f.set("keep", "v", now + 10'000);
  f.set("plain", "v");
  const int followed = slot_of("t3");
  f.clock.advance_ms(100);
  REQUIRE(f.engine->with_gate([&](Gate& gate) {
    gate.set_flags(followed, kSlotFollowed);
    return Status::ok();
  }));
  const int64_t left = f.engine->key_count(0, followed);
  const auto removed = f.engine->expire_step(1000);
  REQUIRE(removed.is_ok());
  CHECK(*removed == 100 - left);
  CHECK(f.engine->key_count(0) == 2 + left);
  CHECK(f.value("keep") == "v");
  CHECK(f.value("t3") == "v");
}

TEST_CASE("engine: a folder of another database or format is refused with a sentence") {
  TempDir temp;
  const SystemClock clock;
  EngineOptions options;
  options.dir = temp.sub("db");
  options.reserve_bytes = 0;
  {
    auto engine = Engine::open(options, clock, Log());
    REQUIRE(engine.is_ok());
    const auto second = Engine::open(options, clock, Log());
    REQUIRE_FALSE(second.is_ok());
    CHECK(second.status().text().find("in use") != std::string::npos);
    REQUIRE((*engine)->with_gate([](Gate& gate) {
      return gate.write_sys({{"engine/format", "9"}}, true);
    }));
  }
  const auto newer = Engine::open(options, clock, Log());
  REQUIRE_FALSE(newer.is_ok());
  CHECK(newer.status().text().find("format 9") != std::string::npos);
}
