// What hashes, lists, sets and sorted sets have in common: a meta, entries under (key, version), a
// size, and the rules that an empty collection does not exist and that a key made anew gets a new
// version, so that no entry of an earlier life can show.
//
// Made by KeyTxn; saved by KeyTxn::commit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "storage_node/types/key_txn.h"

namespace sf {

class Collection {
 public:
  Collection(KeyTxn& keys, std::string_view key, KeyType type, Loaded before);

  std::string_view key() const { return key_; }
  KeyType type() const { return meta_.type; }
  bool exists() const { return meta_.size != 0; }
  uint64_t size() const { return meta_.size; }
  uint64_t version() const { return meta_.version; }
  KeyTxn& keys() { return keys_; }

  // Entries of kData, own writes included.
  std::optional<std::string> get(std::string_view field);
  bool has(std::string_view field) { return get(field).has_value(); }
  void put(std::string_view field, std::string_view value);  // does not change the size
  void erase(std::string_view field);                        // does not change the size
  // Entries of kScore.
  void put_score(std::string_view suffix);
  void erase_score(std::string_view suffix);

  void grow(int64_t by);  // the size; after the puts and erases that cause it
  // Lists: where elements are. Sorted sets: the bounds of the sortable scores.
  uint64_t head() const { return meta_.head; }
  uint64_t tail() const { return meta_.tail; }
  void set_ends(uint64_t head, uint64_t tail);  // lists: size becomes tail - head
  std::string_view low_member() const { return low_member_; }
  // Sorted sets; a member longer than kLowMemberBytes is cut, which is a lower bound too.
  void set_bounds(uint64_t low, std::string_view low_member, uint64_t high);

  void clear();                   // the key goes; a later put makes it anew
  void begin_anew(KeyType type);  // clear, as another type (KeyTxn::replace)
  // A new version without entries, size 0, but the same expiry: the caller puts all entries again.
  void begin_version();
  void save();  // writes or deletes the meta if it changed (KeyTxn::commit)

  // Stored entries (not own writes) whose suffix is in [begin, end); no end: all that follow.
  // Absent collections give an invalid cursor.
  Cursor scan(Cf cf = Cf::kData, std::string_view begin = {},
              std::optional<std::string_view> end = std::nullopt,
              KeyTxn::From from = KeyTxn::From::kFirst);

 private:
  void ensure_version();
  std::string stored_key(std::string_view suffix) const;

  KeyTxn& keys_;
  std::string_view key_;  // of the command's arguments
  MetaFields meta_;
  std::string low_member_;
  std::string prefix_;  // data_prefix of meta_.version; empty: no version yet
  bool was_stored_;     // a meta was there, live or expired
  bool was_live_;
  bool fresh_;          // the version was made by this command: nothing of it is stored
  bool dirty_ = false;  // the meta changed
};

// Copies a live key of any type (strings too), expiry included, over whatever `to_before` says is
// at the destination. Entries are rewritten: the copy is as large as the key. Does not delete the
// source. For COPY and RENAME; the caller commits. Errors: kIo, kCorrupt.
Status copy_key(Engine& engine, WriteTxn& txn, int from_db, std::string_view from, const Meta& meta,
                int to_db, std::string_view to, const Loaded& to_before);

}  // namespace sf
