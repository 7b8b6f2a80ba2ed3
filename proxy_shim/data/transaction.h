// What one client has between MULTI and EXEC, and what it watches (DESIGN 6.5): collected here,
// sent at EXEC as one write on one connection, so that no other client's command comes between.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/resp/request_parser.h"
#include "proxy_shim/data/backend_conn.h"

namespace sf {

struct Transaction {
  static constexpr size_t kBytesMax = 16UL << 20;
  static constexpr uint32_t kCommandsMax = 10'000;

  explicit Transaction(Worker& worker);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Appends a command. False, and nothing done: all clients' unfinished requests have no room.
  bool add(const Request& request);

  std::string bytes;  // MULTI and the commands, RESP; EXEC is added when it comes
  uint32_t count = 0;
  std::vector<uint16_t> slots;  // of all keys, without repetitions
  bool is_write = false;
  bool all_slots = false;

 private:
  Worker& worker_;
  int64_t counted_ = 0;  // in what input-bytes-max limits
};

// WATCH is a state of a connection, so its client gets one of its own.
struct Watch {
  std::unique_ptr<BackendConn> conn;  // kept for the next WATCH
  bool is_active = false;
  bool is_lost = false;  // nothing can be promised of it: EXEC answers nil
  Side side = Side::kOld;
  uint64_t breaks = 0;  // conn's when it began
  std::vector<uint16_t> slots;
};

}  // namespace sf
