// The keys of one worker for the heal list (DESIGN 6.4), each once, until control takes them.
// Bounded in number and bytes; over it nothing is forgotten in silence. The worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "proxy_shim/data/data_plane.h"
#include "proxy_shim/data/pending.h"

namespace sf {

class NoteBuffer {
 public:
  NoteBuffer(size_t keys_max, size_t bytes_max) : keys_max_(keys_max), bytes_max_(bytes_max) {}

  void note(int slot, int db, std::string_view key);
  // The keys of a write whose answer will not come, if it has them.
  void unanswered(const Pending& record);
  KeyNotes take();

  // Appends a key to those of a record: slot, length, bytes.
  static void pack(std::string& to, int slot, std::string_view key);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  const size_t keys_max_;
  const size_t bytes_max_;
  std::unordered_set<std::string, Hash, std::equal_to<>> keys_;  // slot (2, big), db, key
  size_t bytes_ = 0;
  bool overflowed_ = false;
  std::string scratch_;
};

}  // namespace sf
