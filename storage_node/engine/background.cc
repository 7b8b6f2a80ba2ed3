// The engine's own thread: fsync once a second, letting go of the log, and removing expired keys.
#include <algorithm>
#include <chrono>

#include "common/base/file.h"
#include "common/base/strings.h"
#include "storage_node/engine/engine_state.h"
#include "storage_node/engine/meta_peek.h"
#include "storage_node/engine/rocks_status.h"

namespace sf {

namespace {

constexpr int64_t kTickMs = 100;
constexpr int64_t kMetasATick = 20'000;  // about 5 % of one core while a pass runs
constexpr int64_t kSyncTicks = 10;
constexpr int64_t kSpaceTicks = 5;
constexpr int64_t kTrimTicks = 10;
constexpr int64_t kIdleTrimTicks = 50;   // nothing was written: only ages and claims change
constexpr int64_t kIdleTicks = 100;      // between passes, and the first one
constexpr int64_t kLongIdleTicks = 600;  // after a pass that found no key with a TTL

}  // namespace

void Engine::State::run_background(Engine& engine) {
  std::unique_lock lock(background_mutex);
  int64_t idle = kIdleTicks;
  uint64_t trimmed_seq = 0;
  for (int64_t tick = 1; !stopping; ++tick) {
    background_wake.wait_for(lock, std::chrono::milliseconds(kTickMs), [this] { return stopping; });
    if (stopping) return;
    lock.unlock();
    if (options.sync == SyncPolicy::kEverySecond && tick % kSyncTicks == 0) {
      const Status synced = sync_until(last_seq);
      if (!synced) log.error(synced.text());
    }
    if (write_failed && tick % kSpaceTicks == 0) look_for_space();
    const uint64_t rocks_seq = rocks()->GetLatestSequenceNumber();
    if ((tick % kTrimTicks == 0 && rocks_seq != trimmed_seq) || tick % kIdleTrimTicks == 0) {
      trimmed_seq = rocks_seq;
      const Status trimmed = engine.trim_log();
      if (!trimmed) log.warning(cat("letting go of old log: ", trimmed.text()));
    }
    if (options.expire_actively && --idle <= 0) {
      const Result<int64_t> removed = engine.expire_step(kMetasATick);
      if (!removed) log.warning(cat("removing expired keys: ", removed.status().text()));
      const std::lock_guard passing(expire_mutex);
      const bool none = std::all_of(expiring.begin(), expiring.end(),
                                    [](const auto& count) { return count.load() == 0; });
      if (!removed || expire_cursor.empty()) idle = none ? kLongIdleTicks : kIdleTicks;
    }
    lock.lock();
  }
}

// Opening anew writes out what the log holds: that much must fit.
void Engine::State::look_for_space() {
  if (reopen_wanted) return;
  const Result<int64_t> left = free_bytes(options.dir);
  const int64_t needed = options.reserve_bytes + static_cast<int64_t>(options.write_buffer_bytes);
  if (!left || *left < needed) return;
  reopen_wanted = true;
  log.info("there is space on the disk again, the database is opened anew");
  if (options.wants_reopen) options.wants_reopen();
}

// True if the key was there, expired, and is gone now.
Result<bool> Engine::State::expire_key(Engine& engine, const std::string& stored) {
  const int db = db_of_stored(stored);
  const int slot = slot_of_stored(stored);
  const KeyLocks::Held held = key_locks.lock(db, std::string_view(stored).substr(kPrefixBytes));
  Result<std::optional<std::string>> value = engine.get(Cf::kMeta, stored);
  if (!value) return value.status();
  MetaPeek meta;
  if (!*value || !peek_meta(**value, &meta)) return false;
  if (meta.expire_ms == 0 || meta.expire_ms > engine.expiry_now_ms(slot)) return false;
  WriteTxn txn;
  txn.erase(Cf::kMeta, stored);
  txn.count_keys(db, slot, -1);
  const Result<uint64_t> done = engine.commit(std::move(txn));
  if (done) return true;
  if (done.status().code() == Code::kRefused) return false;  // fenced or followed meanwhile
  return done.status();
}

Result<int64_t> Engine::expire_step(int64_t budget) {
  State& s = *state_;
  const std::lock_guard lock(s.expire_mutex);
  std::vector<std::string> expired;
  {
    rocksdb::ReadOptions read;
    read.fill_cache = false;
    const std::unique_ptr<rocksdb::Iterator> it(s.rocks()->NewIterator(read, s.handle(Cf::kMeta)));
    for (it->Seek(s.expire_cursor); it->Valid() && budget > 0; it->Next(), --budget) {
      const std::string_view key(it->key().data(), it->key().size());
      const int slot = slot_of_stored(key);
      if (slot < 0 || slot >= kSlotCount) continue;
      MetaPeek meta;
      if (!peek_meta({it->value().data(), it->value().size()}, &meta)) continue;
      if (meta.expire_ms == 0) continue;
      if (meta.expire_ms > expiry_now_ms(slot)) {
        ++s.expiring_seen[static_cast<size_t>(db_of_stored(key) % kDbCount)];
      } else if (slot_flags(slot) == 0) {
        expired.emplace_back(key);
      }
    }
    if (!it->status().ok()) return to_status(it->status(), "scanning for expired keys");
    s.expire_cursor = it->Valid() ? it->key().ToString() : std::string();
    if (s.expire_cursor.empty()) {
      for (size_t db = 0; db < kDbCount; ++db) s.expiring[db] = s.expiring_seen[db];
      s.expiring_seen = {};
    }
  }
  int64_t removed = 0;
  for (const std::string& key : expired) {
    const Result<bool> gone = s.expire_key(*this, key);
    if (!gone) return gone.status();
    removed += *gone ? 1 : 0;
  }
  s.expired_keys += static_cast<uint64_t>(removed);
  return removed;
}

}  // namespace sf
