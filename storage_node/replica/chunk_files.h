// The files of a slot that is being copied here: SST files in <dir>/tmp until they are ingested.
// One thread.
#pragma once

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

  Status add(Cf family, std::string_view bytes);
  const std::vector<std::pair<Cf, std::string>>& files() const { return files_; }
  void clear();  // removes what was not ingested

 private:
  std::string dir_;
  std::string prefix_;
  std::vector<std::pair<Cf, std::string>> files_;
  size_t next_ = 0;
};

}  // namespace sf
