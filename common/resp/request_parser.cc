#include "common/resp/request_parser.h"

#include <cstring>
#include <limits>

#include "common/base/strings.h"
#include "common/resp/number_line.h"

namespace sf {
namespace {

// Above this many arguments a finished request gives its bookkeeping memory back.
constexpr size_t kKeptSpans = 4096;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

char escaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'b':
      return '\b';
    case 'a':
      return '\a';
    default:
      return c;
  }
}

// "..." at line[*at]; leaves *at behind the closing quote. A closing quote must end the argument.
bool read_double_quoted(std::string_view line, size_t* at, std::string* out) {
  for (size_t i = *at + 1; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      *at = i + 1;
      return *at == line.size() || is_space(line[*at]);
    }
    if (c != '\\' || i + 1 == line.size()) {
      out->push_back(c);
    } else if (line[i + 1] == 'x' && i + 3 < line.size() && hex_digit(line[i + 2]) >= 0 &&
               hex_digit(line[i + 3]) >= 0) {
      out->push_back(static_cast<char>(hex_digit(line[i + 2]) * 16 + hex_digit(line[i + 3])));
      i += 3;
    } else {
      out->push_back(escaped(line[++i]));
    }
  }
  return false;
}

bool read_single_quoted(std::string_view line, size_t* at, std::string* out) {
  for (size_t i = *at + 1; i < line.size(); ++i) {
    if (line[i] == '\'') {
      *at = i + 1;
      return *at == line.size() || is_space(line[*at]);
    }
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '\'') ++i;
    out->push_back(line[i]);
  }
  return false;
}

}  // namespace

RequestParser::Outcome RequestParser::parse(std::string_view data, Request* request) {
  consumed_ = 0;
  for (size_t start = 0; start < data.size(); start = consumed_) {
    const bool multibulk = data[start] == '*';
    const Outcome outcome =
        multibulk ? parse_multibulk(data, start, request) : parse_inline(data, start, request);
    if (outcome != Outcome::kRequest || !request->argv.empty()) return outcome;
  }
  expected_bytes_ = 0;
  return Outcome::kNeedMore;
}

RequestParser::Outcome RequestParser::parse_multibulk(std::string_view data, size_t start,
                                                      Request* request) {
  data.remove_prefix(start);
  Outcome outcome = Outcome::kRequest;
  if (args_left_ < 0) outcome = read_header(data);
  if (outcome == Outcome::kRequest && args_left_ > 0) outcome = read_bulks(data);
  if (outcome != Outcome::kRequest) return outcome;
  request->argv.resize(spans_.size());
  for (size_t i = 0; i < spans_.size(); ++i) {
    request->argv[i] = std::string_view(data.data() + spans_[i].offset, spans_[i].size);
  }
  request->raw = data.substr(0, position_);
  request->is_inline = false;
  consumed_ = start + position_;
  reset();
  return Outcome::kRequest;
}

RequestParser::Line RequestParser::next_line(std::string_view data, std::string_view* line) {
  const size_t from = std::max(line_scanned_, position_);
  const void* found =
      from < data.size() ? std::memchr(data.data() + from, '\n', data.size() - from) : nullptr;
  if (found == nullptr) {
    line_scanned_ = data.size();
    return data.size() - position_ > limits_.inline_bytes_max ? Line::kTooLong : Line::kNeedMore;
  }
  const size_t end = static_cast<size_t>(static_cast<const char*>(found) - data.data());
  *line = data.substr(position_, end - position_);
  if (line->size() > limits_.inline_bytes_max) return Line::kTooLong;
  if (!line->ends_with('\r')) return Line::kBad;
  line->remove_suffix(1);
  position_ = end + 1;
  return Line::kFound;
}

