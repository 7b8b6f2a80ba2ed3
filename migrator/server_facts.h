// What a server says about itself, read fresh each time: INFO, and slot positions of a
// slotferry-node.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/pika/pika_status.h"
#include "common/slots/move_plan.h"
#include "migrator/peer.h"

namespace sf {

// INFO text as name -> value; "# Section" lines and lines without ':' are left out.
using InfoMap = std::map<std::string, std::string, std::less<>>;
InfoMap parse_info(std::string_view text);
int64_t info_number(const InfoMap& info, std::string_view name, int64_t otherwise);

struct ServerFacts {
  ServerKind kind = ServerKind::kNode;
  std::string version;  // of slotferry, redis or pika
  std::string run_id;
  bool is_slave = false;
  std::optional<HostPort> master;              // of a slave
  bool link_up = false;                        // of a slave: attached and past its first copy
  std::map<std::string, BinlogOffset> binlog;  // of a Pika in classic mode, by database
  InfoMap info;
};

// kRefused: a server of a kind this program cannot move (it names what it found).
Result<ServerFacts> read_facts(Peer& peer);

// Is it a slave of the server at that address?
bool follows(const ServerFacts& facts, const HostPort& master);

// What is in the way of a first copy onto that server: "12 keys", or "" if it is empty.
Result<std::string> holds_keys(Peer& peer, ServerKind kind);

// Numbers of the databases that may hold keys (a Pika does not say which of its own do).
Result<std::set<int>> databases_of(Peer& peer, ServerKind kind);

// One row of REPLICATION POSITIONS (docs/COMMANDS.md).
struct SlotPosition {
  int slot = 0;
  bool is_slave = false;
  std::string history;
  uint64_t seq = 0;
  std::string link;   // "-", "up", "down", "copying"
  std::string fence;  // "no", "leased", "permanent"
};
Result<std::map<int, SlotPosition>> read_positions(Peer& peer, const SlotSet& slots);

// Keys a slot, from SLOTSINFO; slots without keys are absent.
Result<std::map<int, int64_t>> read_key_counts(Peer& peer);
int64_t keys_in(const std::map<int, int64_t>& counts, const SlotSet& slots);

// CONFIG GET of one parameter; nullopt if the server does not know it.
Result<std::optional<std::string>> read_config(Peer& peer, const std::string& name);

}  // namespace sf
