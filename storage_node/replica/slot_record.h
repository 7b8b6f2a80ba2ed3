// What a node remembers of one slot (kSys), and the names of replica/'s records:
//
//   repl/history/<10 digits>   one history of this node's log (replication/history.h), oldest first
//   repl/slot/<4 digits>       SlotRecord; absent: an ordinary slot
//   repl/epoch/<4 digits>      highest epoch seen, a plan
//   repl/stream/<host:port>    position of the joined stream from that master
//   repl/ahead/<4 digits>      position of a followed slot that is not the stream's; wins over it
//   repl/full                  master of a full replica, and whether its log is the master's yet
//   repl/decided               SLAVEOF was said once: the setting `slaveof` counts no more
//   repl/floor                 replicas below this position cannot be fed from the log here
//
//   shared/slot/<4 digits>     what full replicas of this node have to know of a slot: its
//   permanent
//                              fence, mark and last promote, not whom it follows (then no mark)
//   shared/epoch/<4 digits>    as repl/epoch
//
// Values are versioned byte strings (common/base/coding). Not replicated, but for the shared ones:
// a change of them is an entry of the log. On a full replica they are the master's, as of its own
// position; when it becomes a master, its slots' records are made from them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"
#include "replication/history.h"
#include "storage_node/engine/engine.h"

namespace sf {

struct SlotRecord {
  bool followed = false;
  HostPort master;      // of a followed slot
  bool placed = false;  // followed: it was copied, or follows from an exact position
  bool fenced = false;  // permanently, until UNFENCE or a copy, whether it follows or not
  std::string fence_plan;
  uint64_t fence_epoch = 0;
  std::string new_owner;  // host:port
  // The slot took no write of this node's own clients while its slot_seq is at most this.
  std::optional<uint64_t> mark;
  // Where it stood in its master's history when NO ONE took it out: what it holds while the mark
  // is true, and so where it follows from, whatever position is named. No history: not known.
  Position left;
  // The last PROMOTE, for its repetition.
  std::string promote_plan;
  uint64_t promote_epoch = 0;
  uint64_t promote_applied = 0;
  Position promote_own;

  bool ordinary() const { return !followed && !fenced && !mark && promote_plan.empty(); }
};

std::string encode_slot_record(const SlotRecord& record);
Result<SlotRecord> decode_slot_record(std::string_view bytes);

std::string encode_epochs(const std::map<std::string, uint64_t>& epochs);
Result<std::map<std::string, uint64_t>> decode_epochs(std::string_view bytes);

std::string encode_position(const Position& position);
Result<Position> decode_position(std::string_view bytes);

struct FullRecord {
  HostPort master;
  bool mirror = true;  // the log here is the master's; false: a first copy is under way
};
std::string encode_full(const FullRecord& record);
Result<FullRecord> decode_full(std::string_view bytes);

inline constexpr std::string_view kHistoryRecords = "repl/history/";
inline constexpr std::string_view kSlotRecords = "repl/slot/";
inline constexpr std::string_view kEpochRecords = "repl/epoch/";
inline constexpr std::string_view kSharedSlots = "shared/slot/";
inline constexpr std::string_view kSharedEpochs = "shared/epoch/";
inline constexpr std::string_view kStreamRecords = "repl/stream/";
inline constexpr std::string_view kAheadRecords = "repl/ahead/";
inline constexpr std::string_view kFullRecord = "repl/full";
inline constexpr std::string_view kDecidedRecord = "repl/decided";
inline constexpr std::string_view kFloorRecord = "repl/floor";

int slot_of_name(std::string_view name, std::string_view prefix);
std::string numbered(std::string_view prefix, uint64_t number, int digits);
inline std::string slot_record_name(int slot) {
  return numbered(kSlotRecords, static_cast<uint64_t>(slot), 4);
}
inline std::string epoch_record_name(int slot) {
  return numbered(kEpochRecords, static_cast<uint64_t>(slot), 4);
}
// The slot's own record, and the shared one made from it.
void put_slot_record(int slot, const SlotRecord& record, SysRecords& records);
void put_epochs(int slot, const std::map<std::string, uint64_t>& epochs, SysRecords& records);
inline std::string ahead_record_name(int slot) {
  return numbered(kAheadRecords, static_cast<uint64_t>(slot), 4);
}
inline std::string stream_record_name(const HostPort& master) {
  return std::string(kStreamRecords) + master.text();
}

}  // namespace sf
