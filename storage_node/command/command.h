// How a command is run: a free function a command, bound to the catalog by name in one table per
// family. The server parses, authenticates, checks arity, takes the key locks and then calls it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/resp/command_catalog.h"
#include "storage_node/engine/engine.h"

namespace sf {

class ClientSession;  // server/client_session.h
class Node;           // storage_node/node.h

// What a handler gets. Lives during one call; the key locks of the command's keys are held.
struct CommandContext {
  Engine& engine;
  Node& node;                                // for admin commands only
  ClientSession* session;                    // may be null (EXEC, tests)
  int db;
  const CommandSpec& spec;
  std::span<const std::string_view> argv;    // argv[0] is the name as the client wrote it
  std::string& out;                          // append exactly one RESP reply
};

using CommandHandler = void (*)(CommandContext&);

// Binds handlers to catalog entries. bind() aborts on a name the catalog lacks or a name bound twice.
class CommandRegistry {
 public:
  CommandRegistry();
  void bind(std::string_view name, CommandHandler handler);
  CommandHandler find(const CommandSpec& spec) const;  // nullptr: in the catalog, not implemented here
  std::vector<std::string_view> bound() const;

 private:
  std::vector<CommandHandler> handlers_;  // by CommandSpec::index
};

// One per family, called by the node's wiring; each defined at the end of its command/<family>.cc.
void register_strings(CommandRegistry& registry);
void register_bits(CommandRegistry& registry);      // by register_strings
void register_bitfield(CommandRegistry& registry);  // by register_strings
void register_keys(CommandRegistry& registry);
void register_hashes(CommandRegistry& registry);
void register_lists(CommandRegistry& registry);
void register_sets(CommandRegistry& registry);
void register_zsets(CommandRegistry& registry);
void register_connection(CommandRegistry& registry);
void register_server(CommandRegistry& registry);
void register_transactions(CommandRegistry& registry);
void register_pubsub(CommandRegistry& registry);
void register_slots(CommandRegistry& registry);        // SLOTSINFO, SLOTSHASHKEY, SLOTSSCAN, SLOTSDEL
void register_replication(CommandRegistry& registry);  // SLAVEOF, ROLE, PKCLUSTER, REPLICATION
void register_waits(CommandRegistry& registry);        // by register_replication: WAIT, WAITAOF

}  // namespace sf
