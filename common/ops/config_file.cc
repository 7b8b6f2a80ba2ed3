#include "common/ops/config_file.h"

#include <algorithm>

#include "common/base/file.h"
#include "common/base/strings.h"

namespace sf {
namespace {

std::string line_text(std::string_view key, std::string_view value) {
  std::string out = cat(key, " : ", value);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return out;
}

}  // namespace

Result<ConfigFile> ConfigFile::load(const std::string& path) {
  auto text = read_file(path);
  if (!text) return text.status();
  return parse(*text, path);
}

Result<ConfigFile> ConfigFile::parse(std::string_view text, std::string_view name) {
  ConfigFile out;
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return out;
  for (const std::string_view raw : split(text, '\n')) {
    const size_t number = out.lines_.size() + 1;
    const std::string_view line = trim(raw);
    if (line.empty() || line[0] == '#') {
      out.lines_.push_back({"", "", std::string(raw)});
      continue;
    }
    const size_t colon = line.find(':');
    const std::string_view key = trim(line.substr(0, colon));
    if (colon == std::string_view::npos || key.empty()) {
      return Status::invalid(
          cat(name, " line ", number, ": '", printable(line), "' is not 'key : value'"));
    }
    if (const int first = out.line_of(key); first > 0) {
      return Status::invalid(cat(name, " line ", number, ": ", printable(key),
                                 " is given a second time, after line ", first));
    }
    const std::string_view value = trim(line.substr(colon + 1));
    out.lines_.push_back({std::string(key), std::string(value), std::string(raw)});
  }
  return out;
}

int ConfigFile::line_of(std::string_view key) const {
  const auto it = std::find_if(lines_.begin(), lines_.end(),
                               [key](const Line& line) { return line.key == key; });
  return it == lines_.end() || key.empty() ? 0 : static_cast<int>(it - lines_.begin()) + 1;
}

std::optional<std::string> ConfigFile::get(std::string_view key) const {
  const int line = line_of(key);
  if (line == 0) return std::nullopt;
  return lines_[static_cast<size_t>(line) - 1].value;
}

void ConfigFile::set(std::string_view key, std::string_view value) {
  Line line{std::string(key), std::string(value), line_text(key, value)};
  const int at = line_of(key);
  if (at == 0) {
    lines_.push_back(std::move(line));
  } else if (lines_[static_cast<size_t>(at) - 1].value != value) {
    lines_[static_cast<size_t>(at) - 1] = std::move(line);
  }
}

void ConfigFile::erase(std::string_view key) {
  if (const int at = line_of(key); at > 0) lines_.erase(lines_.begin() + at - 1);
}

std::vector<std::string> ConfigFile::keys() const {
  std::vector<std::string> out;
  for (const Line& line : lines_) {
    if (!line.key.empty()) out.push_back(line.key);
  }
  return out;
}

std::string ConfigFile::text() const {
  std::string out;
  for (const Line& line : lines_) {
    out += line.raw;
    out += '\n';
  }
  return out;
}

Status ConfigFile::save(const std::string& path) const {
  return write_file_atomic(path, text());
}

}  // namespace sf
