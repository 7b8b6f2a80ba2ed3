// Driver for Redis >= 6.2 (DESIGN 6.3): whole plan at once. The end is made final by CLIENT PAUSE
// WRITE, which also stops expiry and eviction; the proof of applied is the replica's own processed
// offset in the same replication id. Where every slot of the old master moves, its permanent fence
// is min-replicas-to-write at a number no group has, so that it refuses writes after the switch
// too; where some stay, CLIENT LIST is the only defence against others' writes. Older servers, such
// as codis-server: AccountedRedisDriver.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/resp_client.h"

namespace sf {

// The value of "addr=", "name=" ... in a line of CLIENT LIST; "" if it is not there.
std::string client_word(std::string_view line, std::string_view key);

class RedisDriver : public BackendDriver {
 public:
  RedisDriver(const MovePlan& plan, DriverNotes* notes, const Clock* clock,
              const std::string& name);

  const CutTraits& traits() const override { return traits_; }
  const char* kind() const override { return "redis"; }
  Status connect(int64_t timeout_ms) override;
  Status raise_epoch(const CutAttempt&, int64_t) override { return Status::ok(); }
  // Refused while a sentinel is connected to the new server: it would make it a replica again after
  // the switch, or another one the master of its group before (ADR 0024).
  // Also: redis replicates PING each repl-ping-replica-period seconds, which moves the end; the
  // period is raised for the attempt.
  Status announce(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> fence(const CutAttempt& attempt, int64_t lease_ms,
                             int64_t timeout_ms) override;
  Result<bool> wait_applied(const CutAttempt& attempt, const ReplPosition& end,
                            int64_t timeout_ms) override;
  // A connection to the old master is harmless if it is ours, a replica, a master link, a monitor
  // or a subscriber, is named slotferry* or sentinel-*, or last ran a command of onlookers (INFO,
  // CONFIG GET ...). PING does not count: idle connections of a proxy send it.
  Status check_writers(int64_t timeout_ms) override;
  Result<ReplPosition> fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> promote(const CutAttempt& attempt, const ReplPosition& end,
                               int64_t timeout_ms) override;
  Result<Ends> read_ends(const CutAttempt& attempt, const ReplPosition& end,
                         int64_t timeout_ms) override;
  Status mark(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<uint64_t> marker(int64_t timeout_ms) override;
  Status release(const CutAttempt& attempt, int64_t timeout_ms) override;
  Status link_reverse(const CutAttempt&, const ReplPosition&, int64_t) override {
    return Status::ok();
  }
  Status follow_again(const CutAttempt& attempt, const ReplPosition& from,
                      int64_t timeout_ms) override;
  Status unfence(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<Survey> survey(const SlotSet& slots, int64_t timeout_ms) override;
  SyncState sync_state(const SlotSet& slots, int64_t timeout_ms) override;
  Result<ServerFacts> facts(PairSide side, int64_t timeout_ms) override;
  int64_t lag_limit() const override { return 1 << 20; }

 protected:
  // Is a line of CLIENT LIST somebody who does not write? `ours`: this process's own sockets.
  virtual bool is_harmless(std::string_view line, const std::set<std::string>& ours) const;
  virtual Result<SlotReport> report(RespClient& client, PairSide side, int64_t timeout_ms);
  // Refused, with the first of them named, if somebody in `list` (CLIENT LIST of the old server)
  // may write.
  Status judge_clients(const std::string& list) const;
  Result<std::string> info(RespClient& client, const char* section, int64_t timeout_ms);
  // The server's own position; refused if it is not a master.
  Result<ReplPosition> master_position(RespClient& client, int64_t timeout_ms);
  Status pause(int64_t ms, int64_t timeout_ms);
  Status check_sentinels(int64_t timeout_ms);
  Status rewrite_config(RespClient& client, int64_t timeout_ms);
  Result<std::string> config_get(RespClient& client, const char* name, int64_t timeout_ms);
  Status note_and_set(const char* name, const std::string& value, int64_t timeout_ms);
  Status restore(const char* name, int64_t timeout_ms);  // from its note; ok if there is none
  std::string marker_key() const;

  static constexpr const char* kNever = "2147483647";    // seconds: no PING while an attempt runs
  static constexpr const char* kNoGroupHas = "1000000";  // replicas: no write is accepted

  CutTraits traits_{.end_fenced = true, .reverse_link = false, .exact_end = false};
  // Settings and words that older servers have under other names.
  const char* ping_period_ = "repl-ping-replica-period";
  const char* min_replicas_ = "min-replicas-to-write";
  const char* replicaof_ = "REPLICAOF";
  std::string plan_;
  bool fences_server_;  // no slot stays: the whole old master may be closed for writes
  DriverNotes* notes_;
  const Clock* clock_;
  RespClient old_;
  RespClient new_;

 private:
  int64_t pause_ms_ = 0;
  int64_t paused_until_us_ = 0;  // by our clock, counted from before the request was sent
};

}  // namespace sf
