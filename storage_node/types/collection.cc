#include "storage_node/types/collection.h"

#include <rocksdb/iterator.h>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace sf {

Collection::Collection(KeyTxn& keys, std::string_view key, KeyType type, Loaded before)
    : keys_(keys),
      key_(key),
      was_stored_(before.stored),
      was_live_(before.live.has_value()),
      fresh_(!was_live_) {
  // A live key of another type is only opened to be replaced: its size is that of something that
  // exists.
  if (was_live_ && before->type == type) {
    meta_ = *before;
    if (type == KeyType::kZset) low_member_ = zset_low_member(before->stored);
    prefix_ = data_prefix(keys.db(), key, meta_.version);
  }
  meta_.type = type;
}

std::string Collection::stored_key(std::string_view suffix) const {
  std::string out;
  out.reserve(prefix_.size() + suffix.size());
  out.append(prefix_).append(suffix);
  return out;
}

void Collection::ensure_version() {
  if (!prefix_.empty()) return;
  meta_.version = keys_.engine().next_version();
  prefix_ = data_prefix(keys_.db(), key_, meta_.version);
  fresh_ = true;
  dirty_ = true;
}

std::optional<std::string> Collection::get(std::string_view field) {
  if (prefix_.empty()) return std::nullopt;
  return keys_.get(Cf::kData, stored_key(field), !fresh_);
}

void Collection::put(std::string_view field, std::string_view value) {
  ensure_version();
  keys_.put(Cf::kData, stored_key(field), std::string(value));
}

void Collection::erase(std::string_view field) {
  keys_.erase(Cf::kData, stored_key(field));
}

void Collection::put_score(std::string_view suffix) {
  ensure_version();
  keys_.put(Cf::kScore, stored_key(suffix), {});
}

void Collection::erase_score(std::string_view suffix) {
  keys_.erase(Cf::kScore, stored_key(suffix));
}

void Collection::grow(int64_t by) {
  if (by == 0) return;
  meta_.size += static_cast<uint64_t>(by);
  dirty_ = true;
}

void Collection::set_ends(uint64_t head, uint64_t tail) {
  SF_CHECK(head <= tail);
  meta_.head = head;
  meta_.tail = tail;
  meta_.size = tail - head;
  dirty_ = true;
}

void Collection::set_bounds(uint64_t low, std::string_view low_member, uint64_t high) {
  meta_.head = low;
  meta_.tail = high;
  low_member_ = low_member.substr(0, kLowMemberBytes);
  dirty_ = true;
}

void Collection::clear() {
  begin_anew(meta_.type);
}

void Collection::begin_anew(KeyType type) {
  meta_ = MetaFields{};
  meta_.type = type;
  low_member_.clear();
  prefix_.clear();
  fresh_ = true;
  dirty_ = true;
}

void Collection::begin_version() {
  int64_t expire_ms = meta_.expire_ms;
  begin_anew(meta_.type);
  meta_.expire_ms = expire_ms;
}

void Collection::save() {
  if (!dirty_) return;
  dirty_ = false;
  if (!exists()) {
    if (was_live_) erase_key(keys_.txn(), keys_.db(), key_);
    return;
  }
  std::string name = meta_key(keys_.db(), key_);
  if (!was_stored_) keys_.txn().count_keys(keys_.db(), slot_of_stored(name), 1);
  keys_.put(Cf::kMeta, std::move(name), encode_meta(meta_, low_member_));
}

Cursor Collection::scan(Cf cf, std::string_view begin, std::optional<std::string_view> end,
                        KeyTxn::From from) {
  if (prefix_.empty() || fresh_) return Cursor(keys_, nullptr, 0);
  return keys_.scan(cf, stored_key(begin), end ? stored_key(*end) : prefix_end(prefix_),
                    prefix_.size(), from);
}

namespace {

Status copy_entries(Engine& engine, WriteTxn& txn, Cf cf, const std::string& from,
                    const std::string& to) {
  auto it = engine.scan(cf, from, prefix_end(from));
  for (; it->Valid(); it->Next()) {
    rocksdb::Slice suffix = it->key();
    suffix.remove_prefix(from.size());
    txn.put(cf, to + suffix.ToString(), it->value().ToString());
  }
  if (it->status().ok()) return Status::ok();
  return Status::io(cat("copying a key failed: ", it->status().ToString()));
}

}  // namespace

Status copy_key(Engine& engine, WriteTxn& txn, int from_db, std::string_view from, const Meta& meta,
                int to_db, std::string_view to, const Loaded& to_before) {
  if (meta.type == KeyType::kString) {
    put_string(txn, to_db, to, to_before, meta.value(), meta.expire_ms);
    return Status::ok();
  }
  MetaFields copy = meta;
  copy.version = engine.next_version();
  std::string source = data_prefix(from_db, from, meta.version);
  std::string target = data_prefix(to_db, to, copy.version);
  Status status = copy_entries(engine, txn, Cf::kData, source, target);
  if (status && meta.type == KeyType::kZset) {
    status = copy_entries(engine, txn, Cf::kScore, source, target);
  }
  if (!status) return status;
  std::string name = meta_key(to_db, to);
  if (!to_before.stored) txn.count_keys(to_db, slot_of_stored(name), 1);
  bool zset = meta.type == KeyType::kZset;
  txn.put(Cf::kMeta, std::move(name),
          encode_meta(copy, zset ? zset_low_member(meta.stored) : std::string_view()));
  return Status::ok();
}

}  // namespace sf
