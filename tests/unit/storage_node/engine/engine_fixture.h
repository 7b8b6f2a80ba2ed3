// An engine in a temporary folder, with a clock the test moves.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "common/base/coding.h"
#include "storage_node/engine/engine.h"
#include "tests/support/temp_dir.h"

namespace sf {

// A string's meta as types/meta.h has it.
inline std::string string_meta(std::string_view value, int64_t expire_ms = 0) {
  std::string out("\x01\x00", 2);
  put_big64(out, static_cast<uint64_t>(expire_ms));
  out.append(value);
  return out;
}

// A set's meta: type, flags, expiry, version, size.
inline std::string set_meta(uint64_t version, uint64_t size, int64_t expire_ms = 0) {
  std::string out("\x04\x00", 2);
  put_big64(out, static_cast<uint64_t>(expire_ms));
  put_big64(out, version);
  put_big64(out, size);
  return out;
}

struct EngineFixture {
  TempDir temp;
  ManualClock clock;
  EngineOptions options;
  std::unique_ptr<Engine> engine;

  EngineFixture() {
    options.dir = temp.sub("db");
    options.write_buffer_bytes = 4UL << 20;
    options.block_cache_bytes = 8UL << 20;
    options.reserve_bytes = 0;
    options.expire_actively = false;
    reopen();
  }

  void reopen() {
    engine.reset();
    auto opened = Engine::open(options, clock, Log());
    REQUIRE_MESSAGE(opened.is_ok(), opened.status().text());
    engine = std::move(*opened);
  }

  Result<uint64_t> try_set(std::string_view key, std::string_view value, int64_t expire_ms = 0) {
    WriteTxn txn;
    const auto before = engine->get(Cf::kMeta, meta_key(0, key));
    txn.put(Cf::kMeta, meta_key(0, key), string_meta(value, expire_ms));
    txn.count_keys(0, slot_of(key), *before ? 0 : 1);
    return engine->commit(std::move(txn));
  }

  uint64_t set(std::string_view key, std::string_view value, int64_t expire_ms = 0) {
    const auto seq = try_set(key, value, expire_ms);
    REQUIRE_MESSAGE(seq.is_ok(), seq.status().text());
    return *seq;
  }

  std::string value(std::string_view key, const ReadView* view = nullptr) {
    const auto stored = engine->get(Cf::kMeta, meta_key(0, key), view);
    REQUIRE(stored.is_ok());
    return *stored ? (*stored)->substr(10) : "<none>";
  }
};

}  // namespace sf
