#include "proxy_shim/control/audit_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/base/file.h"
#include "common/base/strings.h"

namespace sf {
namespace {

uint64_t number_of(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  const bool numbered = json.is_object() && json.contains("n") && json["n"].is_number_unsigned();
  return numbered ? json["n"].get<uint64_t>() : 0;
}

}  // namespace

AuditFile::AuditFile(std::string path, Source source)
    : path_(std::move(path)), source_(std::move(source)) {}

AuditFile::~AuditFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status AuditFile::open() {
  fd_ = ::open(path_.c_str(), O_CREAT | O_APPEND | O_RDWR | O_CLOEXEC, 0644);
  if (fd_ < 0) return Status::io(cat(path_, ": ", std::strerror(errno)));
  Status status = find_end();
  return status ? complete() : status;
}

Status AuditFile::find_end() {
  Result<std::string> text = read_file(path_);
  if (!text) return text.status();
  const size_t end = text->rfind('\n');
  if (end == std::string::npos) return Status::ok();
  end_ = static_cast<int64_t>(end) + 1;
  const size_t before = end == 0 ? std::string::npos : text->rfind('\n', end - 1);
  const size_t from = before == std::string::npos ? 0 : before + 1;
  last_ = number_of(std::string_view(*text).substr(from, end - from));
  return Status::ok();
}

Status AuditFile::complete() {
  behind_ = true;
  if (::ftruncate(fd_, end_) != 0) return Status::io(cat(path_, ": ", std::strerror(errno)));
  const std::string missing = source_(last_);
  if (!missing.empty()) {
    if (!write_whole(missing)) return Status::io(cat(path_, ": ", std::strerror(errno)));
    const size_t before = missing.rfind('\n', missing.size() - 2);
    const size_t from = before == std::string::npos ? 0 : before + 1;
    last_ = number_of(std::string_view(missing).substr(from));
  }
  behind_ = false;
  return Status::ok();
}

bool AuditFile::write_whole(const std::string& lines) {
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t n = ::write(fd_, lines.data() + done, lines.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  end_ += static_cast<int64_t>(lines.size());
  return true;
}

void AuditFile::append(uint64_t number, const std::string& line) {
  if (fd_ < 0) return;
  if (behind_) {
    [[maybe_unused]] const Status status = complete();
    return;
  }
  behind_ = !write_whole(line);
  if (!behind_) last_ = number;
}

}  // namespace sf
