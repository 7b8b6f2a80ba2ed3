// One thread of the data plane: its clients, its backend connections, its routes and what it has in
// flight and held. Everything here is of the loop's thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/net/loop.h"
#include "common/ops/histogram.h"
#include "proxy_shim/data/backend_conn.h"
#include "proxy_shim/data/client_session.h"
#include "proxy_shim/data/forwarder.h"
#include "proxy_shim/data/hold_queue.h"
#include "proxy_shim/data/note_buffer.h"
#include "proxy_shim/data/plane_shared.h"
#include "proxy_shim/data/read_checks.h"
#include "proxy_shim/data/routes.h"
#include "proxy_shim/data/write_ledger.h"

namespace sf {

class Worker {
 public:
  static constexpr int kDatabases = 16;

  Worker(int index, Loop& loop, PlaneShared& shared, std::shared_ptr<const RouteTable> table);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // From the control side, posted to the loop.
  void adopt(std::unique_ptr<AcceptedSocket> socket);
  void apply(std::shared_ptr<const RouteTable> table);
  void set_facts(std::shared_ptr<const BackendFacts> facts) { facts_ = std::move(facts); }
  // Takes no more requests; calls `done` when every client was answered and closed.
  void finish_clients(std::function<void()> done);

  // For sessions, connections and the forwarder.
  Loop& loop() { return loop_; }
  const Log& log() const { return shared_.log; }
  const DataPlaneOptions& options() const { return shared_.options; }
  const CommandTable& commands() const { return shared_.commands; }
  const Routes& routes() const { return *routes_; }
  WorkerStats& stats() { return stats_; }
  PendingPool& pool() { return pool_; }
  WriteLedger& ledger() { return ledger_; }
  const std::function<void()>& on_stranger() const { return shared_.on_stranger; }
  HoldQueue& holds() { return holds_; }
  NoteBuffer& notes() { return notes_; }
  ReadChecks& checks() { return checks_; }
  Forwarder& forwarder() { return forwarder_; }
  Histogram& latency() { return latency_; }
  Request& scratch_request() { return scratch_request_; }
  BackendConn& backend(Side side, int db) {
    auto& conn = backends_[static_cast<size_t>(side)][static_cast<size_t>(db)];
    if (conn == nullptr) [[unlikely]]
      open_backend(side, db);
    return *conn;
  }
  ServerView view(bool with_stats) const;

  // The time of this turn: read once a batch of bytes.
  int64_t now_us() const { return now_us_; }
  void touch_clock() { now_us_ = loop_.now_us(); }

  // Ends of a record: exactly one of them is called for each record handed to a connection.
  void complete(Pending* record, std::string_view reply);
  void complete_with_error(Pending* record, std::string_view text);
  void complete_later(Pending* record, std::string reply, int64_t delay_us);
  // The front of a reply not yet whole. False: it must be collected, up to reply_bytes_max; then
  // give_up() drops what comes of it.
  bool pass_piece(Pending* record, std::string_view piece);
  void give_up(Pending* record, size_t collected);

  void resume_clients(PauseReason reason);
  void remove_client_later(uint64_t id);
  void remove_client_when_flushed(uint64_t id);
  void remove_retired_later();

  // Replies that wait for clients to read them, as the sessions tell it. The more there are, the
  // less of them one client may have.
  void change_output_bytes(int64_t by) { output_bytes_ += by; }
  bool is_over_output_budget() const { return output_bytes_ > output_bytes_max_; }
  size_t client_output_limit() const;
  bool is_over_request_budget() const { return stats_.inflight.get() > requests_max_; }
  // Requests not yet whole. False: over the budget.
  bool change_input_bytes(int64_t by);
  // How large replies have been of late: limits what the first pipeline of a client brings in.
  size_t large_reply() const { return large_reply_; }
  void saw_large_reply(size_t size) {
    large_reply_ = std::max(size, large_reply_ - large_reply_ / 16);
  }

  // A connection that waits for its only client, and none that does any more (6.5).
  void add_waiting(BackendConn* conn) { waiting_.push_back(conn); }
  void remove_waiting(BackendConn* conn) { std::erase(waiting_, conn); }
  void resume_waiting() {
    if (!waiting_.empty()) [[unlikely]]
      resume_all_waiting();
  }
  // Takes a connection over that was one client's own: it ends when it has answered.
  void retire(std::unique_ptr<BackendConn> conn);

 private:
  void open_backend(Side side, int db);
  void resume_all_waiting();
  void renew_backends();
  bool is_replaced(const BackendConn& conn) const;
  void warm_backends();
  void release_held();
  bool stays_held(const Pending& held) const;
  void complete_part(Pending* part, std::string_view reply);
  void remove_client(uint64_t id);
  void defer_alive(std::function<void()> fn);

  const int index_;
  Loop& loop_;
  PlaneShared& shared_;
  WorkerStats& stats_;
  std::unique_ptr<Routes> routes_;
  std::shared_ptr<const BackendFacts> facts_;
  int64_t now_us_ = 0;
  int64_t output_bytes_ = 0;
  const int64_t output_bytes_max_;
  const int64_t requests_max_;
  size_t large_reply_;
  PendingPool pool_;
  WriteLedger ledger_;
  HoldQueue holds_;
  NoteBuffer notes_;
  Forwarder forwarder_;
  ReadChecks checks_;
  Histogram latency_;
  Request scratch_request_;
  std::array<std::array<std::unique_ptr<BackendConn>, kDatabases>, 2> backends_;
  std::vector<std::unique_ptr<BackendConn>> retired_;
  std::vector<BackendConn*> waiting_;
  std::unordered_map<uint64_t, std::unique_ptr<ClientSession>> clients_;
  std::unordered_set<TimerId> timers_;  // of complete_later and the like
  std::function<void()> on_all_gone_;
  uint64_t next_client_ = 1;
  bool is_finishing_ = false;
  std::shared_ptr<Worker*> alive_;  // emptied by the destructor: deferred calls look
};

}  // namespace sf
