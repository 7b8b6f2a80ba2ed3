#include "tests/support/temp_dir.h"

#include <cstdlib>
#include <filesystem>

#include "common/base/check.h"

namespace sf {

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "slotferry-XXXXXX").string();
  SF_CHECK(::mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace sf
