// One row of the command table: the facts, and how to find the keys where they are not at fixed
// places. Only the table and command_catalog.cc use it.
#pragma once

#include "common/resp/command_catalog.h"

namespace sf::catalog {

enum class KeyRule : uint8_t {
  kFixed,          // first_key, last_key, key_step
  kNumkeys1,       // numkeys at 1, the keys behind it (ZUNION)
  kNumkeys2,       // numkeys at 2, the keys behind it; 0 is allowed for scripts (EVAL)
  kDestNumkeys2,   // a key at 1, then as kNumkeys2 (ZUNIONSTORE)
  kStreams,        // behind STREAMS: as many keys as ids (XREAD)
  kSort,           // 1, and behind each STORE
  kGeoStore6,      // 1, and behind each STORE or STOREDIST from 6 on (GEORADIUS)
  kGeoStore5,      // the same from 5 on (GEORADIUSBYMEMBER)
  kMigrate,        // 3, or, if that is empty, behind KEYS
  kSubcommandKey,  // 2, if there is one (OBJECT ENCODING k, XINFO STREAM k)
  kMemoryUsage,    // 2, for MEMORY USAGE
  kDebugObject,    // 2, for DEBUG OBJECT
};

struct CommandRow {
  CommandSpec spec;
  KeyRule rule = KeyRule::kFixed;
};

}  // namespace sf::catalog
