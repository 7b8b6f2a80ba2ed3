// One command's work on keys of one db: reads that see the command's own writes, collections opened
// by name, one sticky error, one commit.
//
// After the first error (I/O, damage, WRONGTYPE, or what the command itself reports with fail)
// reads give "absent" and commit writes nothing and returns that error; so handlers need one check,
// at the end. One thread; lives during one command whose key locks are held. Commands that only
// read take no key locks into account: they call pin() first if they read more than one thing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "storage_node/types/meta.h"

namespace sf {

class Collection;
class KeyTxn;

// Walks stored entries in key order; does not see the command's own writes.
class Cursor {
 public:
  Cursor(KeyTxn& keys, std::unique_ptr<rocksdb::Iterator> it, size_t prefix_bytes);
  Cursor(Cursor&&) noexcept;
  ~Cursor();

  bool valid() const { return valid_; }
  std::string_view suffix() const;  // the stored key behind the collection's prefix
  std::string_view value() const;
  void next();
  void prev();

 private:
  friend class KeyTxn;
  void settle();  // notes validity and errors after a move

  KeyTxn* keys_;
  std::unique_ptr<rocksdb::Iterator> it_;
  size_t prefix_bytes_;
  bool valid_ = false;
};

class KeyTxn {
 public:
  KeyTxn(Engine& engine, int db);
  ~KeyTxn();
  KeyTxn(const KeyTxn&) = delete;
  KeyTxn& operator=(const KeyTxn&) = delete;

  // From now on all reads see one moment. Before the first read.
  void pin();

  // The collection of that name, possibly absent; WRONGTYPE fails the command. The same object for
  // the same name. References stay valid as long as this object lives.
  Collection& open(std::string_view key, KeyType type);
  // As open, but a set or a sorted set (ZUNION and the like take both).
  Collection& open_set_or_zset(std::string_view key);
  // The key begins anew, empty, without expiry, whatever it was: for STORE forms, after all reads.
  // Left empty, the key is deleted.
  Collection& replace(std::string_view key, KeyType type);

  // Own pending write or, `stored_too`, what is stored.
  std::optional<std::string> get(Cf cf, std::string_view stored_key, bool stored_too = true);
  void put(Cf cf, std::string stored_key, std::string value);
  void erase(Cf cf, std::string stored_key);

  enum class From { kFirst, kLast };
  // Entries with begin <= key < end, positioned on the first or the last of them.
  Cursor scan(Cf cf, std::string_view begin, std::string_view end, size_t prefix_bytes, From from);

  void fail(Status status);                     // the first error stays
  void fail(std::string_view resp_error_text);  // kRefused
  bool ok() const { return status_.is_ok(); }

  Status commit();

  Engine& engine() { return engine_; }
  int db() const { return db_; }
  WriteTxn& txn() { return txn_; }

 private:
  Collection* opened(std::string_view key);
  Loaded load(std::string_view key);
  const WriteOp* pending(Cf cf, std::string_view stored_key);

  Engine& engine_;
  int db_;
  WriteTxn txn_;
  std::optional<ReadView> view_;
  Status status_;
  std::vector<std::unique_ptr<Collection>> collections_;
  // Index of own writes, built only when they are many.
  std::unordered_map<std::string, size_t> pending_index_;
  size_t pending_indexed_ = 0;
};

}  // namespace sf
