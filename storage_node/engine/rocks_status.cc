#include "storage_node/engine/rocks_status.h"

#include "common/base/strings.h"

namespace sf {

Status to_status(const rocksdb::Status& status, std::string_view what) {
  if (status.ok()) return Status::ok();
  const std::string text = cat(what, " failed: ", status.ToString());
  if (status.IsNoSpace() || status.subcode() == rocksdb::Status::kNoSpace) {
    return Status::no_space(
        cat("the disk of the data folder is full (", what,
            " failed); free space on it, writes go on by themselves a second later"));
  }
  if (status.IsNotFound()) return Status::not_found(text);
  if (status.IsCorruption()) return Status::corrupt(text);
  return Status::io(text);
}

}  // namespace sf
