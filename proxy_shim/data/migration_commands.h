// Codis's slot migration commands, as an owner that never moves data by itself answers them
// (DESIGN I7, I8; contracts/codis 1.6, 2, 2.1; traps 1, 3, 4, 13, 14, 15). Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "common/resp/command_catalog.h"
#include "proxy_shim/data/routes.h"

namespace sf {

struct MigrationAnswer {
  enum class Kind {
    kNow,      // `reply` at once
    kPaced,    // `reply` after kMigrationPaceUs towards a dashboard, which may ask again at once;
               // towards clients at once
    kExecute,  // the wrapper: argv from 2 on, on the owner, answered as [2, reply]
  };
  Kind kind = Kind::kNow;
  std::string reply;
};

// What stands before the reply of a wrapped command that was executed.
inline constexpr std::string_view kWrapperPrefix = "*2\r\n:2\r\n";
inline constexpr int64_t kMigrationPaceUs = 100'000;

// `argv` has passed the arity check of a command with kCmdMigration.
MigrationAnswer judge_migration(const CommandSpec& spec, std::span<const std::string_view> argv,
                                const Routes& routes);

}  // namespace sf
