// Settings of a program: a table of names with defaults, filled from `--config FILE` and overridden by
// flags `--name value`. The same names in both (Pika's style: port, bind, dir, threads, requirepass).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace sf {

struct SettingSpec {
  std::string name;           // "port"
  std::string default_value;
  std::string help;
  enum class Kind { kText, kInteger, kBytes, kFlag } kind = Kind::kText;
  int64_t min = 0;            // kInteger, kBytes
  int64_t max = INT64_MAX;
};

class Settings {
 public:
  explicit Settings(std::vector<SettingSpec> specs);

  // Understands --help and --version by itself: prints and sets done(). Unknown flags and keys, values
  // that do not fit: one sentence naming the flag or the file's line, and what is allowed.
  Status parse(int argc, char** argv, std::string_view program, std::string_view summary);
  bool done() const { return done_; }

  const std::string& text(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const;
  bool given(std::string_view name) const;     // by file or flag
  const std::string& config_path() const { return config_path_; }
  Status set(std::string_view name, std::string_view value);  // checked as in parse()
  const std::vector<SettingSpec>& specs() const { return specs_; }

 private:
  const SettingSpec* find(std::string_view name) const;
  Status load(const std::string& path);

  std::vector<SettingSpec> specs_;
  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, bool, std::less<>> given_;
  std::string config_path_;
  bool done_ = false;
};

}  // namespace sf
