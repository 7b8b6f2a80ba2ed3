#include "common/net/read_buffer.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"

namespace sf {
namespace {
constexpr size_t kSmall = 4 << 10;  // copied to the shared block before a read, kept when empty
constexpr size_t kMinRoom = 64 << 10;
constexpr size_t kMaxRoom = 1 << 20;
}  // namespace

void ReadBuffer::keep(const char* from, size_t size, size_t capacity) {
  if (capacity > capacity_ || (capacity_ > kSmall && capacity < capacity_)) {
    auto block = std::make_unique_for_overwrite<char[]>(capacity);
    std::memcpy(block.get(), from, size);
    own_ = std::move(block);
    capacity_ = capacity;
  } else if (from != own_.get()) {
    std::memmove(own_.get(), from, size);
  }
  view_ = own_.get();
  size_ = size;
}

ReadBuffer::Room ReadBuffer::prepare(SharedBlock& shared) {
  if (size_ <= kSmall) {
    if (size_ > 0) std::memcpy(shared.data(), view_, size_);
    view_ = shared.data();
    return {shared.data() + size_, SharedBlock::kSize - size_};
  }
  const size_t room = std::clamp(size_, kMinRoom, kMaxRoom);
  size_t offset = static_cast<size_t>(view_ - own_.get());
  if (capacity_ - offset - size_ < room) {
    // Move to the front if that alone makes room for good, else double.
    const bool fits = capacity_ >= size_ + room && offset >= size_;
    keep(view_, size_, fits ? capacity_ : std::max(capacity_ * 2, size_ + room));
    offset = 0;
  }
  char* at = own_.get() + offset + size_;
  return {at, capacity_ - offset - size_};
}

std::string_view ReadBuffer::filled(size_t n) {
  size_ += n;
  return {view_, size_};
}

void ReadBuffer::consumed(size_t n) {
  SF_CHECK(n <= size_);
  const char* rest = view_ + n;
  const size_t left = size_ - n;
  const bool in_own = capacity_ > 0 && view_ >= own_.get() && view_ < own_.get() + capacity_;
  if (left == 0) {
    if (capacity_ > kSmall) {
      own_.reset();
      capacity_ = 0;
    }
    view_ = own_.get();
    size_ = 0;
  } else if (left <= kSmall) {
    keep(rest, left, std::max<size_t>(512, (left + 511) / 512 * 512));
  } else if (in_own) {
    view_ = rest;
    size_ = left;
  } else {
    keep(rest, left, std::max(left * 2, left + kMinRoom));
  }
}

}  // namespace sf
