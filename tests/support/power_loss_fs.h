// A file system for RocksDB on which kill -9 is a power loss: what was appended and not yet synced
// exists in this process's memory only. Reads through this object see it; the disk does not.
//
// - A file that was never synced is not on the disk at all.
// - As the kernel may, it writes back some unsynced bytes on its own: a random prefix, so that what
//   is left can end in the middle of a record (`writeback_per_mille` of the appends).
// - Links to files it did not write (an ingest) count as unsynced from their first byte on.
// - Renames and deletions last at once: losing those is not modelled.
//
// Thread-safe. Files still open for writing or not synced are held in memory whole.
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/random.h"

namespace sf {

class PowerLossFs : public rocksdb::FileSystemWrapper {
 public:
  // One file: all its bytes, and how many of them are on the disk.
  struct File;
  using FilePtr = std::shared_ptr<File>;

  explicit PowerLossFs(uint64_t seed, int writeback_per_mille = 10);
  const char* Name() const override { return "PowerLossFs"; }

  // In a test's own process, where nobody is killed: from here on nothing reaches the disk, and
  // everything claims to succeed.
  void lose_power() { dead_ = true; }

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* result,
                                       rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* result,
                                      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus FileExists(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus GetChildren(const std::string& dir, const rocksdb::IOOptions& options,
                                std::vector<std::string>* names,
                                rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus GetChildrenFileAttributes(const std::string& dir,
                                              const rocksdb::IOOptions& options,
                                              std::vector<rocksdb::FileAttributes>* result,
                                              rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus Truncate(const std::string& path, size_t size,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus GetFileSize(const std::string& path, const rocksdb::IOOptions& options,
                                uint64_t* size, rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus GetFileModificationTime(const std::string& path,
                                            const rocksdb::IOOptions& options, uint64_t* seconds,
                                            rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to,
                             const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override;

 private:
  friend class PowerLossWriter;
  FilePtr find(const std::string& path);
  FilePtr add(const std::string& path, std::string bytes, size_t durable);
  rocksdb::IOStatus load(const std::string& path, std::string* bytes);
  void append(File& file, const rocksdb::Slice& data);
  rocksdb::IOStatus sync(File& file);
  rocksdb::IOStatus put_on_disk(File& file, size_t upto);  // file.mutex held
  void closed(File& file);

  std::atomic<bool> dead_{false};
  const uint64_t writeback_per_mille_;
  std::mutex mutex_;  // files_, random_; may be taken inside a file's mutex, never around one
  std::map<std::string, FilePtr> files_;
  Random random_;
};

}  // namespace sf
