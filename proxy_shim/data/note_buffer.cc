#include "proxy_shim/data/note_buffer.h"

#include "common/base/coding.h"

namespace sf {

namespace {
constexpr size_t kHead = 3;  // slot and db
}  // namespace

void NoteBuffer::note(int slot, int db, std::string_view key) {
  scratch_.clear();
  put_big16(scratch_, static_cast<uint16_t>(slot));
  scratch_.push_back(static_cast<char>(db));
  scratch_.append(key);
  if (keys_.contains(std::string_view(scratch_))) return;
  if (keys_.size() >= keys_max_ || bytes_ + scratch_.size() > bytes_max_) {
    overflowed_ = true;
    return;
  }
  bytes_ += scratch_.size();
  keys_.insert(scratch_);
}

void NoteBuffer::pack(std::string& to, int slot, std::string_view key) {
  put_big16(to, static_cast<uint16_t>(slot));
  put_big32(to, static_cast<uint32_t>(key.size()));
  to.append(key);
}

void NoteBuffer::unanswered(const Pending& record) {
  if (!record.has_keys || record.side != Side::kOld) return;
  std::string_view left = record.bytes;
  while (left.size() >= 6) {
    const int slot = big16(left.data());
    const size_t size = big32(left.data() + 2);
    note(slot, record.db, left.substr(6, size));
    left.remove_prefix(6 + size);
  }
}

KeyNotes NoteBuffer::take() {
  KeyNotes out;
  out.overflowed = std::exchange(overflowed_, false);
  out.keys.reserve(keys_.size());
  for (const std::string& one : keys_) {
    out.keys.push_back({big16(one.data()), static_cast<uint8_t>(one[2]), one.substr(kHead)});
  }
  keys_.clear();
  bytes_ = 0;
  return out;
}

}  // namespace sf
