// What a batch in RocksDB's WAL says about itself, as log data (WriteBatch::PutLogData):
//
//   'F' | format 1 (1) | kind (1) | seq (8, big endian) | time_ms (8) | slots text (kReload only)
//
// Batches without it (records of the node alone) are no log entries.
#pragma once

#include <rocksdb/write_batch.h>

#include <string>
#include <string_view>

#include "storage_node/engine/engine.h"

namespace sf {

std::string encode_log_data(uint64_t seq, int64_t time_ms, LogEntry::Kind kind,
                            const SlotSet& slots);

enum class DecodeWhat { kHeader, kAll };
// The entry in a WAL batch; kNotFound: it is none. kCorrupt: unreadable. Changes of kSys are left
// out but for the shared ones. kHeader leaves `ops` null.
Result<LogEntry> decode_batch(const rocksdb::WriteBatch& batch, DecodeWhat what);

}  // namespace sf
