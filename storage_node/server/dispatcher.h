// From argv to a handler: look up, arity, password, MULTI, owners of the slots, key locks, run.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "storage_node/command/command.h"
#include "storage_node/server/client_session.h"
#include "storage_node/server/watch_table.h"

namespace sf {

// Has no state of its own: any thread may use it.
class Dispatcher {
 public:
  Dispatcher(Engine& engine, Node& node, const CommandRegistry& registry, WatchTable& watches);

  // Appends the reply to `out`, unless the session is blocked or taken over afterwards.
  void execute(ClientSession& session, std::span<const std::string_view> argv, std::string& out);
  // EXEC's part: runs what the session has queued, holding the locks of all its keys; appends the
  // array.
  void run_queued(ClientSession& session, std::string& out);

 private:
  bool admit(ClientSession& session, const CommandSpec* spec,
             std::span<const std::string_view> argv, std::string& out);
  void queue(ClientSession& session, std::span<const std::string_view> argv, std::string& out);
  void run(ClientSession& session, const CommandSpec& spec, std::span<const std::string_view> argv,
           std::string& out, bool take_locks);
  bool owner_allows(const ClientSession& session, const CommandSpec& spec,
                    std::span<const std::string_view> keys, std::string& out) const;
  bool is_stale(const WatchTable::Watch& watch);

  Engine& engine_;
  Node& node_;
  const CommandRegistry& registry_;
  WatchTable& watches_;
};

}  // namespace sf
