// A node's engine and slot control in a temporary folder, to be closed and opened again.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "storage_node/engine/engine.h"
#include "storage_node/replica/follow_store.h"
#include "storage_node/replica/slot_control.h"
#include "storage_node/replica/slot_status.h"
#include "tests/support/temp_dir.h"

namespace sf {

class ReplicaRig {
 public:
  explicit ReplicaRig(std::shared_ptr<rocksdb::FileSystem> file_system = nullptr)
      : file_system_(std::move(file_system)) {
    open();
  }
  ~ReplicaRig() { close(); }

  void open() {
    EngineOptions options;
    options.dir = dir_.sub("db");
    options.write_buffer_bytes = 4 << 20;
    options.block_cache_bytes = 4 << 20;
    options.expire_actively = false;
    options.file_system = file_system_;
    auto opened = Engine::open(options, clock, Log());
    REQUIRE_MESSAGE(opened, opened.status().text());
    engine = std::move(*opened);
    // Like a feed: the newest batches are kept in memory.
    subscription_ = engine->subscribe([](uint64_t) {});
    state = std::make_unique<ReplicaState>(*engine, clock, Log(), ++seed_);
    control = std::make_unique<SlotControl>(*state);
    Status loaded = control->load();
    REQUIRE_MESSAGE(loaded, loaded.text());
  }
  void close() {
    control.reset();
    state.reset();
    if (engine) engine->unsubscribe(subscription_);
    engine.reset();
  }
  void restart() {
    close();
    open();
  }

  static std::string key_of(int slot, const std::string& name) {
    return slot_prefix(0, slot) + name;
  }
  // A client's write straight into the engine; the error it would get, or "".
  std::string write(int slot, const std::string& name, const std::string& value = "v") {
    WriteTxn txn;
    txn.put(Cf::kMeta, key_of(slot, name), value);
    txn.count_keys(0, slot, 1);
    auto done = engine->commit(std::move(txn));
    return done ? "" : done.status().text();
  }
  SlotStatus status(int slot) { return slot_status(*state, SlotSet::of(slot)).front(); }

  // As a link would: slots of `master` are at `position`, its history is `chain`.
  std::shared_ptr<Source> source(const HostPort& master) {
    return state->sources.at(master.text());
  }
  void accept(const HostPort& master, const HistoryChain& chain, uint64_t seq) {
    auto src = source(master);
    FollowStore store(*state, src);
    SlotSet copy = src->positions.without_position();
    SlotSet keep = src->positions.slots();
    keep.remove(copy);
    src->positions.accept(chain.current(), keep, copy);
    wire::Hello hello{wire::kProtocol, "m", seq, chain, keep, copy};
    REQUIRE(store.accepted(hello));
    copy.for_each([&](int slot) {
      wire::CopyDone done{slot, {chain.current(), seq}, 1, 0, 0, 0};
      REQUIRE(store.store_job(done, std::nullopt).run(*engine, {}));
      store.stored(done, std::nullopt);
      src->positions.set_copied(slot, done.at);
    });
    uint64_t lowest = *src->positions.lowest();
    src->positions.begin_stream(lowest);
    REQUIRE(store.begin_stream(lowest));
  }
  void apply(const HostPort& master, uint64_t to, int slot = -1, const std::string& name = "r") {
    auto src = source(master);
    FollowStore store(*state, src);
    follow::Apply apply{src->positions.cursor(), to, 1, 1, {}, {}};
    std::string key = key_of(slot < 0 ? 0 : slot, name);
    if (slot >= 0) apply.records.push_back({to, 1, {{1, 0, key, "replicated"}}});
    SlotPositions::Moves moves = src->positions.moves(to);
    apply.joined = moves.joined;
    apply.moved = moves.moved;
    apply.stream = std::max(to, src->positions.stream());
    const std::lock_guard lock(state->mutex);
    REQUIRE(store.apply(apply));
    src->positions.advance(to);
    state->positions_moved();
  }

  ManualClock clock;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<ReplicaState> state;
  std::unique_ptr<SlotControl> control;

 private:
  const std::shared_ptr<rocksdb::FileSystem> file_system_;
  TempDir dir_;
  uint64_t seed_ = 0;
  int subscription_ = 0;
};

}  // namespace sf
