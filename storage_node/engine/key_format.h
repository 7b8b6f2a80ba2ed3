// Where things are in RocksDB (DESIGN 5.1). Every key of every column family, except kSys, begins
// with
//   prefix = db (1 byte) | slot (2 bytes, big endian)
// so a slot of a db is one contiguous range everywhere.
//
//   kMeta  prefix | user key                                  -> meta value (types/meta.h)
//   kData  prefix | key length (4, big endian) | user key | version (8, big endian) | field ->
//   value kScore prefix | key length (4) | user key | version (8) | score (8, sortable) | member ->
//   "" kSys   "name"                                             -> node's own records, not
//   replicated but for those whose name begins with kSharedPrefix, which full replicas get
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/slots/slot_hash.h"

namespace sf {

enum class Cf : uint8_t { kMeta = 0, kData = 1, kScore = 2, kSys = 3 };
inline constexpr int kCfCount = 4;
inline constexpr int kDbCount = 16;  // SELECT 0..15, as codis-proxy opens them
inline constexpr size_t kPrefixBytes = 3;
inline constexpr std::string_view kSharedPrefix = "shared/";  // of names in kSys

std::string slot_prefix(int db, int slot);
// The end (exclusive) of everything that begins with `prefix`; prefix must not be all 0xff.
std::string prefix_end(std::string_view prefix);

std::string meta_key(int db, std::string_view user_key);  // the slot is computed from the key
// kData or kScore: everything of one version of one collection begins with this.
std::string data_prefix(int db, std::string_view user_key, uint64_t version);

int slot_of_stored(std::string_view stored_key);  // of any key in kMeta, kData, kScore
int db_of_stored(std::string_view stored_key);

// Parts of a stored key; false if it is too short to be one.
bool parse_meta_key(std::string_view stored, int* db, int* slot, std::string_view* user_key);
bool parse_data_key(std::string_view stored, int* db, int* slot, std::string_view* user_key,
                    uint64_t* version, std::string_view* rest);

// Doubles to 8 bytes that sort as the numbers do (-inf first, +inf last; no NaN; -0 as 0), and
// back.
uint64_t sortable_score(double score);
double score_of(uint64_t sortable);

}  // namespace sf
