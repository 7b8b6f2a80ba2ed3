// Finds the end of the next server reply in a byte buffer, without building a tree (data path), and
// a tree form for the control plane and tests. RESP2 only: other type bytes are errors, as
// codis-proxy has it (contracts/codis 1.4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace sf {

struct ReplyLimits {
  size_t bulk_bytes_max = 512 * 1024 * 1024;
  size_t elements_max = 1024 * 1024;  // of one array
  size_t depth_max = 32;
  size_t line_bytes_max = 64 * 1024;  // status, error and number lines
};

class ReplyParser {
 public:
  enum class Outcome { kReply, kNeedMore, kError };

  explicit ReplyParser(ReplyLimits limits = {}) : limits_(limits) {}

  // `data` begins with the first byte of a reply. Remembers how far it got (see RequestParser).
  // After kReply the reply is data.substr(0, size()).
  Outcome parse(std::string_view data);
  size_t size() const { return size_; }
  const std::string& error() const { return error_; }
  // Length scanned so far of an unfinished reply: these bytes are known to belong to it and may be
  // passed on and consumed, if the caller then calls drop_prefix(n).
  size_t scanned() const { return position_; }
  void drop_prefix(size_t n);
  size_t expected_bytes() const { return expected_bytes_; }

 private:
  enum class Step { kDone, kNeedMore, kBad };
  Step read_bulk(std::string_view data);
  Step read_item(std::string_view data);
  Step read_length(char type, std::string_view line);
  Step bad(std::string error);
  void close_arrays();
  void reset();

  ReplyLimits limits_;
  size_t position_ = 0;
  size_t line_scanned_ = 0;  // no line end before this offset
  bool complete_ = false;
  size_t bulk_left_ = 0;      // bytes of the current bulk (with CRLF) not yet seen
  std::vector<size_t> open_;  // elements left of each open array
  size_t size_ = 0;
  size_t expected_bytes_ = 0;
  std::string error_;
};

// A reply as a tree. Control plane and tests only.
struct Reply {
  enum class Type { kStatus, kError, kInteger, kBulk, kNil, kArray };
  Type type = Type::kNil;
  std::string text;  // status, error (without the sign), bulk
  int64_t integer = 0;
  std::vector<Reply> elements;

  bool is_error() const { return type == Type::kError; }
  bool is_ok() const { return type == Type::kStatus && text == "OK"; }
};

// `bytes` must be exactly one reply, as framed by ReplyParser.
Result<Reply> decode_reply(std::string_view bytes);

}  // namespace sf
