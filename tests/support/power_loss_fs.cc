#include "tests/support/power_loss_fs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <set>

namespace sf {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

struct PowerLossFs::File {
  std::mutex mutex;
  std::string path;  // where it is now
  std::string bytes;
  size_t durable = 0;  // bytes on the disk; 0 and !on_disk: not even the name
  bool on_disk = false;
  bool deleted = false;
  int writers = 0;
  uint64_t changed_s = 0;

  size_t read(uint64_t offset, size_t n, char* scratch) {
    const std::lock_guard lock(mutex);
    if (offset >= bytes.size()) return 0;
    n = std::min<size_t>(n, bytes.size() - offset);
    std::memcpy(scratch, bytes.data() + offset, n);
    return n;
  }
};

namespace {

std::string tidy(const std::string& path) {
  std::string out;
  for (const char c : path) {
    if (c != '/' || out.empty() || out.back() != '/') out.push_back(c);
  }
  return out;
}

IOStatus failed(const std::string& path) {
  return errno == ENOENT ? IOStatus::PathNotFound(path, std::strerror(errno))
                         : IOStatus::IOError(path, std::strerror(errno));
}

class MemorySequential : public rocksdb::FSSequentialFile {
 public:
  explicit MemorySequential(PowerLossFs::FilePtr file) : file_(std::move(file)) {}
  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    n = file_->read(at_, n, scratch);
    at_ += n;
    *result = Slice(scratch, n);
    return IOStatus::OK();
  }
  IOStatus Skip(uint64_t n) override {
    at_ += n;
    return IOStatus::OK();
  }

 private:
  PowerLossFs::FilePtr file_;
  uint64_t at_ = 0;
};

class MemoryRandom : public rocksdb::FSRandomAccessFile {
 public:
  explicit MemoryRandom(PowerLossFs::FilePtr file) : file_(std::move(file)) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    *result = Slice(scratch, file_->read(offset, n, scratch));
    return IOStatus::OK();
  }
  IOStatus Prefetch(uint64_t, size_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  PowerLossFs::FilePtr file_;
};

}  // namespace

class PowerLossWriter : public rocksdb::FSWritableFile {
 public:
  PowerLossWriter(PowerLossFs& fs, PowerLossFs::FilePtr file) : fs_(fs), file_(std::move(file)) {
    const std::lock_guard lock(file_->mutex);
    ++file_->writers;
  }
  ~PowerLossWriter() override { close(); }
  using rocksdb::FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions&, IODebugContext*) override {
    fs_.append(*file_, data);
    return IOStatus::OK();
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    const std::lock_guard lock(file_->mutex);
    if (size < file_->durable) return IOStatus::NotSupported("truncating synced bytes");
    file_->bytes.resize(size);
    return IOStatus::OK();
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override {
    close();
    return IOStatus::OK();
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override { return fs_.sync(*file_); }
  bool IsSyncThreadSafe() const override { return true; }
  // Starts writing back, promises nothing.
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    const std::lock_guard lock(file_->mutex);
    return file_->bytes.size();
  }

 private:
  void close() {
    if (open_) fs_.closed(*file_);
    open_ = false;
  }
  PowerLossFs& fs_;
  PowerLossFs::FilePtr file_;
  bool open_ = true;
};

PowerLossFs::PowerLossFs(uint64_t seed, int writeback_per_mille)
    : FileSystemWrapper(rocksdb::FileSystem::Default()),
      writeback_per_mille_(static_cast<uint64_t>(writeback_per_mille)),
      random_(seed) {}

PowerLossFs::FilePtr PowerLossFs::find(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto it = files_.find(tidy(path));
  return it == files_.end() ? nullptr : it->second;
}

PowerLossFs::FilePtr PowerLossFs::add(const std::string& path, std::string bytes, size_t durable) {
  auto file = std::make_shared<File>();
  file->path = tidy(path);
  file->bytes = std::move(bytes);
  file->durable = durable;
  file->on_disk = durable > 0;
  file->changed_s = static_cast<uint64_t>(std::time(nullptr));
  const std::lock_guard lock(mutex_);
  files_[file->path] = file;
  return file;
}

IOStatus PowerLossFs::load(const std::string& path, std::string* bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(path);
  char buffer[65536];
  ssize_t n = 0;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0) bytes->append(buffer, static_cast<size_t>(n));
  const IOStatus status = n < 0 ? failed(path) : IOStatus::OK();
  ::close(fd);
  return status;
}

