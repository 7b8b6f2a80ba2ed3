// Driver for Redis without CLIENT PAUSE WRITE: codis-server (3.2) and everything below 6.2 (ADR
// 0026). The end is not fenced but accounted for: every write of the server's stream passes the
// shim and is held (slots that stay too), nobody else is connected and no connection is left that
// could carry a write nobody waits for, and the end is read again before the promote and after it.
// Where no slot stays, min-slaves-to-write closes the old master from the fence on as well; scripts
// and PUBLISH pass that, so it proves nothing.
//
// These servers have no replication ids: a history is the master's run id. What shows that the new
// server has applied that history up to the end is a fence key, written to the old one before the
// end was read.
//
// A server that left replication follows again only by a full copy; the old side serves meanwhile,
// and no attempt begins before the copy is done.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proxy_shim/control/redis_driver.h"

namespace sf {

class AccountedRedisDriver final : public RedisDriver {
 public:
  AccountedRedisDriver(const MovePlan& plan, DriverNotes* notes, const Clock* clock,
                       const std::string& name);

  // Also: no key is expired in the background meanwhile, where the server lets us say so, because
  // that moves the end. Refused where the end of a master without replicas would stand still, and
  // where a key takes longer to the new side than an attempt may: such a master does not
  // send to a replica that has just copied until that says, once a second, that it is there.
  Status announce(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> fence(const CutAttempt& attempt, int64_t lease_ms,
                             int64_t timeout_ms) override;
  Result<bool> wait_applied(const CutAttempt& attempt, const ReplPosition& end,
                            int64_t timeout_ms) override;
  Status check_orphans(int64_t timeout_ms) override;
  Result<ReplPosition> fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) override;
  // Where the new server stood in the stream is asked right before it leaves it.
  Result<ReplPosition> promote(const CutAttempt& attempt, const ReplPosition& end,
                               int64_t timeout_ms) override;
  Result<Ends> read_ends(const CutAttempt& attempt, const ReplPosition& end,
                         int64_t timeout_ms) override;
  Status release(const CutAttempt& attempt, int64_t timeout_ms) override;
  // Only over what left replication in an attempt of ours, has not restarted since, and carries no
  // marker.
  Status follow_again(const CutAttempt& attempt, const ReplPosition& from,
                      int64_t timeout_ms) override;
  Status unfence(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<Survey> survey(const SlotSet& slots, int64_t timeout_ms) override;

 protected:
  // Stricter: a shim's connection that is not this process's is an orphan of one that is gone.
  bool is_harmless(std::string_view line, const std::set<std::string>& ours) const override;
  Result<SlotReport> report(RespClient& client, PairSide side, int64_t timeout_ms) override;

 private:
  using Requests = std::vector<std::vector<std::string>>;
  // The old master's end, after `before` and with nobody else connected.
  Result<ReplPosition> lonely_end(const Requests& before, int64_t timeout_ms);
  std::string fence_key() const;
  Status write_fence_key(int64_t timeout_ms);
  // The way of a key to the new side, tried outside the pause until it is short.
  Status try_stream(int64_t timeout_ms);

  const int64_t max_pause_ms_;
  std::string nonce_;                 // of the attempt's fence key
  std::optional<ReplPosition> left_;  // where the new side left replication in this attempt
  std::string left_run_id_;           // ... and who it was
};

}  // namespace sf
