// What master and replica say to each other, on the normal port. Every message is a RESP array of
// bulk strings, its first element the word; numbers are decimal text. Either side closes on
// anything else.
//
// The replica says:
//
//   AUTH <password>            only with masterauth; answered by +OK | -ERR ...
//   REPLICATION SYNC <protocol> <run id> <port> full|slots {<slots> <history>|- <seq>}...
//                              answered by hello, or refuse and the end
//   want {<slots> <history>|- <seq>}...   slots added to a session; answered by took, in order
//   fetch <slot>               any number; each is answered by chunks and one copydone, mixed
//                              with those of other slots and with the stream as it comes
//   placed <slots>             they have a position, and `stream` went back for them if it had to
//   stream <history> <seq>     begin there, or go back there: frames under way are thrown
//                              away until one comes from `seq`
//   ack <applied> <synced>     after each frame, and each second at least
//   drop <slots>               followed no more
//
// The master says:
//
//   hello <protocol> <run id> <seq> <time ms> <chain> <keep>|- <copy>|- <shared records>
//   refuse retry|final <text>  and closes
//   took <keep>|- <copy>|-
//   chunk <slot> <family> <entries> <xxh64> <bytes>
//   copydone <slot> <history> <seq> <version> <chunks> <bytes> <entries>
//   frame <from> <to> <time ms> <version> <records>
//   history <id:parent:fork>   before the first batch after its fork
//   reload <from> <seq> <time ms> <slots>   their content is not in the log: fetch them. To a full
//                              replica nothing more is streamed until it says `stream`
//   ping <time ms> <sent>      each second without a frame; time 0: the stream lags
//   getack                     ack when all that is applied now is on disk
//   lost <text>                the log was purged: copy again; closes
//
// `keep`: slots whose position is a prefix of the master's log. `copy`: the others. A chunk is one
// SST file of one column family under the snapshot named by copydone; `xxh64` 16 hex digits over
// its bytes. A frame (from, to] is applied only by a replica that stands at `from`. A ping
// whose `sent` is not where the replica stands shows that the newest frame was lost. A time
// of 0 is not known. `version`:
// above every version counter used up to `to`. `records` (empty: nothing for these slots):
//
//   record = varint seq, varint time ms, varint ops, op...      ascending seq
//   op     = kind (1), family (1), varint length + key, varint length + value     as storage_node
//   WriteOp
//
// A full replica also gets the node records that are shared: as changes of family kRecordFamily in
// the stream, whose keys are names, and with `hello` all of them, {name, value}... as in a record,
// for the case that it copies.
//
// Keys begin with db (1 byte) | slot (2 bytes, big endian); that much this library knows of them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/slots/slot_set.h"
#include "replication/history.h"
#include "replication/slot_positions.h"

namespace sf::wire {

inline constexpr int kProtocol = 2;

inline constexpr uint8_t kRecordFamily = 3;

struct StreamOp {
  uint8_t kind = 0;  // 1 put, 2 delete, 3 delete range [key, value)
  uint8_t family = 0;
  std::string_view key;
  std::string_view value;
};

struct Record {
  uint64_t seq = 0;
  int64_t time_ms = 0;
  std::vector<StreamOp> ops;
};

// ---- replica to master
struct Sync {
  int protocol = kProtocol;
  std::string run_id;
  int port = 0;  // where the replica listens
  bool full = false;
  std::vector<SlotGroup> groups;
};
struct Fetch {
  int slot = 0;
};
struct StreamFrom {
  Position at;
};
struct Ack {
  uint64_t applied = 0;
  uint64_t synced = 0;
};
struct Drop {
  SlotSet slots;
};
struct Want {
  std::vector<SlotGroup> groups;
};
struct Placed {
  SlotSet slots;
};
using FromReplica = std::variant<Sync, Fetch, StreamFrom, Ack, Drop, Want, Placed>;

// ---- master to replica
struct Hello {
  int protocol = kProtocol;
  std::string run_id;
  uint64_t seq = 0;
  HistoryChain chain;
  SlotSet keep;
  SlotSet copy;
  std::string records = {};  // shared ones, for a full replica that copies
  int64_t time_ms = 0;       // the master's clock; holds for what is copied from now on
};
struct Refuse {
  bool retry = true;
  std::string text;
};
struct Chunk {
  int slot = 0;
  uint8_t family = 0;
  uint64_t entries = 0;
  uint64_t checksum = 0;
  std::string_view bytes;
};
struct CopyDone {
  int slot = 0;
  Position at;
  uint64_t version = 0;
  uint64_t chunks = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};
struct Frame {
  uint64_t from = 0;
  uint64_t to = 0;
  int64_t time_ms = 0;
  uint64_t version = 0;
  std::string_view records;
};
struct Reload {
  uint64_t from = 0;
  uint64_t seq = 0;
  int64_t time_ms = 0;
  SlotSet slots;
};
struct NewHistory {
  History history;
};
struct Ping {
  int64_t time_ms = 0;
  uint64_t sent = 0;  // the stream was sent up to here; 0: not streaming, or nothing yet
};
struct Lost {
  std::string text;
};
struct Took {
  SlotSet keep;
  SlotSet copy;
};
struct GetAck {};
using FromMaster = std::variant<Hello, Refuse, Chunk, CopyDone, Frame, Reload, NewHistory, Ping,
                                Lost, Took, GetAck>;

// Append the message. `checksum` of a chunk is computed here.
void encode(std::string& out, const FromReplica& message);
void encode(std::string& out, const FromMaster& message);
void encode_chunk(std::string& out, int slot, uint8_t family, uint64_t entries,
                  std::string_view bytes);

// kCorrupt names the word. Views point into argv. A chunk's checksum is verified.
Result<FromReplica> decode_replica(std::span<const std::string_view> argv);
Result<FromMaster> decode_master(std::span<const std::string_view> argv);

void encode_record(std::string& out, const Record& record);
Result<std::vector<Record>> decode_records(std::string_view records);

// The slot of a stored key; -1 if it is not a data key.
int slot_of_key(std::string_view key);
// The part of `op` that lies in slots for which wanted(slot) is true, appended. A range over
// several slots is clipped to them: a flush there must not empty what is ours here. The clipped
// keys live in `arena`.
struct KeyArena {
  std::vector<std::unique_ptr<std::string>> keys;
};
Status filter_op(const StreamOp& op, const std::function<bool(int)>& wanted, KeyArena& arena,
                 std::vector<StreamOp>* out);

}  // namespace sf::wire
