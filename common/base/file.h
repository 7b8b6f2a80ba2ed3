// Whole-file helpers for the control plane. Errors name the path.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace sf {

Result<std::string> read_file(const std::string& path);
// Temporary file beside it, fsync, rename, fsync of the folder: after a crash the old or the new text.
Status write_file_atomic(const std::string& path, std::string_view text);
Status make_dirs(const std::string& path);
Result<int64_t> free_bytes(const std::string& path);

}  // namespace sf
