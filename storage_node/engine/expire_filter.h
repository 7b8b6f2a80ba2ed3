// Drops, in compaction, the entries of collections that no longer exist: their meta is gone, has
// another version, or expired more than an hour ago. Metas themselves are never dropped here: that
// would bypass the key counts and the log; the expiry task deletes them.
#pragma once

#include <rocksdb/compaction_filter.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "storage_node/engine/meta_peek.h"

namespace sf {

// What one compaction asks about collections: metas as they were at its start.
class MetaSource {
 public:
  virtual ~MetaSource() = default;
  struct Answer {
    bool exists = false;
    MetaPeek meta;
  };
  // nullopt: not to be said now (keep everything).
  virtual std::optional<Answer> find(std::string_view meta_key) = 0;
  virtual int64_t expiry_now_ms(int slot) = 0;
};

// `open` is called at the start of each compaction, on its thread.
std::shared_ptr<rocksdb::CompactionFilterFactory> make_expire_filter(
    std::function<std::unique_ptr<MetaSource>()> open);

}  // namespace sf
