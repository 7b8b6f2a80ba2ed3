// The received and not yet consumed bytes of one stream, in one piece.
//
// An idle stream must cost next to nothing, and a busy one must not copy: a read goes into a block
// shared by all streams of a loop, behind the few bytes left over from before; only what the
// handler leaves is kept, in memory of the stream's own. Once much is left (a big value on its
// way), reads go there directly, into a block that doubles.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace sf {

// The loop's block. One thread.
class SharedBlock {
 public:
  static constexpr size_t kSize = 256 << 10;
  SharedBlock() : data_(std::make_unique_for_overwrite<char[]>(kSize)) {}
  char* data() { return data_.get(); }

 private:
  std::unique_ptr<char[]> data_;
};

class ReadBuffer {
 public:
  // Where to read to: at least 64 KiB of room. Valid until the next call of any kind.
  struct Room {
    char* at;
    size_t size;
  };
  Room prepare(SharedBlock& shared);
  // `n` bytes were read to the room. All unread bytes; valid until consumed() or prepare().
  std::string_view filled(size_t n);
  std::string_view unread() const { return {view_, size_}; }
  // The first `n` bytes of unread() are done with; the rest is moved to memory of its own. Called
  // after every prepare(), whatever came of the read.
  void consumed(size_t n);
  size_t size() const { return size_; }

 private:
  void keep(const char* from, size_t size, size_t capacity);

  std::unique_ptr<char[]> own_;
  size_t capacity_ = 0;
  const char* view_ = nullptr;  // into own_ or the shared block
  size_t size_ = 0;
};

}  // namespace sf
