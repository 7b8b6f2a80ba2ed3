// The one place where RocksDB's errors become ours.
#pragma once

#include <rocksdb/status.h>

#include <string_view>

#include "common/base/status.h"

namespace sf {

// `what` names the operation ("writing", "reading"). No space, damage and I/O keep their kinds.
Status to_status(const rocksdb::Status& status, std::string_view what);

}  // namespace sf
