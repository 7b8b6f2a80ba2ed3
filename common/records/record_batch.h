// Changes of records that are written together (record_db.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sf {

class RecordBatch {
 public:
  struct Change {
    enum class Kind { kPut, kErase, kEraseRange };
    Kind kind;
    std::string key;
    std::string value;  // of kEraseRange: the first key after the range
  };

  void put(std::string key, std::string value) {
    changes_.push_back({Change::Kind::kPut, std::move(key), std::move(value)});
  }
  void erase(std::string key) { changes_.push_back({Change::Kind::kErase, std::move(key), ""}); }
  void erase_range(std::string from, std::string to) {
    changes_.push_back({Change::Kind::kEraseRange, std::move(from), std::move(to)});
  }
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::vector<Change> changes_;
};

}  // namespace sf
