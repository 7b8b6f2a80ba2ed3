// Logging: one sink a process, handed down through constructors, tagged by component.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace sf {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(LogLevel level, std::string_view tag, std::string_view text) = 0;  // any thread
};

// Lines "2026-11-30 12:00:00.123 I tag: text" to a file (rotated at 64 MiB, 4 kept) or, with an empty
// path, to standard error.
Result<std::shared_ptr<LogSink>> open_log(const std::string& path, LogLevel level);
std::shared_ptr<LogSink> null_log();

// A cheap handle; copy it. Thread-safe.
class Log {
 public:
  Log() : sink_(null_log()) {}
  Log(std::shared_ptr<LogSink> sink, std::string tag) : sink_(std::move(sink)), tag_(std::move(tag)) {}
  Log tagged(std::string tag) const { return {sink_, std::move(tag)}; }

  void debug(std::string_view text) const { sink_->write(LogLevel::kDebug, tag_, text); }
  void info(std::string_view text) const { sink_->write(LogLevel::kInfo, tag_, text); }
  void warning(std::string_view text) const { sink_->write(LogLevel::kWarning, tag_, text); }
  void error(std::string_view text) const { sink_->write(LogLevel::kError, tag_, text); }

 private:
  std::shared_ptr<LogSink> sink_;
  std::string tag_;
};

Result<LogLevel> parse_log_level(std::string_view text);  // debug, info, warning, error

}  // namespace sf