RequestParser::Outcome RequestParser::read_header(std::string_view data) {
  long long count = 0;
  if (!resp::read_small_number(data, 1, &count, &position_)) {
    std::string_view line;
    switch (next_line(data, &line)) {
      case Line::kNeedMore:
        return Outcome::kNeedMore;
      case Line::kTooLong:
        return fail("too big mbulk count string");
      case Line::kBad:
        return fail("invalid multibulk length");
      case Line::kFound:
        break;
    }
    const auto number = parse_int64(line.substr(1));
    if (!number) return fail("invalid multibulk length");
    count = *number;
  }
  if (count > static_cast<long long>(limits_.args_max)) return fail("invalid multibulk length");
  args_left_ = std::max(count, 0LL);
  return Outcome::kRequest;
}

RequestParser::Outcome RequestParser::read_bulks(std::string_view data) {
  while (args_left_ > 0) {
    if (bulk_size_ < 0) {
      if (position_ >= data.size()) return Outcome::kNeedMore;
      if (data[position_] != '$') {
        return fail(cat("expected '$', got '", printable(data.substr(position_, 1)), "'"));
      }
      long long size = 0;
      if (!resp::read_small_number(data, position_ + 1, &size, &position_)) {
        std::string_view line;
        switch (next_line(data, &line)) {
          case Line::kNeedMore:
            return Outcome::kNeedMore;
          case Line::kTooLong:
            return fail("too big bulk count string");
          case Line::kBad:
            return fail("invalid bulk length");
          case Line::kFound:
            break;
        }
        const auto number = parse_int64(line.substr(1));
        if (!number || *number < 0) return fail("invalid bulk length");
        size = *number;
      }
      if (size > static_cast<long long>(limits_.bulk_bytes_max)) return fail("invalid bulk length");
      if (position_ + static_cast<size_t>(size) + 2 > limits_.request_bytes_max) {
        return fail("too big request");
      }
      bulk_size_ = size;
    }
    const size_t end = position_ + static_cast<size_t>(bulk_size_);
    if (data.size() < end + 2) {
      expected_bytes_ = end + 2;
      return Outcome::kNeedMore;
    }
    if (data[end] != '\r' || data[end + 1] != '\n') return fail("expected CRLF after the argument");
    spans_.push_back({position_, static_cast<size_t>(bulk_size_)});
    position_ = end + 2;
    bulk_size_ = -1;
    expected_bytes_ = 0;
    --args_left_;
  }
  return Outcome::kRequest;
}

RequestParser::Outcome RequestParser::parse_inline(std::string_view data, size_t start,
                                                   Request* request) {
  data.remove_prefix(start);
  std::string_view line;
  const Line found = next_line(data, &line);
  if (found == Line::kNeedMore) return Outcome::kNeedMore;
  if (found == Line::kTooLong) return fail("too big inline request");
  const size_t size = line.size() + (found == Line::kFound ? 2 : 1);
  if (!split_inline(line)) return fail("unbalanced quotes in request");
  request->argv.assign(unquoted_.begin(), unquoted_.end());
  request->raw = data.substr(0, size);
  request->is_inline = true;
  consumed_ = start + size;
  reset();
  return Outcome::kRequest;
}

// Redis's rules (sdssplitargs): blanks separate; "..." with \n \r \t \b \a \xHH, '...' with \'.
bool RequestParser::split_inline(std::string_view line) {
  unquoted_.clear();
  size_t at = 0;
  while (true) {
    while (at < line.size() && is_space(line[at])) ++at;
    if (at == line.size()) return true;
    std::string& arg = unquoted_.emplace_back();
    while (at < line.size() && !is_space(line[at])) {
      if (line[at] == '"') {
        if (!read_double_quoted(line, &at, &arg)) return false;
      } else if (line[at] == '\'') {
        if (!read_single_quoted(line, &at, &arg)) return false;
      } else {
        arg.push_back(line[at++]);
      }
    }
  }
}

RequestParser::Outcome RequestParser::fail(std::string error) {
  error_ = std::move(error);
  return Outcome::kError;
}

void RequestParser::reset() {
  position_ = 0;
  line_scanned_ = 0;
  args_left_ = -1;
  bulk_size_ = -1;
  expected_bytes_ = 0;
  spans_.clear();
  if (spans_.capacity() > kKeptSpans) std::vector<Span>().swap(spans_);
}

}  // namespace sf
