#include "storage_node/types/key_txn.h"

#include <rocksdb/iterator.h>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "storage_node/types/collection.h"

namespace sf {

namespace {

constexpr size_t kLinearSearchOps = 12;

std::string index_key(Cf cf, std::string_view stored_key) {
  std::string out;
  out.reserve(stored_key.size() + 1);
  out.push_back(static_cast<char>(cf));
  out.append(stored_key);
  return out;
}

}  // namespace

Cursor::Cursor(KeyTxn& keys, std::unique_ptr<rocksdb::Iterator> it, size_t prefix_bytes)
    : keys_(&keys), it_(std::move(it)), prefix_bytes_(prefix_bytes) {}
Cursor::Cursor(Cursor&&) noexcept = default;
Cursor::~Cursor() = default;

std::string_view Cursor::suffix() const {
  rocksdb::Slice key = it_->key();
  return std::string_view(key.data(), key.size()).substr(prefix_bytes_);
}

std::string_view Cursor::value() const {
  rocksdb::Slice value = it_->value();
  return std::string_view(value.data(), value.size());
}

void Cursor::next() {
  it_->Next();
  settle();
}

void Cursor::prev() {
  it_->Prev();
  settle();
}

void Cursor::settle() {
  valid_ = it_->Valid() && keys_->ok();
  if (valid_ || it_->status().ok()) return;
  keys_->fail(Status::io(cat("reading stored data failed: ", it_->status().ToString())));
}

KeyTxn::KeyTxn(Engine& engine, int db) : engine_(engine), db_(db) {}
KeyTxn::~KeyTxn() = default;

void KeyTxn::pin() {
  view_.emplace(engine_.peek());
}

Loaded KeyTxn::load(std::string_view key) {
  if (!ok()) return {};
  auto loaded = load_meta(engine_, db_, key, view_ ? &*view_ : nullptr);
  if (loaded) return std::move(*loaded);
  fail(loaded.status());
  return {};
}

Collection* KeyTxn::opened(std::string_view key) {
  for (auto& collection : collections_) {
    if (collection->key() == key) return collection.get();
  }
  return nullptr;
}

Collection& KeyTxn::open(std::string_view key, KeyType type) {
  Collection* collection = opened(key);
  if (collection == nullptr) {
    Loaded loaded = load(key);
    if (loaded && loaded->type != type) {
      fail(kWrongTypeText);
      loaded = {};
    }
    collections_.push_back(std::make_unique<Collection>(*this, key, type, std::move(loaded)));
    return *collections_.back();
  }
  if (collection->type() != type) fail(kWrongTypeText);
  return *collection;
}

Collection& KeyTxn::open_set_or_zset(std::string_view key) {
  if (Collection* collection = opened(key)) return *collection;
  Loaded loaded = load(key);
  KeyType type = loaded ? loaded->type : KeyType::kSet;
  if (type != KeyType::kSet && type != KeyType::kZset) {
    fail(kWrongTypeText);
    loaded = {};
  }
  collections_.push_back(std::make_unique<Collection>(*this, key, type, std::move(loaded)));
  return *collections_.back();
}

Collection& KeyTxn::replace(std::string_view key, KeyType type) {
  Collection* collection = opened(key);
  if (collection == nullptr) {
    collections_.push_back(std::make_unique<Collection>(*this, key, type, load(key)));
    collection = collections_.back().get();
  }
  collection->begin_anew(type);
  return *collection;
}

const WriteOp* KeyTxn::pending(Cf cf, std::string_view stored_key) {
  const auto& ops = txn_.ops();
  if (ops.size() <= kLinearSearchOps) {
    for (size_t i = ops.size(); i-- > 0;) {
      if (ops[i].cf == cf && ops[i].key == stored_key) return &ops[i];
    }
    return nullptr;
  }
  for (; pending_indexed_ < ops.size(); ++pending_indexed_) {
    const WriteOp& op = ops[pending_indexed_];
    pending_index_[index_key(op.cf, op.key)] = pending_indexed_;
  }
  auto it = pending_index_.find(index_key(cf, stored_key));
  return it == pending_index_.end() ? nullptr : &ops[it->second];
}

std::optional<std::string> KeyTxn::get(Cf cf, std::string_view stored_key, bool stored_too) {
  if (!ok()) return std::nullopt;
  if (const WriteOp* op = pending(cf, stored_key)) {
    if (op->kind == WriteOp::Kind::kPut) return op->value;
    return std::nullopt;
  }
  if (!stored_too) return std::nullopt;
  auto found = engine_.get(cf, stored_key, view_ ? &*view_ : nullptr);
  if (found) return std::move(*found);
  fail(found.status());
  return std::nullopt;
}

void KeyTxn::put(Cf cf, std::string stored_key, std::string value) {
  txn_.put(cf, std::move(stored_key), std::move(value));
}

void KeyTxn::erase(Cf cf, std::string stored_key) {
  txn_.erase(cf, std::move(stored_key));
}

Cursor KeyTxn::scan(Cf cf, std::string_view begin, std::string_view end, size_t prefix_bytes,
                    From from) {
  Cursor cursor(*this, engine_.scan(cf, begin, end, view_ ? &*view_ : nullptr), prefix_bytes);
  if (!ok()) return cursor;
  if (from == From::kLast) cursor.it_->SeekToLast();
  cursor.settle();
  return cursor;
}

void KeyTxn::fail(Status status) {
  if (ok()) status_ = std::move(status);
}

void KeyTxn::fail(std::string_view resp_error_text) {
  fail(Status::refused(std::string(resp_error_text)));
}

Status KeyTxn::commit() {
  if (!ok()) return status_;
  for (auto& collection : collections_) collection->save();
  if (txn_.empty()) return Status::ok();
  auto committed = engine_.commit(std::move(txn_));
  if (!committed) fail(committed.status());
  return status_;
}

}  // namespace sf
