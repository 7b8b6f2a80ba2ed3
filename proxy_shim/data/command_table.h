// What the shim does with each command of the catalog (DESIGN 6.1, 6.5): computed once, read by all
// workers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/resp/command_catalog.h"
#include "proxy_shim/data/local_commands.h"
#include "proxy_shim/data/routes.h"

namespace sf {

enum class Handling : uint8_t {
  kRefuse,     // an error that says why
  kForward,    // to the owner of its keys
  kLocal,      // answered by the shim
  kMigration,  // Codis's migration commands (I7, I8)
};

struct CommandRule {
  Handling handling = Handling::kRefuse;
  uint8_t single_key = 0;  // argv index of the only key; 0: found by key_positions()
  bool is_write = true;
  bool all_slots = false;  // may write any slot of its owner
  bool in_multi = false;   // may be queued in the dashboard's MULTI
  bool wants_stats = false;
  uint8_t blocked_by = kWriteBlocked;  // route flags that keep it off the straight way
  LocalCommand local = nullptr;
  const char* why = "";     // of a refusal
  bool is_guarded = false;  // see guard_objection()
};

class CommandTable {
 public:
  CommandTable();
  const CommandRule& rule(const CommandSpec& spec) const { return rules_[spec.index]; }

 private:
  std::vector<CommandRule> rules_;
};

// Its key is for the heal list: a replica may come to another result (kCmdNoted). `spec` null: a
// command nobody here knows. `timed`: replicas lose what is written with a TTL. Pure.
bool is_noted(const CommandSpec* spec, std::span<const std::string_view> argv, bool timed);

// Why the guard keeps a command with is_guarded from the servers; "" if it may pass. Pure.
std::string guard_objection(const CommandSpec& spec, std::span<const std::string_view> argv);

}  // namespace sf
