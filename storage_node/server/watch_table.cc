#include "storage_node/server/watch_table.h"

namespace sf {

WatchTable::Watch::Watch(Watch&& other) noexcept
    : existed(other.existed),
      table_(std::exchange(other.table_, nullptr)),
      key_(std::move(other.key_)),
      generation_(other.generation_),
      flushes_(other.flushes_) {}

WatchTable::Watch::~Watch() {
  if (table_ != nullptr) table_->unwatch(key_);
}

bool WatchTable::Watch::touched() const {
  const std::lock_guard lock(table_->mutex_);
  return table_->entries_.at(key_).generation != generation_ ||
         (existed && table_->flushes_ != flushes_);
}

WatchTable::Watch WatchTable::watch(int db, std::string_view key) {
  const std::lock_guard lock(mutex_);
  std::pair<int, std::string> name(db, key);
  Entry& entry = entries_[name];
  ++entry.watchers;
  watched_.fetch_add(1);
  return {this, std::move(name), entry.generation, flushes_};
}

void WatchTable::unwatch(const std::pair<int, std::string>& key) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (--it->second.watchers == 0) entries_.erase(it);
  watched_.fetch_sub(1);
}

void WatchTable::touch_slowly(int db, std::string_view key) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find({db, std::string(key)});
  if (it != entries_.end()) ++it->second.generation;
}

void WatchTable::touch_all() {
  const std::lock_guard lock(mutex_);
  ++flushes_;
}

}  // namespace sf
