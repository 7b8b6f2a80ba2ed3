// The files of slots that are being copied here: SST files in <dir>/tmp until they are ingested.
// One thread; the files of a slot that take() gave away may be used on another.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "storage_node/engine/key_format.h"

namespace sf {

class ChunkFiles {
 public:
  // `name` keeps links apart. Left-overs of an earlier life are removed.
  ChunkFiles(const std::string& data_dir, const std::string& name);
  ~ChunkFiles() { clear(); }

  Status add(int slot, Cf family, std::string_view bytes);
  using Files = std::vector<std::pair<Cf, std::string>>;
  Files take(int slot);  // in the order they came; the caller removes what is left of them
  void clear(int slot);
  void clear();
  static void remove(const Files& files);

 private:
  std::string dir_;
  std::string prefix_;
  std::map<int, Files> files_;
  size_t next_ = 0;
};

}  // namespace sf
