// What a Pika server says about itself, parsed and never guessed: INFO server and INFO replication
// (3.2 to 4.0, classic mode) and PKCLUSTER INFO (3.2-3.4, sharding mode). A text that cannot be
// understood is an error that names the field (cases R01, R02); what is not said is absent, not
// zero. Samples recorded from real servers are in tests/golden/pika.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace sf {

// A place in a binlog: file number and the end offset of an item in it. Comparable only between
// servers of one ReplicationID and equal binlog-file-size (R01).
struct BinlogOffset {
  uint32_t file = 0;
  uint64_t offset = 0;
  auto operator<=>(const BinlogOffset&) const = default;
  std::string text() const { return cat(file, ":", offset); }
  // One number, ordered as the offsets are.
  uint64_t packed() const { return static_cast<uint64_t>(file) << 40 | offset; }
};

// Of a replica towards its master. kCopying: a full copy runs or is about to.
enum class PikaLink { kNone, kUp, kDown, kCopying };
const char* pika_link_text(PikaLink link);  // "none", "up", "down", "copying"

struct PikaServer {
  std::string version;  // "3.5.5"
  int major = 0;
  int minor = 0;
  int port = 0;
  int sync_threads = 0;  // workers that apply the binlog on a replica
  std::string run_id;    // as said; "" where the version has none (before 3.5)
  // Of this process: "<run id> pid <n>", or "pid <n>". The run id alone is kept in the file of
  // settings and is the same after a kill and a start (seen with 3.5.5 and 4.0.1).
  std::string process;
  std::optional<int64_t> uptime_s;
};

struct PikaReplica {
  HostPort address;
  std::optional<uint64_t> lag;  // bytes; absent while not syncing or copying
  std::string lag_text;         // as said
};

struct PikaReplication {
  bool is_master = false;                     // role:master
  std::optional<std::string> replication_id;  // absent: the version has none; "": none yet
  HostPort master;                            // of a replica
  PikaLink link = PikaLink::kNone;
  bool settled = true;  // of a replica: no database is between the steps of a (full) sync
  std::vector<PikaReplica> replicas;
  std::map<std::string, BinlogOffset> binlog;  // by database; empty in sharding mode
};

struct PikaSlot {
  int slot = 0;
  BinlogOffset at;
  bool is_master = false;
  HostPort master;    // of a replica
  std::string state;  // likewise, as said: "kConnected", "kWaitDBSync", "kError", ...
  PikaLink link = PikaLink::kNone;
  bool settled = true;
  struct Replica {
    HostPort address;
    std::string state;            // "SlaveBinlogSync"
    std::optional<uint64_t> lag;  // bytes, by what was acknowledged; absent while not syncing
  };
  std::vector<Replica> replicas;
};

struct PikaTable {
  int id = 0;
  int slots = 0;
};

// Texts may end lines with CRLF or LF; unknown fields are skipped. The text may be a whole INFO.
Result<PikaServer> parse_pika_server(std::string_view text);
Result<PikaReplication> parse_pika_replication(std::string_view text);
// Only slots the server holds are named; none is no error.
Result<std::map<int, PikaSlot>> parse_pika_slots(std::string_view text);
Result<std::vector<PikaTable>> parse_pika_tables(std::string_view text);

}  // namespace sf
