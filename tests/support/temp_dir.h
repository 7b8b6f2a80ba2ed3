// A temporary folder for one test, removed with the object.
#pragma once

#include <string>

namespace sf {

class TempDir {
 public:
  TempDir();  // under $TMPDIR or /tmp; aborts if none can be made
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string sub(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace sf
