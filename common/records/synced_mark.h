// How far a database was written for certain: 16 bytes in a file of their own, in place. A log cut
// off in the middle of its last record is what a crash or a full disk leaves, and one that ends
// before this mark has lost something that was acknowledged: only the mark tells them apart.
// The mark itself is not synced: after a power loss it may be lower, never higher.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace sf {

class SyncedMark {
 public:
  SyncedMark() = default;
  ~SyncedMark();
  SyncedMark(const SyncedMark&) = delete;
  SyncedMark& operator=(const SyncedMark&) = delete;

  // A file that is not there is made, unless it is only to be read.
  Status open(const std::string& path, bool read_only);
  uint64_t value() const { return value_; }  // 0 if it is not known
  // Best effort: there is nothing to be done if it fails, and nothing is lost.
  void raise(uint64_t value);

 private:
  int fd_ = -1;
  uint64_t value_ = 0;
};

}  // namespace sf
