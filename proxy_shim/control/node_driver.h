// Driver for slotferry-node (docs/COMMANDS.md): leased fence, exact applied position, promote
// and reverse link by slot.
#pragma once

#include <string>
#include <vector>

#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/resp_client.h"

namespace sf {

class NodeDriver : public BackendDriver {
 public:
  NodeDriver(const MovePlan& plan, const std::string& name);

  const CutTraits& traits() const override { return traits_; }
  const char* kind() const override { return "node"; }
  Status connect(int64_t timeout_ms) override;
  Status raise_epoch(const CutAttempt& attempt, int64_t timeout_ms) override;
  Status announce(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> fence(const CutAttempt& attempt, int64_t lease_ms,
                             int64_t timeout_ms) override;
  Result<bool> wait_applied(const CutAttempt& attempt, const ReplPosition& end,
                            int64_t timeout_ms) override;
  Status check_writers(int64_t) override { return Status::ok(); }  // the fence keeps everybody out
  Result<ReplPosition> fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> promote(const CutAttempt& attempt, const ReplPosition& end,
                               int64_t timeout_ms) override;
  Result<Ends> read_ends(const CutAttempt& attempt, const ReplPosition& end,
                         int64_t timeout_ms) override;
  // The promote record is the marker. A side that was left before is closed until here.
  Status mark(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<uint64_t> marker(int64_t) override { return uint64_t{0}; }
  Status release(const CutAttempt&, int64_t) override { return Status::ok(); }
  Status link_reverse(const CutAttempt& attempt, const ReplPosition& from,
                      int64_t timeout_ms) override;
  Status follow_again(const CutAttempt& attempt, const ReplPosition& from,
                      int64_t timeout_ms) override;
  Status unfence(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<std::map<int, uint64_t>> promoted(const SlotSet& slots, int64_t timeout_ms) override;
  Result<Survey> survey(const SlotSet& slots, int64_t timeout_ms) override;
  SyncState sync_state(const SlotSet& slots, int64_t timeout_ms) override;
  Result<ServerFacts> facts(PairSide side, int64_t timeout_ms) override;
  int64_t lag_limit() const override { return 5'000; }
  bool lag_in_bytes() const override { return false; }
  std::unique_ptr<BackendDriver> another(const MovePlan& plan,
                                         const std::string& name) const override {
    return std::make_unique<NodeDriver>(plan, name);
  }

 private:
  using Reports = std::map<int, SlotReport>;
  Result<Reports> positions(RespClient& client, const SlotSet& slots, int64_t timeout_ms);
  Result<ReplPosition> fence_call(const CutAttempt& attempt, const std::string& how,
                                  const std::string& argument, int64_t timeout_ms);
  // PKCLUSTER FOLLOW for `slots` of `attempt` on `follower`, then read back.
  Status follow(RespClient& follower, const HostPort& leader, const CutAttempt& attempt,
                const SlotSet& slots, const ReplPosition& from, int64_t timeout_ms);
  Status lift(RespClient& client, const CutAttempt& attempt, int64_t timeout_ms);
  std::vector<std::string> verb(const std::string& name, const CutAttempt& attempt) const;

  CutTraits traits_{.end_fenced = true, .reverse_link = true, .exact_end = true};
  std::string plan_;
  SlotSet attached_;
  HostPort old_address_;
  HostPort new_address_;
  RespClient old_;
  RespClient new_;
  // Of the attempt under way: what fence_permanent() and promote() were told.
  ReplPosition sealed_end_;
  uint64_t applied_ = 0;
  // Of the last look before it: slots whose new side is not closed, and the attempt it was for.
  SlotSet seen_open_;
  uint64_t open_epoch_ = 0;  // 0: it is to be opened
};

}  // namespace sf
