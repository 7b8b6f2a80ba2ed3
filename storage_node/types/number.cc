#include "storage_node/types/number.h"

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace sf {

namespace {

// The longest number HINCRBYFLOAT stores fits; the buffer gives strtod its end.
constexpr size_t kMaxNumberBytes = 5 * 1024 - 1;

template <class T>
std::optional<T> parse_real(std::string_view text, T (*parse)(const char*, char**), bool strict) {
  if (text.size() > kMaxNumberBytes) return std::nullopt;
  if (text.empty()) return strict ? std::nullopt : std::optional<T>(0);
  if (strict && std::isspace(static_cast<unsigned char>(text[0]))) return std::nullopt;
  char buffer[kMaxNumberBytes + 1];
  std::memcpy(buffer, text.data(), text.size());
  buffer[text.size()] = '\0';
  char* end = nullptr;
  errno = 0;
  T value = parse(buffer, &end);
  if (static_cast<size_t>(end - buffer) != text.size() || std::isnan(value)) return std::nullopt;
  if (strict && errno == ERANGE && (std::isinf(value) || value == 0)) return std::nullopt;
  return value;
}

double read_double(const char* text, char** end) {
  return std::strtod(text, end);
}
long double read_long_double(const char* text, char** end) {
  return std::strtold(text, end);
}

}  // namespace

std::optional<double> parse_double(std::string_view text) {
  return parse_real(text, read_double, true);
}

std::optional<double> parse_score_end(std::string_view text) {
  return parse_real(text, read_double, false);
}

std::optional<long double> parse_long_double(std::string_view text) {
  return parse_real(text, read_long_double, true);
}

std::string format_long_double(long double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text(5 * 1024, '\0');  // 4,932 digits before the point at most
  int length = std::snprintf(text.data(), text.size(), "%.17Lf", value);
  text.resize(static_cast<size_t>(length));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace sf
