#include "common/resp/reply_parser.h"

#include <algorithm>
#include <cstring>

#include "common/base/strings.h"
#include "common/resp/number_line.h"

namespace sf {
namespace {

// Length lines ("$11", "*3") hold a number of at most this many bytes.
constexpr size_t kLengthLineMax = 32;

}  // namespace

ReplyParser::Outcome ReplyParser::parse(std::string_view data) {
  if (complete_) reset();
  expected_bytes_ = 0;
  while (!complete_) {
    const Step step = bulk_left_ > 0 ? read_bulk(data) : read_item(data);
    if (step == Step::kBad) return Outcome::kError;
    if (step == Step::kNeedMore) return Outcome::kNeedMore;
  }
  size_ = position_;
  return Outcome::kReply;
}

void ReplyParser::drop_prefix(size_t n) {
  position_ -= n;
  line_scanned_ = line_scanned_ > n ? line_scanned_ - n : 0;
}

ReplyParser::Step ReplyParser::read_bulk(std::string_view data) {
  const size_t here = std::min(bulk_left_, data.size() - position_);
  const size_t left = bulk_left_ - here;
  // The last two of the bulk's bytes must be CRLF; either may be the first one seen in this call.
  if (here > 0 && left == 0 && data[position_ + here - 1] != '\n') return bad("bad bulk end");
  if (left == 0 && here >= 2 && data[position_ + here - 2] != '\r') return bad("bad bulk end");
  if (left == 1 && here >= 1 && data[position_ + here - 1] != '\r') return bad("bad bulk end");
  position_ += here;
  bulk_left_ = left;
  if (left > 0) {
    expected_bytes_ = position_ + left;
    return Step::kNeedMore;
  }
  close_arrays();
  return Step::kDone;
}

ReplyParser::Step ReplyParser::read_item(std::string_view data) {
  if (position_ >= data.size()) return Step::kNeedMore;
  const char type = data[position_];
  long long length = 0;
  size_t next = 0;
  if (type == '$' && resp::read_small_number(data, position_ + 1, &length, &next) &&
      static_cast<size_t>(length) <= limits_.bulk_bytes_max) {
    position_ = next;
    bulk_left_ = static_cast<size_t>(length) + 2;
    return Step::kDone;
  }
  if (type != '+' && type != '-' && type != ':' && type != '$' && type != '*') {
    return bad(cat("bad resp type ", printable(data.substr(position_, 1))));
  }
  const size_t from = std::max(line_scanned_, position_ + 1);
  const void* found =
      from < data.size() ? std::memchr(data.data() + from, '\n', data.size() - from) : nullptr;
  const size_t end = found == nullptr
                         ? data.size()
                         : static_cast<size_t>(static_cast<const char*>(found) - data.data());
  const size_t line_max = type == '$' || type == '*' ? kLengthLineMax : limits_.line_bytes_max;
  if (end - position_ > line_max + 1) return bad("line too long");
  if (found == nullptr) {
    line_scanned_ = data.size();
    return Step::kNeedMore;
  }
  if (data[end - 1] != '\r') return bad("bad line end");
  const std::string_view line = data.substr(position_ + 1, end - position_ - 2);
  position_ = end + 1;
  if (type == '$' || type == '*') return read_length(type, line);
  close_arrays();
  return Step::kDone;
}

ReplyParser::Step ReplyParser::read_length(char type, std::string_view line) {
  const auto length = parse_int64(line);
  if (!length || *length < -1) return bad(type == '$' ? "bad bulk length" : "bad array length");
  if (*length <= 0 && (type == '*' || *length < 0)) {
    close_arrays();
    return Step::kDone;
  }
  const auto size = static_cast<size_t>(*length);
  if (type == '$') {
    if (size > limits_.bulk_bytes_max) return bad("bulk too long");
    bulk_left_ = size + 2;
    return Step::kDone;
  }
  if (size > limits_.elements_max) return bad("array too long");
  if (open_.size() >= limits_.depth_max) return bad("arrays nested too deep");
  open_.push_back(size);
  return Step::kDone;
}

// An element is complete: so are the arrays it was the last one of.
void ReplyParser::close_arrays() {
  while (!open_.empty() && --open_.back() == 0) open_.pop_back();
  complete_ = open_.empty();
}

ReplyParser::Step ReplyParser::bad(std::string error) {
  error_ = std::move(error);
  return Step::kBad;
}

void ReplyParser::reset() {
  position_ = 0;
  line_scanned_ = 0;
  bulk_left_ = 0;
  open_.clear();
  complete_ = false;
}

namespace {

// Reads one item of framed bytes at *at. Depth and lengths were bounded by ReplyParser.
Result<Reply> decode_item(std::string_view bytes, size_t* at) {
  const size_t end = bytes.find("\r\n", *at);
  const char type = bytes[*at];
  const std::string_view line = bytes.substr(*at + 1, end - *at - 1);
  *at = end + 2;
  Reply reply;
  reply.text = line;
  if (type == '+' || type == '-') {
    reply.type = type == '+' ? Reply::Type::kStatus : Reply::Type::kError;
    return reply;
  }
  const auto number = parse_int64(line);
  if (!number) return Status::corrupt(cat("reply: '", printable(line), "' is no number"));
  reply.integer = *number;
  reply.text.clear();
  if (type == ':') {
    reply.type = Reply::Type::kInteger;
  } else if (*number < 0) {
    reply.type = Reply::Type::kNil;
  } else if (type == '$') {
    reply.type = Reply::Type::kBulk;
    reply.text = bytes.substr(*at, static_cast<size_t>(*number));
    *at += static_cast<size_t>(*number) + 2;
    reply.integer = 0;
  } else {
    reply.type = Reply::Type::kArray;
    reply.integer = 0;
    for (int64_t i = 0; i < *number; ++i) {
      auto element = decode_item(bytes, at);
      if (!element) return element.status();
      reply.elements.push_back(std::move(*element));
    }
  }
  return reply;
}

}  // namespace

Result<Reply> decode_reply(std::string_view bytes) {
  ReplyParser parser;
  const auto outcome = parser.parse(bytes);
  if (outcome == ReplyParser::Outcome::kError) return Status::corrupt("reply: " + parser.error());
  if (outcome == ReplyParser::Outcome::kNeedMore || parser.size() != bytes.size()) {
    return Status::corrupt("reply: the bytes are not exactly one reply");
  }
  size_t at = 0;
  return decode_item(bytes, &at);
}

}  // namespace sf
