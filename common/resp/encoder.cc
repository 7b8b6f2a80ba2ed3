#include "common/resp/encoder.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "common/base/strings.h"

namespace sf::resp {
namespace {

void header(std::string& out, char type, int64_t value) {
  char buf[24];
  buf[0] = type;
  char* end = std::to_chars(buf + 1, buf + sizeof(buf) - 2, value).ptr;
  *end++ = '\r';
  *end++ = '\n';
  out.append(buf, static_cast<size_t>(end - buf));
}

}  // namespace

void status(std::string& out, std::string_view text) {
  out.push_back('+');
  out.append(text);
  out.append("\r\n");
}

void error(std::string& out, std::string_view text) {
  out.push_back('-');
  for (const char c : text) out.push_back(c == '\r' || c == '\n' ? ' ' : c);
  out.append("\r\n");
}

void integer(std::string& out, int64_t value) {
  header(out, ':', value);
}

void bulk(std::string& out, std::string_view bytes) {
  header(out, '$', static_cast<int64_t>(bytes.size()));
  out.append(bytes);
  out.append("\r\n");
}

void nil(std::string& out) {
  out.append("$-1\r\n");
}
void nil_array(std::string& out) {
  out.append("*-1\r\n");
}
void array(std::string& out, size_t elements) {
  header(out, '*', static_cast<int64_t>(elements));
}

void bulk_int(std::string& out, int64_t value) {
  char buf[24];
  const char* end = std::to_chars(buf, buf + sizeof(buf), value).ptr;
  bulk(out, std::string_view(buf, static_cast<size_t>(end - buf)));
}

void bulk_double(std::string& out, double value) {
  bulk(out, format_double(value));
}

std::string format_double(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buf[40];
  const int size = std::snprintf(buf, sizeof(buf), "%.17g", value);
  return std::string(buf, static_cast<size_t>(size));
}

void request(std::string& out, std::span<const std::string_view> argv) {
  array(out, argv.size());
  for (const auto arg : argv) bulk(out, arg);
}

std::string request(std::initializer_list<std::string_view> argv) {
  std::string out;
  request(out, std::span<const std::string_view>(argv.begin(), argv.size()));
  return out;
}

}  // namespace sf::resp
