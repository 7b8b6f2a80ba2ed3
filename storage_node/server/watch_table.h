// WATCH: which keys somebody watches, and whether a command has written them since. Commands report
// what they write; nothing is kept for keys nobody watches.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace sf {

// Thread-safe.
class WatchTable {
 public:
  // One watched key of one connection; stops watching when destroyed. Must die before the table.
  class Watch {
   public:
    Watch(Watch&& other) noexcept;
    Watch& operator=(Watch&&) = delete;
    ~Watch();
    bool touched() const;
    int db() const { return key_.first; }
    const std::string& key() const { return key_.second; }
    bool existed = false;  // when watched: expiry and flushing count as changes of such keys only

   private:
    friend class WatchTable;
    Watch(WatchTable* table, std::pair<int, std::string> key, uint64_t generation, uint64_t flushes)
        : table_(table), key_(std::move(key)), generation_(generation), flushes_(flushes) {}
    WatchTable* table_;
    std::pair<int, std::string> key_;
    uint64_t generation_;
    uint64_t flushes_;
  };

  Watch watch(int db, std::string_view key);
  void touch(int db, std::string_view key) {
    if (watched_.load(std::memory_order_relaxed) != 0) touch_slowly(db, key);
  }
  void touch_all();  // FLUSHALL and the like

 private:
  struct Entry {
    int64_t watchers = 0;
    uint64_t generation = 0;
  };
  void touch_slowly(int db, std::string_view key);
  void unwatch(const std::pair<int, std::string>& key);

  std::atomic<int64_t> watched_{0};
  std::mutex mutex_;
  uint64_t flushes_ = 0;
  std::map<std::pair<int, std::string>, Entry> entries_;
};

}  // namespace sf
