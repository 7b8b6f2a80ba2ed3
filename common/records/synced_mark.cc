#include "common/records/synced_mark.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "common/base/coding.h"
#include "common/base/strings.h"

namespace sf {
namespace {

constexpr size_t kBytes = 16;  // the number, and a checksum of it

std::string text_of(uint64_t value) {
  std::string out;
  put_big64(out, value);
  put_big64(out, XXH64(out.data(), out.size(), 0));
  return out;
}

}  // namespace

SyncedMark::~SyncedMark() {
  if (fd_ >= 0) ::close(fd_);
}

Status SyncedMark::open(const std::string& path, bool read_only) {
  fd_ = ::open(path.c_str(), read_only ? O_RDONLY | O_CLOEXEC : O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (fd_ < 0 && read_only && errno == ENOENT) return Status::ok();
  if (fd_ < 0) return Status::io(cat(path, ": ", std::strerror(errno)));
  char bytes[kBytes];
  if (::pread(fd_, bytes, kBytes, 0) != static_cast<ssize_t>(kBytes)) return Status::ok();
  const uint64_t value = big64(bytes);
  if (text_of(value) == std::string_view(bytes, kBytes)) value_ = value;
  return Status::ok();
}

void SyncedMark::raise(uint64_t value) {
  if (value <= value_) return;
  value_ = value;
  const std::string text = text_of(value);
  [[maybe_unused]] const ssize_t n = ::pwrite(fd_, text.data(), text.size(), 0);
}

}  // namespace sf
