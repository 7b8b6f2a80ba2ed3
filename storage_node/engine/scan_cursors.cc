#include "storage_node/engine/scan_cursors.h"

#include "common/base/random.h"

namespace sf {

namespace {
// Numbers stay below 2^53, because some clients keep cursors in doubles; the start is random, so
// that a number of before a restart is not taken for one of now.
constexpr uint64_t kStartMask = (1ULL << 52) - 1;
}  // namespace

ScanCursors::ScanCursors() : last_(Random::system_seed() & kStartMask) {}

uint64_t ScanCursors::save(std::string scope, std::string position) {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t cursor = ++last_;
  bytes_ += scope.size() + position.size();
  places_.emplace(cursor, Place{std::move(scope), std::move(position)});
  by_age_.push_back(cursor);
  while (by_age_.size() > 1 && (by_age_.size() > kMaxCursors || bytes_ > kMaxBytes)) {
    auto oldest = places_.find(by_age_.front());
    bytes_ -= oldest->second.scope.size() + oldest->second.position.size();
    places_.erase(oldest);
    by_age_.pop_front();
  }
  return cursor;
}

std::optional<std::string> ScanCursors::find(std::string_view scope, uint64_t cursor) const {
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = places_.find(cursor);
  if (found == places_.end() || found->second.scope != scope) return std::nullopt;
  return found->second.position;
}

}  // namespace sf
