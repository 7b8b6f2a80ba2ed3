// One request on its way: a link in its client's order of replies and, while a backend works on it,
// in that connection's order of answers. Records come from a pool of the worker; nothing else is
// allocated for an ordinary request.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ops/metrics.h"
#include "proxy_shim/data/routes.h"

namespace sf {

class ClientSession;
class Fanout;
struct ReadCheck;

struct Pending {
  ClientSession* client = nullptr;  // null: the client is gone, its reply is dropped
  Pending* client_next = nullptr;   // order of replies
  Pending* next = nullptr;          // backend's order, held list, or free list
  Pending* prev = nullptr;          // held list only
  ReadCheck* check = nullptr;       // a read that goes to both sides
  Fanout* fanout = nullptr;         // the command is sent in parts; owned by the whole
  int64_t started_us = 0;           // arrival
  int64_t sent_us = 0;              // handed to the backend connection
  uint32_t hold_pass = 0;           // HoldQueue's
  uint16_t slot = 0;
  uint16_t part = 0;  // which part of the fanout
  uint8_t db = 0;
  Side side = Side::kOld;
  bool is_write = false;
  bool all_slots = false;  // may write any slot of its backend: unknown commands, scripts
  bool wrapped = false;    // SLOTSMGRT-EXEC-WRAPPER: the reply goes out as [2, reply]
  bool is_part = false;
  bool is_held = false;
  bool is_done = false;              // the whole reply is in `bytes`
  bool partly_passed = false;        // the front of the reply is with the client already
  bool is_dropped = false;           // too large to collect: its reply is read off
  bool is_watched = false;           // an EXEC that counts on the client's WATCH
  bool has_keys = false;             // until the reply `bytes` are the keys, see note_buffer.h
  uint32_t skip = 0;                 // replies that come before the one that is meant: of MULTI
  std::vector<uint16_t> more_slots;  // further slots of a command with several keys
  std::string bytes;  // the request while held; the reply while it waits for its turn

  template <class Fn>
  void for_each_slot(Fn&& fn) const {
    fn(slot);
    for (const uint16_t more : more_slots) fn(more);
  }
};

// Grows in blocks, never shrinks; bounded by clients_max x client_requests_max of its users.
class PendingPool {
 public:
  // `in_use` shows how many records are taken; it outlives the pool.
  explicit PendingPool(Cell& in_use) : in_use_(in_use) {}

  Pending* take() {
    if (free_ == nullptr) grow();
    Pending* record = free_;
    free_ = record->next;
    record->next = nullptr;
    in_use_.add(1);
    return record;
  }
  void give(Pending* record);

 private:
  static constexpr size_t kBlock = 256;
  void grow();
  std::vector<std::unique_ptr<Pending[]>> blocks_;
  Pending* free_ = nullptr;
  Cell& in_use_;
};

}  // namespace sf
