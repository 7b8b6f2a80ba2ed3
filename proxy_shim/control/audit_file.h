// The audit log as people and programs read it: <dir>/audit.jsonl, a line an entry. A copy of what
// the state store holds (I12): half a line, and what is missing after a crash or a full disk, is
// made good from there. Thread of its owner.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/status.h"

namespace sf {

class AuditFile {
 public:
  // Whole lines, each with its end, of all entries in the store with a number above `last`.
  using Source = std::function<std::string(uint64_t last)>;

  AuditFile(std::string path, Source source);
  ~AuditFile();
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;

  // Creates it, or brings it up to the store.
  Status open();
  // An entry that is in the store already. What cannot be written now is, before the next one.
  void append(uint64_t number, const std::string& line);
  // The store may hold entries that were not appended.
  void fall_behind() { behind_ = true; }

 private:
  Status find_end();
  Status complete();
  bool write_whole(const std::string& lines);

  const std::string path_;
  const Source source_;
  int fd_ = -1;
  int64_t end_ = 0;    // of the last whole line
  uint64_t last_ = 0;  // its number
  bool behind_ = false;
};

}  // namespace sf
