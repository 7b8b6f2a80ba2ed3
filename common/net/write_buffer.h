// The not yet sent bytes of one stream. Memory is borrowed from a pool of the loop while there is
// something to send, so an idle stream holds none and a busy one reuses what is warm in the cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sf {

// One thread.
class StringPool {
 public:
  std::string take();
  void give(std::string text);

 private:
  std::vector<std::string> spare_;
};

class WriteBuffer {
 public:
  // Append here.
  std::string& text(StringPool& pool) {
    if (text_.capacity() <= kInline) text_ = pool.take();
    return text_;
  }
  std::string_view unsent() const { return std::string_view(text_).substr(sent_); }
  size_t size() const { return text_.size() - sent_; }
  void sent(size_t n, StringPool& pool);

 private:
  static constexpr size_t kInline = 32;
  std::string text_;
  size_t sent_ = 0;
};

}  // namespace sf
