// The value of kMeta: one a user key (DESIGN 5.1).
//
//   meta       = type (1) | flags (1, 0 for now) | expire_ms (8, big endian; 0: never) | rest
//   rest       = value bytes                                       for strings
//              | version (8) | size (8)                            for hashes, sets, sorted sets
//              | version (8) | size (8) | head (8) | tail (8)      for lists: elements at [head,
//              tail)
//
// Only keys with a meta exist; entries of kData and kScore whose version is not the meta's are
// leftovers that compaction drops. A key whose expire_ms is not after the slot's expiry clock is
// absent to every command, although its meta may still be stored (and is still counted by
// Engine::key_count).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "storage_node/engine/engine.h"

namespace sf {

enum class KeyType : uint8_t { kString = 1, kHash = 2, kList = 3, kSet = 4, kZset = 5 };

// "string", "hash", "list", "set", "zset": TYPE's answers.
std::string_view type_name(KeyType type);

inline constexpr size_t kMetaHeaderBytes = 10;
inline constexpr size_t kLowMemberBytes = 64;

struct MetaFields {
  KeyType type = KeyType::kString;
  uint8_t flags = 0;
  int64_t expire_ms = 0;
  uint64_t version = 0;  // collections only, as all below
  uint64_t size = 0;
  uint64_t head = 0;  // lists; sorted sets: low
  uint64_t tail = 0;  // lists; sorted sets: high

  bool expired_at(int64_t now_ms) const { return expire_ms != 0 && expire_ms <= now_ms; }
};

// A decoded meta that owns the bytes it came from. Movable; value() is a view on them.
struct Meta : MetaFields {
  std::string stored;
  std::string_view value() const { return std::string_view(stored).substr(kMetaHeaderBytes); }
};

// False if the bytes are no meta. No copy: for compaction filters and scans.
bool decode_meta(std::string_view stored, MetaFields* fields);
// The inline value of a string's stored meta.
inline std::string_view string_value(std::string_view stored) {
  return stored.substr(kMetaHeaderBytes);
}

// The low member of a sorted set's stored meta.
std::string_view zset_low_member(std::string_view stored);

std::string encode_string_meta(std::string_view value, int64_t expire_ms);
// Collections; low_member for sorted sets only.
std::string encode_meta(const MetaFields& fields, std::string_view low_member = {});
// The same meta with another expiry (0: none): EXPIRE and PERSIST of any type.
std::string with_expire(std::string stored, int64_t expire_ms);

// What load_meta finds. `stored` without `live`: an expired key nobody has removed yet; who creates
// the key over it must not count it again.
struct Loaded {
  std::optional<Meta> live;
  bool stored = false;

  explicit operator bool() const { return live.has_value(); }
  const Meta& operator*() const { return *live; }
  Meta& operator*() { return *live; }
  const Meta* operator->() const { return &*live; }
  Meta* operator->() { return &*live; }
  // Adds what creating the key means for DBSIZE: +1, or 0 if an expired or live one is replaced.
  int64_t created() const { return stored ? 0 : 1; }
};

// Errors: kIo, kCorrupt.
Result<Loaded> load_meta(Engine& engine, int db, std::string_view key,
                         const ReadView* view = nullptr);
// The same, and kRefused with wrong_type_text if the live key has another type.
Result<Loaded> load_typed(Engine& engine, int db, std::string_view key, KeyType type,
                          const ReadView* view = nullptr);

// The RESP error of every command on a key of another type.
inline constexpr std::string_view kWrongTypeText =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

// Puts a string, whatever was there (`before`: what load_meta found for the key).
void put_string(WriteTxn& txn, int db, std::string_view key, const Loaded& before,
                std::string_view value, int64_t expire_ms);
// Deletes a key of any type that load_meta found (live or only stored): one delete. Entries of
// collections go in compaction.
void erase_key(WriteTxn& txn, int db, std::string_view key);
// Changes the expiry of a live key of any type.
void put_expire(WriteTxn& txn, int db, std::string_view key, const Meta& meta, int64_t expire_ms);

}  // namespace sf
