#include "common/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "common/base/strings.h"

namespace sf {
namespace {

constexpr mode_t kNewFileMode = 0600;  // configuration and state hold passwords

Status file_error(std::string_view what, const std::string& path, int error) {
  const std::string text = cat("cannot ", what, " ", path, ": ",
                               std::error_code(error, std::generic_category()).message());
  if (error == ENOENT) return Status::not_found(text);
  if (error == ENOSPC || error == EDQUOT) return Status::no_space(text);
  return Status::io(text);
}

// Owns a descriptor for the length of a block.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

Status write_synced(const std::string& path, std::string_view text, mode_t mode) {
  const Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd.valid()) return file_error("create", path, errno);
  if (!write_all(fd.get(), text)) return file_error("write", path, errno);
  if (::fchmod(fd.get(), mode) != 0) return file_error("set the mode of", path, errno);
  if (::fsync(fd.get()) != 0) return file_error("sync", path, errno);
  return Status::ok();
}

Status sync_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? std::string(".") : parent.string();
  const Descriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return file_error("open", folder, errno);
  if (::fsync(fd.get()) != 0) return file_error("sync", folder, errno);
  return Status::ok();
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return file_error("open", path, errno);
  std::string out;
  char buf[64 << 10];
  while (true) {
    const ssize_t n = ::read(fd.get(), buf, sizeof(buf));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error("read", path, errno);
    if (n == 0) return out;
    out.append(buf, static_cast<size_t>(n));
  }
}

Status write_file_atomic(const std::string& path, std::string_view text) {
  struct stat old {};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 07777 : kNewFileMode;
  const std::string temporary = path + ".tmp";
  const Status written = write_synced(temporary, text, mode);
  if (!written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return file_error("replace", path, error);
  }
  return sync_folder_of(path);
}

Status make_dirs(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return file_error("make the folder", path, error.value());
  return Status::ok();
}

Result<int64_t> free_bytes(const std::string& path) {
  struct statvfs space {};
  if (::statvfs(path.c_str(), &space) != 0) return file_error("ask the space of", path, errno);
  return static_cast<int64_t>(space.f_bavail) * static_cast<int64_t>(space.f_frsize);
}

}  // namespace sf
