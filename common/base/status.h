// Errors are values. Status says what went wrong and, in its text, what to do about it; Result<T> is
// a value or a Status. Nothing on the data plane throws.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sf {

enum class Code {
  kOk,
  kInvalid,      // the caller's input is wrong; nothing was changed
  kNotFound,     // the thing named does not exist
  kExists,       // the thing named exists already
  kRefused,      // understood, and not allowed in the present state
  kUnavailable,  // peer or resource not there now; trying again may help
  kTimeout,      // no answer in time; the effect is unknown
  kCorrupt,      // stored or received bytes are damaged
  kIo,           // the operating system refused a file or socket operation
  kNoSpace,      // disk full, or a stated limit reached
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  static Status ok() { return {}; }
  static Status invalid(std::string text) { return {Code::kInvalid, std::move(text)}; }
  static Status not_found(std::string text) { return {Code::kNotFound, std::move(text)}; }
  static Status exists(std::string text) { return {Code::kExists, std::move(text)}; }
  static Status refused(std::string text) { return {Code::kRefused, std::move(text)}; }
  static Status unavailable(std::string text) { return {Code::kUnavailable, std::move(text)}; }
  static Status timeout(std::string text) { return {Code::kTimeout, std::move(text)}; }
  static Status corrupt(std::string text) { return {Code::kCorrupt, std::move(text)}; }
  static Status io(std::string text) { return {Code::kIo, std::move(text)}; }
  static Status no_space(std::string text) { return {Code::kNoSpace, std::move(text)}; }

  bool is_ok() const { return code_ == Code::kOk; }
  explicit operator bool() const { return is_ok(); }
  Code code() const { return code_; }
  const std::string& text() const { return text_; }

  // The same error with `where: ` put in front of its text.
  Status with_context(std::string_view where) const {
    return is_ok() ? *this : Status(code_, std::string(where) + ": " + text_);
  }

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}              // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}      // NOLINT: implicit by design

  bool is_ok() const { return value_.has_value(); }
  explicit operator bool() const { return is_ok(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace sf
