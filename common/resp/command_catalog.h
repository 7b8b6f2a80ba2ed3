// Facts about commands, one table for the shim, the node and COMMAND: name, arity, flags, where the
// keys are, how a command may be split over owners. Behaviour is bound to it elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sf {

enum CommandFlag : uint32_t {
  kCmdWrite = 1U << 0,     // may change keys
  kCmdRead = 1U << 1,      // reads keys, changes nothing
  kCmdAdmin = 1U << 2,     // operator's command
  kCmdNoAuth = 1U << 3,    // allowed before AUTH
  kCmdBlocking = 1U << 4,  // may wait for another client (BLPOP)
  kCmdConnection =
      1U << 5,           // changes the state of its connection (SELECT, AUTH, SUBSCRIBE, MULTI ...)
  kCmdScript = 1U << 6,  // may write any key (EVAL)
  kCmdKeyless = 1U << 7,  // names no key
  kCmdDenyOom = 1U << 8,  // may grow memory, for COMMAND's flags
  kCmdFast = 1U << 9,     // for COMMAND's flags
  kCmdPubSub = 1U << 10,
  kCmdOneReply =
      1U << 11,  // exactly one reply and no connection state: may share a connection (DESIGN 6.5)
  kCmdMigration = 1U << 12,  // SLOTSMGRT*, SLOTSRESTORE*: see contracts/codis 1.6, 2.1
  kCmdSlots = 1U << 13,      // Codis or Pika slot command
  kCmdRandom = 1U << 14,     // not deterministic (SPOP, RANDOMKEY)
  // A replica that is sent the command, rather than what it did, may come to another result: it
  // changes what is there by what is there, or looks at a condition, a TTL or chance (DESIGN 6.4).
  kCmdNoted = 1U << 16,
  kCmdNotedIf = 1U << 17,      // ... with some of its options (SET), or where TTLs are lost (SETEX)
  kCmdMovableKeys = 1U << 15,  // key positions depend on arguments (ZUNIONSTORE, EVAL, XREAD ...)
};

// How a command over several owners is split and its replies joined.
enum class SplitRule : uint8_t {
  kNone,  // all keys must have one owner
  kMget,  // one array: elements joined in order
  kMset,  // key-value pairs; +OK if all are
  kSum,   // integers added: DEL, UNLINK, EXISTS, TOUCH
};

struct CommandSpec {
  std::string_view name;  // upper case
  int arity = 0;          // as Redis: counts the name; negative = at least
  uint32_t flags = 0;
  int first_key = 0;  // 0: no key at a fixed place
  int last_key = 0;   // negative: from the end
  int key_step = 0;
  SplitRule split = SplitRule::kNone;
  uint16_t index = 0;  // dense, 0..catalog_size()-1: for dispatch tables

  bool is(CommandFlag flag) const { return (flags & flag) != 0; }
  bool arity_ok(size_t argc) const {
    return arity >= 0 ? argc == static_cast<size_t>(arity) : argc >= static_cast<size_t>(-arity);
  }
};

// Case-insensitive; nullptr if unknown. No allocation. Covers every command of Redis 7.0,
// Pika 3.4-4.0 (contracts/pika/commands.tsv), Codis's SLOTS* and our own (PKCLUSTER, REPLICATION,
// SHIM).
const CommandSpec* find_command(std::string_view name);
std::span<const CommandSpec> all_commands();
size_t catalog_size();

// Appends the argv indexes of the keys, in order. False if the arguments do not say (a numkeys that
// is no number, or larger than the arguments: case C42).
bool key_positions(const CommandSpec& spec, std::span<const std::string_view> argv,
                   std::vector<int>* positions);

}  // namespace sf
