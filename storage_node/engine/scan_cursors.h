// What the cursor numbers of HSCAN, SSCAN, ZSCAN (and SCAN) stand for: a place in key order, which
// does not fit into 64 bits. The newest ones are remembered. A number that is no longer known (or
// was given by another node) starts its scan again from the beginning: elements may then come
// twice, as SCAN allows, but none is left out.
//
// Thread-safe. Memory: at most kMaxCursors positions and kMaxBytes of their text.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sf {

class ScanCursors {
 public:
  static constexpr size_t kMaxCursors = 8192;
  static constexpr size_t kMaxBytes = 16UL << 20;

  ScanCursors();

  // A new number, never 0. `scope` says whose place it is (db, key, version ...).
  uint64_t save(std::string scope, std::string position);
  std::optional<std::string> find(std::string_view scope, uint64_t cursor) const;

 private:
  struct Place {
    std::string scope;
    std::string position;
  };
  mutable std::mutex mutex_;
  uint64_t last_;
  size_t bytes_ = 0;
  std::deque<uint64_t> by_age_;
  std::unordered_map<uint64_t, Place> places_;
};

}  // namespace sf
