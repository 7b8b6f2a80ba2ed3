// A typed cursor over a command's arguments with one error exit: read everything, then look at
// ok(). After the first error every read gives an empty value and the error stays.
//
//   ArgReader args(ctx.argv);
//   auto key = args.next();
//   int64_t count = args.next_int();
//   if (args.keyword("WITHSCORES")) ...
//   if (!args.finish()) return reply_error(ctx.out, args.error());
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace sf {

inline constexpr std::string_view kSyntaxError = "ERR syntax error";
inline constexpr std::string_view kNotInteger = "ERR value is not an integer or out of range";
inline constexpr std::string_view kNotFloat = "ERR value is not a valid float";
inline constexpr std::string_view kMustBePositive = "ERR value is out of range, must be positive";

class ArgReader {
 public:
  explicit ArgReader(std::span<const std::string_view> argv, size_t at = 1)
      : argv_(argv), at_(at) {}

  bool done() const { return at_ >= argv_.size(); }
  size_t left() const { return done() ? 0 : argv_.size() - at_; }

  std::string_view next();  // error kSyntaxError if there is none
  int64_t next_int(std::string_view error = kNotInteger);
  // kNotInteger if it is no integer, `range_error` if it is outside [low, high].
  int64_t next_int_in(int64_t low, int64_t high, std::string_view range_error);
  // A count, 0 or more: kMustBePositive for anything else, as SPOP and LPOP say it.
  int64_t next_count(std::string_view error = kMustBePositive);
  double next_double(std::string_view error = kNotFloat);

  // Consumes the next argument if it is this word, in any case, and `values` more follow it.
  bool keyword(std::string_view word, size_t values = 0);
  std::string_view peek() const { return done() ? std::string_view() : argv_[at_]; }
  // All that is left, consumed.
  std::span<const std::string_view> rest();
  // The next `count` arguments, consumed; kSyntaxError if they are fewer.
  std::span<const std::string_view> take(size_t count);

  void fail(std::string_view error);  // the first error stays
  bool ok() const { return error_.empty(); }
  // ok(), and nothing is left (else kSyntaxError).
  bool finish();
  const std::string& error() const { return error_; }  // a whole RESP error text

 private:
  std::span<const std::string_view> argv_;
  size_t at_;
  std::string error_;
};

}  // namespace sf
