// The forwarding half of the shim, as the control half sees it. Workers, client sessions and
// backend connections are behind it (DESIGN 6.5). All methods: control thread(s), blocking where
// said.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/ops/histogram.h"
#include "common/ops/log.h"
#include "proxy_shim/data/read_policy.h"
#include "proxy_shim/data/route_table.h"
#include "proxy_shim/data/routes.h"

namespace sf {

struct DataPlaneOptions {
  std::string bind = "127.0.0.1";
  int port = 0;  // 0: any free one
  int threads = 2;
  std::string password;  // requirepass towards proxies and clients; empty: none
  std::string run_id;    // our own, 40 hex digits (trap T9)
  int64_t backend_timeout_ms = 10'000;
  int64_t connect_timeout_ms = 1'000;
  size_t client_output_bytes_max =
      4UL << 20;  // unread replies of one client; beyond it the client is not read
  size_t client_requests_max =
      10'000;  // unanswered requests of one client; beyond it the client is not read
  // Of all workers together, shared out evenly among them:
  size_t output_bytes_max = 256UL << 20;  // unread replies; beyond it clients that owe most go
  size_t requests_max = 1'000'000;        // unanswered; beyond it each client has one at a time
  size_t input_bytes_max = 1UL << 30;     // requests not yet whole; beyond it their senders go
  size_t reply_bytes_max = 64UL << 20;    // of one reply that its client does not take in pieces
  size_t backend_requests_max = 100'000;  // unanswered on one connection to a server
  DataRules rules;                        // at the start
  bool transactions = true;               // the servers know MULTI, EXEC and WATCH
  size_t held_requests_max = 100'000;     // of all workers
  size_t held_bytes_max = 64UL << 20;
  size_t clients_max = 10'000;
  size_t noted_keys_max = 100'000;  // of all workers, between two take_notes()
  size_t noted_bytes_max = 16UL << 20;
};

// What happened to the requests held for a unit, told when they are let go.
struct HoldReport {
  SlotSet slots;
  int64_t held_requests = 0;
  int64_t held_bytes = 0;
  int64_t pause_us = 0;  // first request held to last held one sent (DESIGN 8); 0 if none was held
};

// What INFO, SLOTSINFO and CONFIG GET maxmemory answer about the servers behind (polled by
// control).
struct BackendFacts {
  int64_t used_memory = 0;
  int64_t maxmemory = 0;
  std::vector<std::pair<int, int64_t>> keys_by_db;    // db, keys, of the slots behind the shim
  std::vector<std::pair<int, int64_t>> keys_by_slot;  // non-empty slots behind the shim
};

struct DataPlaneStats {
  int64_t clients = 0, requests = 0, errors = 0, held_now = 0, held_bytes_now = 0;
  int64_t inflight = 0, bytes_in = 0, bytes_out = 0;
  int64_t rejected = 0;         // requests refused by the shim
  int64_t refused_clients = 0;  // connections over clients_max
};

// Keys that a faithless replica may hold otherwise (DESIGN 6.4).
struct KeyNote {
  uint16_t slot = 0;
  uint8_t db = 0;
  std::string key;
};
struct KeyNotes {
  std::vector<KeyNote> keys;
  bool overflowed = false;  // there was no room for some
};

// What drain() waits for.
enum class InFlight {
  kWrites,  // HOLD: writes, and whatever may write
  kAll,     // PROMOTE: reads too, before the old side refuses them
};

class DataPlane {
 public:
  virtual ~DataPlane() = default;

  // Binds and starts the workers with `table`. Clients are accepted from now on.
  virtual Status start(std::shared_ptr<const RouteTable> table) = 0;
  virtual int port() const = 0;

  // Gives `table` to every worker and returns when each has acknowledged it (it acts by no older
  // table any more). Held requests whose slots are not held by the new table are sent, in order.
  virtual Status publish(std::shared_ptr<const RouteTable> table) = 0;

  // Returns when nothing of that kind for `slots` is in flight to `side` on any worker, by
  // answer or by the end of its connection; kTimeout at the deadline. Call after publishing kHold
  // (kWrites) or kPromote (kAll). Says how many writes were never answered (connection broke, timed
  // out) since the last call to forget_unanswered for these slots: DESIGN I2 (b), they may still
  // execute.
  struct Drained {
    int64_t unanswered = 0;
  };
  virtual Result<Drained> drain(const SlotSet& slots, InFlight what, int64_t timeout_ms,
                                Side side = Side::kOld) = 0;
  virtual void forget_unanswered(const SlotSet& slots, Side side = Side::kOld) = 0;

  // The keys, each once, of writes to the old side since the last call that are replicated wrongly
  // or were never answered, in slots to be switched; only while the route table says note_writes. A
  // write sent before the call is in this answer or in an earlier one.
  virtual KeyNotes take_notes() { return {}; }

  // The report of the requests of `slots` let go since the last call for them.
  virtual HoldReport take_hold_report(const SlotSet& slots) = 0;
  // Called (any worker thread, once an overflow) when a hold went over its count or bytes: control
  // takes the attempt back. Set before start().
  virtual void on_hold_overflow(std::function<void()> fn) = 0;

  // Called (any worker thread) when a new connection found another process at a server's address
  // than the one of the route table: control judges it. Set before start().
  virtual void on_stranger(std::function<void()> fn) = 0;

  // Reads and guard, for requests from now on.
  virtual void set_rules(const DataRules& rules) = 0;
  virtual DataRules rules() const = 0;
  virtual ReadCheckCounts read_checks(SlotDifferences* by_slot) const = 0;

  virtual void set_facts(std::shared_ptr<const BackendFacts> facts) = 0;
  virtual DataPlaneStats stats() const = 0;
  virtual Histogram latency_us() const = 0;  // request read to reply written, merged over workers

  // Stops accepting, waits for answers in flight up to timeout, closes.
  virtual void shut_down(int64_t timeout_ms) = 0;
};

std::unique_ptr<DataPlane> make_data_plane(const DataPlaneOptions& options, Log log);

}  // namespace sf
