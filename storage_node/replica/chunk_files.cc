#include "storage_node/replica/chunk_files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/base/file.h"
#include "common/base/strings.h"

namespace sf {

ChunkFiles::ChunkFiles(const std::string& data_dir, const std::string& name)
    : dir_(data_dir + "/tmp"), prefix_("copy-" + name + "-") {
  std::replace(prefix_.begin(), prefix_.end(), ':', '_');
  std::replace(prefix_.begin(), prefix_.end(), '/', '_');
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(dir_, error)) {
    if (entry.path().filename().string().starts_with(prefix_)) {
      std::filesystem::remove(entry.path(), error);
    }
  }
}

Status ChunkFiles::add(int slot, Cf family, std::string_view bytes) {
  if (Status s = make_dirs(dir_); !s) return s;
  std::string path = cat(dir_, "/", prefix_, next_++, ".sst");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return Status::io(cat("cannot write ", path, ": ", std::strerror(errno)));
  files_[slot].emplace_back(family, path);
  size_t written = std::fwrite(bytes.data(), 1, bytes.size(), file);
  int error = errno;
  if (std::fclose(file) != 0 || written != bytes.size()) {
    return Status::io(cat("cannot write ", path, ": ", std::strerror(error != 0 ? error : errno),
                          "; free space on the disk"));
  }
  return Status::ok();
}

ChunkFiles::Files ChunkFiles::take(int slot) {
  auto it = files_.find(slot);
  if (it == files_.end()) return {};
  Files out = std::move(it->second);
  files_.erase(it);
  return out;
}

void ChunkFiles::clear(int slot) {
  remove(take(slot));
}

void ChunkFiles::clear() {
  for (const auto& [slot, files] : files_) remove(files);
  files_.clear();
}

void ChunkFiles::remove(const Files& files) {
  std::error_code error;
  for (const auto& [family, path] : files) std::filesystem::remove(path, error);
}

}  // namespace sf
