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

// What compaction asks about a collection. Thread-safe. nullopt: not known now (keep everything).
struct MetaAnswer {
  bool exists = false;
  MetaPeek meta;
};
using MetaLookup = std::function<std::optional<MetaAnswer>(std::string_view meta_key)>;
using ExpiryClock = std::function<int64_t(int slot)>;

std::shared_ptr<rocksdb::CompactionFilterFactory> make_expire_filter(MetaLookup lookup,
                                                                     ExpiryClock now_ms);

}  // namespace sf
