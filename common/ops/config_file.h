// Pika's configuration file: lines "key : value", '#' comments. Rewriting keeps comments and order
// (CONFIG REWRITE). Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace sf {

class ConfigFile {
 public:
  // A line without a colon or a key given twice is refused with its line number. The value may be empty.
  static Result<ConfigFile> load(const std::string& path);
  static Result<ConfigFile> parse(std::string_view text, std::string_view name);

  std::optional<std::string> get(std::string_view key) const;
  void set(std::string_view key, std::string_view value);  // replaces in place, or appends
  void erase(std::string_view key);
  std::vector<std::string> keys() const;
  int line_of(std::string_view key) const;  // from 1; 0 if it is not there
  std::string text() const;
  Status save(const std::string& path) const;  // atomically: temporary file, fsync, rename

 private:
  struct Line {
    std::string key;    // empty: comment or blank
    std::string value;
    std::string raw;
  };
  std::vector<Line> lines_;
};

}  // namespace sf
