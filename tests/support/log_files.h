// The files of RocksDB in which the newest writes stand.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>

namespace sf {

// The newest log in `dir` that holds anything; "" if none does.
inline std::string newest_log(const std::string& dir) {
  std::string out;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".log" && std::filesystem::file_size(entry.path()) > 0) {
      out = std::max(out, entry.path().string());
    }
  }
  return out;
}

}  // namespace sf
