// What the operator sees: bars on a terminal, plain lines otherwise, one JSON object a line for
// programs. JSON lines carry "event": phase, step, progress, note, warning, check, error, report.
// Main thread only.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace sf {

struct Progress {
  std::string what;  // "slots switched"
  int64_t done = 0;
  int64_t total = 0;
  std::string unit;    // "slots", "keys"
  std::string detail;  // free text behind the bar
};

using Fields = std::vector<std::pair<std::string, std::string>>;  // values are JSON texts already

class Output {
 public:
  enum class Mode { kBars, kLines, kJson };
  Output(std::FILE* file, Mode mode, const Clock& clock);
  static Mode mode_for(std::FILE* file, bool json);

  Mode mode() const { return mode_; }
  void phase(std::string_view name);
  void step_done(std::string_view step, std::string_view title, std::string_view text, int64_t ms);
  // Shown at most every 200 ms on a terminal, every 2 s as lines, every 1 s as JSON, and when done
  // == total. The rate is taken over the time since `what` was first reported.
  void progress(const Progress& progress);
  void note(std::string_view text);
  void warning(std::string_view text);
  void error(std::string_view text);
  void text_only(std::string_view text);                           // left out in JSON mode
  void json_only(const std::string& event, const Fields& fields);  // left out in the others
  void table(
      const std::vector<std::pair<std::string, std::string>>& rows);  // left out in JSON mode

 private:
  void line(std::string_view text);
  void end_bar();

  std::FILE* const file_;
  const Mode mode_;
  const Clock& clock_;
  std::string current_;  // Progress::what being shown
  int64_t begun_us_ = 0;
  int64_t begun_done_ = 0;
  int64_t shown_us_ = 0;
  bool bar_open_ = false;
};

std::string json_text(
    std::string_view text);              // quoted and escaped; bytes that are no UTF-8 replaced
std::string human_count(int64_t value);  // 1234567 -> "1,234,567"
std::string human_bytes(int64_t value);  // "12.3 MiB"
std::string human_ms(int64_t us);        // microseconds as "3.20 ms"
std::string human_seconds(int64_t ms);   // milliseconds as "12.3 s"

}  // namespace sf
