#include "common/net/write_buffer.h"

#include <utility>

namespace sf {
namespace {
constexpr size_t kStart = 4 << 10;
constexpr size_t kMaxSpare = 16;              // strings
constexpr size_t kMaxSpareBytes = 256 << 10;  // each
constexpr size_t kCompactFrom = 64 << 10;
}  // namespace

std::string StringPool::take() {
  std::string out;
  if (spare_.empty()) {
    out.reserve(kStart);
  } else {
    out = std::move(spare_.back());
    spare_.pop_back();
  }
  return out;
}

void StringPool::give(std::string text) {
  if (spare_.size() >= kMaxSpare || text.capacity() > kMaxSpareBytes) {
    return;
  }
  text.clear();
  spare_.push_back(std::move(text));
}

void WriteBuffer::sent(size_t n, StringPool& pool) {
  sent_ += n;
  if (sent_ == text_.size()) {
    if (text_.capacity() > kInline) pool.give(std::exchange(text_, {}));
    sent_ = 0;
  } else if (sent_ >= kCompactFrom && sent_ * 2 >= text_.size()) {
    text_.erase(0, sent_);
    sent_ = 0;
  }
}

}  // namespace sf
