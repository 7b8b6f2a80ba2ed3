// Driver for Pika 3.2-3.4 in sharding mode: each slot has its own binlog and is a unit. After the
// switch the old slot follows the new one, if both still stand at the proved end.
#pragma once

#include "proxy_shim/control/pika_driver.h"

namespace sf {

class PikaShardingDriver : public PikaDriver {
 public:
  using PikaDriver::PikaDriver;

  const CutTraits& traits() const override { return traits_; }
  const char* kind() const override { return "pika-sharding"; }
  Status link_reverse(const CutAttempt& attempt, const ReplPosition& from,
                      int64_t timeout_ms) override;
  Result<Survey> survey(const SlotSet& slots, int64_t timeout_ms) override;
  Result<ServerFacts> facts(PairSide side, int64_t timeout_ms) override;

 protected:
  Result<PikaSide> look(RespClient& client, const SlotSet& slots, int64_t timeout_ms) override;
  Status leave(RespClient& client, const SlotSet& slots, int64_t timeout_ms) override;
  Status follow(RespClient& client, const HostPort& leader, const SlotSet& slots,
                int64_t timeout_ms) override;
  Status follow_by_copy(RespClient& client, const HostPort& leader, const SlotSet& slots,
                        int64_t timeout_ms) override;
  std::string copy_words(const SlotSet& slots) const override;
  int tag_slot(const SlotSet& slots) const override { return slots.first(); }
  int database_of(const std::string&) const override { return -1; }
  Status check_mode(RespClient& client, int64_t timeout_ms) override;

 private:
  using Sides = std::map<int, PikaSide>;
  // Refused if the server does not hold one of `slots`; those are left out with `absent_ok`.
  Result<Sides> look_at_each(RespClient& client, const SlotSet& slots, int64_t timeout_ms,
                             bool absent_ok = false);

  CutTraits traits_{.end_fenced = true,
                    .reverse_link = true,
                    .exact_end = false,
                    .holds_stay = false,
                    .permanent_fence = false,
                    .heals = true};
};

}  // namespace sf
