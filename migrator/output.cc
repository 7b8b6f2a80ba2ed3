#include "migrator/output.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/base/strings.h"

namespace sf {
namespace {

constexpr int kBarWidth = 28;

std::string decimal(double value, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

int64_t interval_us(Output::Mode mode) {
  switch (mode) {
    case Output::Mode::kBars:
      return 200'000;
    case Output::Mode::kLines:
      return 2'000'000;
    case Output::Mode::kJson:
      break;
  }
  return 1'000'000;
}

std::string bar_text(int64_t done, int64_t total) {
  const int64_t filled = total <= 0 ? 0 : std::min<int64_t>(kBarWidth, done * kBarWidth / total);
  return cat("[", std::string(static_cast<size_t>(filled), '#'),
             std::string(static_cast<size_t>(kBarWidth - filled), '.'), "]");
}

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string human_count(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string human_bytes(int64_t value) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double scaled = static_cast<double>(value);
  size_t unit = 0;
  while (scaled >= 1024 && unit + 1 < std::size(kUnits)) {
    scaled /= 1024;
    ++unit;
  }
  return cat(unit == 0 ? std::to_string(value) : decimal(scaled, 1), " ", kUnits[unit]);
}

std::string human_ms(int64_t us) {
  return decimal(static_cast<double>(us) / 1000, 2) + " ms";
}
std::string human_seconds(int64_t ms) {
  return decimal(static_cast<double>(ms) / 1000, 1) + " s";
}

Output::Output(std::FILE* file, Mode mode, const Clock& clock)
    : file_(file), mode_(mode), clock_(clock) {}

Output::Mode Output::mode_for(std::FILE* file, bool json) {
  if (json) return Mode::kJson;
  return isatty(fileno(file)) == 1 ? Mode::kBars : Mode::kLines;
}

void Output::end_bar() {
  if (bar_open_) std::fputc('\n', file_);
  bar_open_ = false;
}

void Output::line(std::string_view text) {
  end_bar();
  std::fprintf(file_, "%.*s\n", static_cast<int>(text.size()), text.data());
  std::fflush(file_);
}

void Output::json_only(const std::string& event, const Fields& fields) {
  if (mode_ != Mode::kJson) return;
  std::string out = cat("{\"event\":", json_text(event), ",\"time_ms\":", clock_.wall_ms());
  for (const auto& [name, value] : fields) out += cat(",", json_text(name), ":", value);
  line(out + "}");
}

void Output::text_only(std::string_view text) {
  if (mode_ != Mode::kJson) line(text);
}

void Output::phase(std::string_view name) {
  text_only(cat("== ", name));
  json_only("phase", {{"phase", json_text(name)}});
}

void Output::step_done(std::string_view step, std::string_view title, std::string_view text,
                       int64_t ms) {
  text_only(cat("   ok  ", title, text.empty() ? "" : ": ", text, " (", human_seconds(ms), ")"));
  json_only("step",
            {{"step", json_text(step)}, {"text", json_text(text)}, {"ms", std::to_string(ms)}});
}

void Output::progress(const Progress& progress) {
  const int64_t now = clock_.mono_us();
  if (current_ != progress.what) {
    current_ = progress.what;
    begun_us_ = now;
    begun_done_ = progress.done;
    shown_us_ = 0;
  }
  const bool complete = progress.done >= progress.total;
  if (shown_us_ != 0 && now - shown_us_ < interval_us(mode_) && !complete) return;
  shown_us_ = now;
  const double seconds = std::max(1e-3, static_cast<double>(now - begun_us_) / 1e6);
  const double rate = static_cast<double>(progress.done - begun_done_) / seconds;
  const double eta = rate > 0 ? static_cast<double>(progress.total - progress.done) / rate : -1;
  if (mode_ == Mode::kJson) {
    json_only("progress", {{"what", json_text(progress.what)},
                           {"done", std::to_string(progress.done)},
                           {"total", std::to_string(progress.total)},
                           {"unit", json_text(progress.unit)},
                           {"per_second", decimal(rate, 1)},
                           {"eta_seconds", decimal(eta, 1)},
                           {"detail", json_text(progress.detail)}});
    return;
  }
  std::string text =
      cat(human_count(progress.done), "/", human_count(progress.total), " ", progress.unit);
  if (rate > 0) text += cat(", ", human_count(static_cast<int64_t>(rate)), "/s");
  if (eta >= 0 && !complete) text += cat(", ETA ", human_seconds(static_cast<int64_t>(eta * 1000)));
  if (!progress.detail.empty()) text += cat(", ", progress.detail);
  if (mode_ == Mode::kLines) return line(cat("   ", progress.what, ": ", text));
  std::fprintf(file_, "\r\033[K   %s %s %s", progress.what.c_str(),
               bar_text(progress.done, progress.total).c_str(), text.c_str());
  std::fflush(file_);
  bar_open_ = true;
}

void Output::note(std::string_view text) {
  text_only(cat("   ", text));
  json_only("note", {{"text", json_text(text)}});
}

void Output::warning(std::string_view text) {
  text_only(cat("   warning: ", text));
  json_only("warning", {{"text", json_text(text)}});
}

void Output::error(std::string_view text) {
  end_bar();
  std::fflush(file_);
  if (mode_ == Mode::kJson) return json_only("error", {{"text", json_text(text)}});
  std::fprintf(stderr, "slotferry: %.*s\n", static_cast<int>(text.size()), text.data());
}

void Output::table(const std::vector<std::pair<std::string, std::string>>& rows) {
  if (mode_ == Mode::kJson) return;
  size_t width = 0;
  for (const auto& [name, value] : rows) width = std::max(width, name.size());
  for (const auto& [name, value] : rows) {
    line(cat("   ", name, std::string(width - name.size() + 2, ' '), value));
  }
}

}  // namespace sf
