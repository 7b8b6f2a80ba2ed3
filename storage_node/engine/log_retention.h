// Which files of the WAL are kept for replicas (DESIGN 5.3, ADR 0012): a decision without I/O, so
// that a test can ask it everything. Engine::trim_log carries it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sf {

struct LogLimits {
  uint64_t keep_bytes = 0;   // all of the log, however much somebody needs it
  int64_t keep_seconds = 0;  // and no file longer than this after its last entry; 0: none is kept
  uint64_t spare_bytes = 0;  // what nobody needs now is kept up to this, for who comes back
};

struct LogFile {
  std::string path;    // as RocksDB names it
  uint64_t start = 0;  // RocksDB's sequence of the first batch
  uint64_t bytes = 0;
  int64_t age_ms = 0;     // since it was closed
  bool archived = false;  // closed, and RocksDB itself no longer needs it
};

struct LogCut {
  enum class Limit { kNone, kBytes, kSeconds };
  size_t files = 0;            // this many of the oldest files go
  Limit limit = Limit::kNone;  // the limit by which needed ones go; kNone: nobody needs what goes
};

// `files` oldest first. Entries from RocksDB's sequence `needed` on are needed by somebody
// (UINT64_MAX: by nobody), those before `readable` can no longer be read by anyone.
LogCut decide_log_cut(const std::vector<LogFile>& files, uint64_t needed, uint64_t readable,
                      const LogLimits& limits);

// Bytes of the files that hold entries from `from` on.
uint64_t log_bytes_from(const std::vector<LogFile>& files, uint64_t from);

}  // namespace sf
