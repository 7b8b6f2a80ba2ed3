// Commands the shim answers itself, posing as a Pika master (contracts/codis 1, 2, 6, 7, traps 8,
// 9, 17-23).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proxy_shim/data/data_plane.h"

namespace sf {

// The state one client connection has.
struct SessionState {
  uint64_t id = 0;
  std::string peer;
  std::string name;
  int db = 0;
  bool is_authenticated = false;
  bool wants_close = false;  // after what is answered
  // Had a PING or a request for a server: a proxy or client, never the dashboard (T24).
  bool carries_data = false;
  bool in_multi = false;
  bool multi_failed = false;
  int multi_count = 0;
  std::string multi_replies;
};

// What a local command may know of the server.
struct ServerView {
  const DataPlaneOptions& options;
  const BackendFacts& facts;
  DataPlaneStats stats;  // filled for commands with wants_stats alone
  int port = 0;
  int64_t uptime_s = 0;
  int64_t wall_ms = 0;
};

struct LocalCall {
  SessionState& session;
  const ServerView& server;
  std::span<const std::string_view> argv;
  std::string& out;  // exactly one reply is appended
};

using LocalCommand = void (*)(LocalCall&);

struct LocalEntry {
  std::string_view name;
  LocalCommand run;
  bool in_multi = false;  // the dashboard's promote sequence
  bool wants_stats = false;
};

const LocalEntry* find_local_command(std::string_view upper_case_name);  // nullptr: none

// Redis 7's texts.
void no_auth(std::string& out);
void wrong_arity(std::string& out, std::string_view command);
void unknown_command(std::string& out, std::span<const std::string_view> argv);

}  // namespace sf
