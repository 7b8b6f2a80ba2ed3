// Finds the next client request (RESP2 array of bulks, or an inline line) in a byte buffer, without
// copying. https://redis.io/docs/reference/protocol-spec/ and Redis 7.0's networking.c for limits
// and error texts (cases P01-P10).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace sf {

struct RequestLimits {
  size_t args_max = 1024 * 1024;              // arguments in one request
  size_t bulk_bytes_max = 512 * 1024 * 1024;  // one argument
  size_t inline_bytes_max = 64 * 1024;        // one inline line
  size_t request_bytes_max = 1024UL * 1024 * 1024;
};

// One request. Views point into the buffer given to parse(), or, for an inline request with quotes,
// into the parser; valid until the buffer changes or parse() is called again.
struct Request {
  std::vector<std::string_view> argv;  // never empty
  std::string_view raw;                // the bytes as they came, the whole request
  bool is_inline = false;              // raw is not RESP: a forwarder must encode argv
};

class RequestParser {
 public:
  enum class Outcome {
    kRequest,   // *request is set; consume consumed() bytes: request->raw and what was skipped
                // before it
    kNeedMore,  // consume consumed() bytes (what was skipped); call again when there is more
    kError,     // protocol error: answer "-ERR Protocol error: <error()>" and close
  };

  explicit RequestParser(RequestLimits limits = {}) : limits_(limits) {}

  // `data` begins with the first byte not consumed. The parser remembers how far it got, so a
  // request that arrives in pieces is not scanned again; the buffer may move between calls. After
  // kRequest the caller consumes consumed() bytes.
  Outcome parse(std::string_view data, Request* request);

  // Bytes to consume: empty lines and empty arrays ("*0", "*-1") skipped, plus the request if one
  // was found.
  size_t consumed() const { return consumed_; }
  const std::string& error() const { return error_; }
  // Bytes that the unfinished request is known to need in all, 0 if unknown: lets a reader reserve.
  size_t expected_bytes() const { return expected_bytes_; }

 private:
  struct Span {
    size_t offset;
    size_t size;
  };
  Outcome parse_multibulk(std::string_view data, size_t start, Request* request);
  Outcome parse_inline(std::string_view data, size_t start, Request* request);
  enum class Line { kFound, kNeedMore, kBad, kTooLong };
  Line next_line(std::string_view data, std::string_view* line);
  Outcome read_header(std::string_view data);
  Outcome read_bulks(std::string_view data);
  bool split_inline(std::string_view line);
  Outcome fail(std::string error);
  void reset();

  RequestLimits limits_;
  // Progress within the unfinished request, offsets from the first unconsumed byte.
  size_t position_ = 0;
  size_t line_scanned_ = 0;   // no line end before this offset
  long long args_left_ = -1;  // -1: header not read yet
  long long bulk_size_ = -1;  // -1: bulk header not read yet
  std::vector<Span> spans_;
  std::vector<std::string> unquoted_;  // arguments of an inline request
  size_t consumed_ = 0;
  size_t expected_bytes_ = 0;
  std::string error_;
};

}  // namespace sf
