#include "storage_node/engine/log_retention.h"

namespace sf {

namespace {

// The first sequence that is certainly not in file i.
uint64_t end_of(const std::vector<LogFile>& files, size_t i) {
  return i + 1 < files.size() ? files[i + 1].start : UINT64_MAX;
}

}  // namespace

uint64_t log_bytes_from(const std::vector<LogFile>& files, uint64_t from) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (end_of(files, i) > from) bytes += files[i].bytes;
  }
  return bytes;
}

LogCut decide_log_cut(const std::vector<LogFile>& files, uint64_t needed, uint64_t readable,
                      const LogLimits& limits) {
  LogCut cut;
  uint64_t left = log_bytes_from(files, 0);
  // The newest file is always RocksDB's own.
  for (size_t i = 0; i + 1 < files.size() && files[i].archived; ++i) {
    const uint64_t end = end_of(files, i);
    const bool is_needed = end > needed;
    const bool too_old = files[i].age_ms >= limits.keep_seconds * 1000;
    if (left > limits.keep_bytes || too_old) {
      if (is_needed) cut.limit = too_old ? LogCut::Limit::kSeconds : LogCut::Limit::kBytes;
    } else if (end > readable && (is_needed || left <= limits.spare_bytes)) {
      break;
    }
    left -= files[i].bytes;
    cut.files = i + 1;
  }
  return cut;
}

}  // namespace sf
