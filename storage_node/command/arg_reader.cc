#include "storage_node/command/arg_reader.h"

#include "common/base/strings.h"
#include "storage_node/types/number.h"

namespace sf {

std::string_view ArgReader::next() {
  if (!ok()) return {};
  if (done()) {
    fail(kSyntaxError);
    return {};
  }
  return argv_[at_++];
}

int64_t ArgReader::next_int(std::string_view error) {
  std::string_view text = next();
  if (!ok()) return 0;
  auto value = parse_int64(text);
  if (!value) fail(error);
  return value.value_or(0);
}

int64_t ArgReader::next_int_in(int64_t low, int64_t high, std::string_view range_error) {
  int64_t value = next_int();
  if (!ok()) return low;
  if (value >= low && value <= high) return value;
  fail(range_error);
  return low;
}

int64_t ArgReader::next_count(std::string_view error) {
  int64_t value = next_int(error);
  if (value < 0) fail(error);
  return ok() ? value : 0;
}

double ArgReader::next_double(std::string_view error) {
  std::string_view text = next();
  if (!ok()) return 0;
  auto value = parse_double(text);
  if (!value) fail(error);
  return value.value_or(0);
}

bool ArgReader::keyword(std::string_view word, size_t values) {
  if (!ok() || left() < values + 1 || !equals_ignore_case(argv_[at_], word)) return false;
  ++at_;
  return true;
}

std::span<const std::string_view> ArgReader::rest() {
  return take(left());
}

std::span<const std::string_view> ArgReader::take(size_t count) {
  if (!ok()) return {};
  if (count > left()) {
    fail(kSyntaxError);
    return {};
  }
  auto taken = argv_.subspan(at_, count);
  at_ += count;
  return taken;
}

void ArgReader::fail(std::string_view error) {
  if (ok()) error_ = error;
}

bool ArgReader::finish() {
  if (ok() && !done()) fail(kSyntaxError);
  return ok();
}

}  // namespace sf