// ---- writing

void PowerLossFs::append(File& file, const Slice& data) {
  bool writeback = false;
  uint64_t share = 0;
  {
    const std::lock_guard lock(mutex_);
    writeback = random_.below(1000) < writeback_per_mille_;
    share = random_.below(1001);
  }
  const std::lock_guard lock(file.mutex);
  file.bytes.append(data.data(), data.size());
  file.changed_s = static_cast<uint64_t>(std::time(nullptr));
  const size_t unsynced = file.bytes.size() - file.durable;
  if (writeback) put_on_disk(file, file.durable + unsynced * share / 1000).PermitUncheckedError();
}

IOStatus PowerLossFs::sync(File& file) {
  const std::lock_guard lock(file.mutex);
  return put_on_disk(file, file.bytes.size());
}

// No fsync: the page cache is what survives here.
IOStatus PowerLossFs::put_on_disk(File& file, size_t upto) {
  if (dead_ || file.deleted || (file.on_disk && upto == file.durable)) return IOStatus::OK();
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (file.on_disk ? O_APPEND : O_TRUNC);
  const int fd = ::open(file.path.c_str(), flags, 0644);
  if (fd < 0) return failed(file.path);
  file.on_disk = true;
  IOStatus status = IOStatus::OK();
  while (file.durable < upto && status.ok()) {
    const ssize_t n = ::write(fd, file.bytes.data() + file.durable, upto - file.durable);
    if (n < 0 && errno != EINTR) {
      status = errno == ENOSPC ? IOStatus::NoSpace(file.path) : failed(file.path);
    }
    if (n > 0) file.durable += static_cast<size_t>(n);
  }
  ::close(fd);
  return status;
}

// What is wholly on the disk, and written by nobody, is an ordinary file.
void PowerLossFs::closed(File& file) {
  const std::lock_guard lock(file.mutex);
  if (--file.writers > 0 || !file.on_disk || file.durable < file.bytes.size()) return;
  const std::lock_guard names(mutex_);
  const auto it = files_.find(file.path);
  if (it != files_.end() && it->second.get() == &file) files_.erase(it);
}

IOStatus PowerLossFs::NewWritableFile(const std::string& path, const FileOptions&,
                                      std::unique_ptr<rocksdb::FSWritableFile>* result,
                                      IODebugContext*) {
  if (FilePtr before = find(path)) {
    const std::lock_guard lock(before->mutex);
    before->deleted = true;
  }
  if (!dead_) ::unlink(path.c_str());
  *result = std::make_unique<PowerLossWriter>(*this, add(path, {}, 0));
  return IOStatus::OK();
}

IOStatus PowerLossFs::ReopenWritableFile(const std::string& path, const FileOptions&,
                                         std::unique_ptr<rocksdb::FSWritableFile>* result,
                                         IODebugContext*) {
  FilePtr file = find(path);
  if (!file) {
    std::string bytes;
    const IOStatus loaded = load(path, &bytes);
    if (!loaded.ok() && !loaded.IsPathNotFound()) return loaded;
    const size_t durable = bytes.size();
    file = add(path, std::move(bytes), durable);
    file->on_disk = loaded.ok();
  }
  *result = std::make_unique<PowerLossWriter>(*this, std::move(file));
  return IOStatus::OK();
}

IOStatus PowerLossFs::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                        const FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* result,
                                        IODebugContext* context) {
  const IOStatus gone = DeleteFile(old_path, IOOptions(), context);
  return gone.ok() ? NewWritableFile(path, options, result, context) : gone;
}

// ---- reading

IOStatus PowerLossFs::NewSequentialFile(const std::string& path, const FileOptions& options,
                                        std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                        IODebugContext* context) {
  FilePtr file = find(path);
  if (!file) return FileSystemWrapper::NewSequentialFile(path, options, result, context);
  *result = std::make_unique<MemorySequential>(std::move(file));
  return IOStatus::OK();
}

IOStatus PowerLossFs::NewRandomAccessFile(const std::string& path, const FileOptions& options,
                                          std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                          IODebugContext* context) {
  FilePtr file = find(path);
  if (!file) return FileSystemWrapper::NewRandomAccessFile(path, options, result, context);
  *result = std::make_unique<MemoryRandom>(std::move(file));
  return IOStatus::OK();
}

