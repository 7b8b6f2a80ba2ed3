#include "common/ops/log.h"

// As Debian's package is built: a compiled library with fmt outside.
#define SPDLOG_COMPILED_LIB
#define SPDLOG_SHARED_LIB
#define SPDLOG_FMT_EXTERNAL
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "common/base/strings.h"

namespace sf {
namespace {

constexpr size_t kFileBytes = 64 << 20;
constexpr size_t kKeptFiles = 4;
constexpr const char* kLine = "%Y-%m-%d %H:%M:%S.%e %L %v";

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

class SpdlogSink : public LogSink {
 public:
  SpdlogSink(spdlog::sink_ptr sink, LogLevel level) : logger_("", std::move(sink)) {
    logger_.set_level(to_spdlog(level));
    logger_.set_pattern(kLine);
    logger_.flush_on(spdlog::level::debug);  // a line must be there after kill -9
  }

  void write(LogLevel level, std::string_view tag, std::string_view text) override {
    const auto at = to_spdlog(level);
    if (!logger_.should_log(at)) return;
    std::string line = cat(tag, tag.empty() ? "" : ": ", text);
    // One entry is one line, whatever a peer sent.
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20) c = c == '\n' || c == '\t' ? ' ' : '?';
    }
    logger_.log(at, spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  spdlog::logger logger_;
};

class NullSink : public LogSink {
 public:
  void write(LogLevel, std::string_view, std::string_view) override {}
};

}  // namespace

Result<std::shared_ptr<LogSink>> open_log(const std::string& path, LogLevel level) {
  try {
    spdlog::sink_ptr sink;
    if (path.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(path, kFileBytes, kKeptFiles);
    }
    return std::shared_ptr<LogSink>(std::make_shared<SpdlogSink>(std::move(sink), level));
  } catch (const spdlog::spdlog_ex& e) {
    return Status::io(cat("cannot write the log ", path, ": ", e.what()));
  }
}

std::shared_ptr<LogSink> null_log() {
  return std::make_shared<NullSink>();
}

Result<LogLevel> parse_log_level(std::string_view text) {
  const std::string word = to_lower(text);
  if (word == "debug") return LogLevel::kDebug;
  if (word == "info") return LogLevel::kInfo;
  if (word == "warning" || word == "warn") return LogLevel::kWarning;
  if (word == "error") return LogLevel::kError;
  return Status::invalid(cat("'", printable(text), "' is not debug, info, warning or error"));
}

}  // namespace sf
