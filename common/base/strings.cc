#include "common/base/strings.h"

#include <algorithm>
#include <charconv>

namespace sf {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }
char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; }

template <class T>
std::optional<T> parse_number(std::string_view text) {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  if (text.size() != digits.size() && digits == "0") return std::nullopt;
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// One [...] class at the front of `pattern`; takes it off and says whether `c` is in it.
bool match_class(std::string_view& pattern, char c) {
  pattern.remove_prefix(1);
  const bool negated = pattern.starts_with('^');
  if (negated) pattern.remove_prefix(1);
  bool found = false;
  while (!pattern.empty() && pattern[0] != ']') {
    if (pattern[0] == '\\' && pattern.size() >= 2) {
      found |= pattern[1] == c;
      pattern.remove_prefix(2);
    } else if (pattern.size() >= 3 && pattern[1] == '-') {
      const auto [low, high] = std::minmax(pattern[0], pattern[2]);
      found |= c >= low && c <= high;
      pattern.remove_prefix(3);
    } else {
      found |= pattern[0] == c;
      pattern.remove_prefix(1);
    }
  }
  if (!pattern.empty()) pattern.remove_prefix(1);
  return found != negated;
}

}  // namespace

std::optional<int64_t> parse_int64(std::string_view text) { return parse_number<int64_t>(text); }
std::optional<uint64_t> parse_uint64(std::string_view text) {
  if (text.starts_with('-')) return std::nullopt;
  return parse_number<uint64_t>(text);
}

void append_int(std::string& out, int64_t value) {
  char buf[24];
  const auto [end, error] = std::to_chars(buf, buf + sizeof(buf), value);
  out.append(buf, static_cast<size_t>(end - buf));
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), upper);
  return out;
}

bool equals_ignore_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto port = parse_uint64(text.substr(colon + 1));
  if (!port || *port == 0 || *port > 65535) return std::nullopt;
  return HostPort{std::string(text.substr(0, colon)), static_cast<int>(*port)};
}

// Iterative with one remembered star, so that no pattern takes exponential time.
bool glob_match(std::string_view pattern, std::string_view text) {
  std::string_view star_pattern, star_text;
  bool starred = false;
  while (true) {
    if (!pattern.empty() && pattern[0] == '*') {
      pattern.remove_prefix(1);
      starred = true;
      star_pattern = pattern;
      star_text = text;
      continue;
    }
    if (text.empty()) return pattern.empty();
    std::string_view rest = pattern;
    bool matched = false;
    if (!rest.empty()) {
      if (rest[0] == '[') {
        matched = match_class(rest, text[0]);
      } else {
        if (rest[0] == '\\' && rest.size() >= 2) {
          rest.remove_prefix(1);
          matched = rest[0] == text[0];
        } else {
          matched = rest[0] == '?' || rest[0] == text[0];
        }
        rest.remove_prefix(1);
      }
    }
    if (matched) {
      pattern = rest;
      text.remove_prefix(1);
    } else if (starred && !star_text.empty()) {
      star_text.remove_prefix(1);
      text = star_text;
      pattern = star_pattern;
    } else {
      return false;
    }
  }
}

std::string printable(std::string_view bytes, size_t limit) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes.substr(0, limit)) {
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      out.push_back(c);
    } else {
      out.append("\\x");
      out.push_back(kHex[static_cast<uint8_t>(c) >> 4]);
      out.push_back(kHex[static_cast<uint8_t>(c) & 15]);
    }
  }
  if (bytes.size() > limit) out.append("...");
  return out;
}

}  // namespace sf