IOStatus PowerLossFs::FileExists(const std::string& path, const IOOptions& options,
                                 IODebugContext* context) {
  return find(path) ? IOStatus::OK() : FileSystemWrapper::FileExists(path, options, context);
}

IOStatus PowerLossFs::GetChildren(const std::string& dir, const IOOptions& options,
                                  std::vector<std::string>* names, IODebugContext* context) {
  const IOStatus status = FileSystemWrapper::GetChildren(dir, options, names, context);
  if (!status.ok()) return status;
  std::set<std::string> all(names->begin(), names->end());
  const std::string prefix = tidy(dir + "/");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, file] : files_) {
      if (path.size() <= prefix.size() || path.compare(0, prefix.size(), prefix) != 0) continue;
      const std::string name = path.substr(prefix.size());
      if (name.find('/') == std::string::npos) all.insert(name);
    }
  }
  names->assign(all.begin(), all.end());
  return status;
}

IOStatus PowerLossFs::GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                                std::vector<rocksdb::FileAttributes>* result,
                                                IODebugContext* context) {
  return FileSystem::GetChildrenFileAttributes(dir, options, result, context);
}

IOStatus PowerLossFs::GetFileSize(const std::string& path, const IOOptions& options, uint64_t* size,
                                  IODebugContext* context) {
  const FilePtr file = find(path);
  if (!file) return FileSystemWrapper::GetFileSize(path, options, size, context);
  const std::lock_guard lock(file->mutex);
  *size = file->bytes.size();
  return IOStatus::OK();
}

IOStatus PowerLossFs::GetFileModificationTime(const std::string& path, const IOOptions& options,
                                              uint64_t* seconds, IODebugContext* context) {
  const FilePtr file = find(path);
  if (!file) return FileSystemWrapper::GetFileModificationTime(path, options, seconds, context);
  const std::lock_guard lock(file->mutex);
  *seconds = file->changed_s;
  return IOStatus::OK();
}

// ---- names

IOStatus PowerLossFs::DeleteFile(const std::string& path, const IOOptions& options,
                                 IODebugContext* context) {
  FilePtr file = find(path);
  if (!file) return dead_ ? IOStatus::OK() : FileSystemWrapper::DeleteFile(path, options, context);
  {
    const std::lock_guard lock(mutex_);
    files_.erase(tidy(path));
  }
  const std::lock_guard lock(file->mutex);
  file->deleted = true;
  if (file->on_disk && !dead_ && ::unlink(path.c_str()) != 0) return failed(path);
  return IOStatus::OK();
}

IOStatus PowerLossFs::Truncate(const std::string& path, size_t size, const IOOptions& options,
                               IODebugContext* context) {
  const FilePtr file = find(path);
  if (!file) {
    return dead_ ? IOStatus::OK() : FileSystemWrapper::Truncate(path, size, options, context);
  }
  const std::lock_guard lock(file->mutex);
  if (size < file->durable) return IOStatus::NotSupported("truncating synced bytes");
  file->bytes.resize(size);
  return IOStatus::OK();
}

IOStatus PowerLossFs::RenameFile(const std::string& from, const std::string& to,
                                 const IOOptions& options, IODebugContext* context) {
  const FilePtr file = find(from);
  const FilePtr replaced = find(to);
  if (replaced && replaced != file) {
    const std::lock_guard lock(replaced->mutex);
    replaced->deleted = true;
  }
  if (!file) {
    {
      const std::lock_guard lock(mutex_);
      files_.erase(tidy(to));
    }
    return dead_ ? IOStatus::OK() : FileSystemWrapper::RenameFile(from, to, options, context);
  }
  const std::lock_guard lock(file->mutex);
  if (file->on_disk && !dead_ && ::rename(from.c_str(), to.c_str()) != 0) return failed(from);
  file->path = tidy(to);
  const std::lock_guard names(mutex_);
  files_.erase(tidy(from));
  files_[file->path] = file;
  return IOStatus::OK();
}

IOStatus PowerLossFs::LinkFile(const std::string& from, const std::string& to, const IOOptions&,
                               IODebugContext*) {
  std::string bytes;
  if (const FilePtr file = find(from)) {
    const std::lock_guard lock(file->mutex);
    bytes = file->bytes;
  } else {
    const IOStatus loaded = load(from, &bytes);
    if (!loaded.ok()) return loaded;
  }
  add(to, std::move(bytes), 0);
  return IOStatus::OK();
}

}  // namespace sf
