// Small text helpers used everywhere. Numbers are parsed as Redis parses them (string2ll): no
// blanks, no plus sign, no leading zeros, whole input.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sf {

std::optional<int64_t> parse_int64(std::string_view text);
std::optional<uint64_t> parse_uint64(std::string_view text);

// Decimal text of `value`, appended.
void append_int(std::string& out, int64_t value);

// ASCII only, as command names and option words are.
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
bool equals_ignore_case(std::string_view a, std::string_view b);

// Parts between `separator`; empty parts are kept. "" gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);  // blanks, tabs, CR, LF at both ends

// "host:port" to its parts; port 1..65535. Host may not be empty.
struct HostPort {
  std::string host;
  int port = 0;
  std::string text() const { return host + ":" + std::to_string(port); }
  bool operator==(const HostPort&) const = default;
};
std::optional<HostPort> parse_host_port(std::string_view text);

// Redis glob (*, ?, [a-z], [^a], backslash escapes), case-sensitive. util.c stringmatchlen's rules.
bool glob_match(std::string_view pattern, std::string_view text);

// Bytes as a person reads them: printable ASCII as is, the rest \xNN, cut after `limit` bytes.
std::string printable(std::string_view bytes, size_t limit = 64);

inline void cat_one(std::string& out, std::string_view v) { out.append(v); }
inline void cat_one(std::string& out, const char* v) { out.append(v); }
inline void cat_one(std::string& out, const std::string& v) { out.append(v); }
inline void cat_one(std::string& out, char v) { out.push_back(v); }
template <class T>
  requires std::is_integral_v<T>
inline void cat_one(std::string& out, T v) {
  out.append(std::to_string(v));
}

// The pieces written one after the other: cat("slot ", 905, " is ", name).
template <class... T>
std::string cat(const T&... pieces) {
  std::string out;
  (cat_one(out, pieces), ...);
  return out;
}

}  // namespace sf
