// Driver for Pika in classic mode, 3.x and 4.0: the whole server is one unit, so the slots that
// stay are held too until its end is proved. No way back but a new copy.
#pragma once

#include "proxy_shim/control/pika_driver.h"

namespace sf {

class PikaClassicDriver : public PikaDriver {
 public:
  using PikaDriver::PikaDriver;

  const CutTraits& traits() const override { return traits_; }
  const char* kind() const override { return "pika"; }
  bool lists_keys() const override { return true; }
  Status link_reverse(const CutAttempt&, const ReplPosition&, int64_t) override {
    return Status::ok();
  }
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
  int tag_slot(const SlotSet&) const override { return plan().slots.first(); }
  int database_of(const std::string& binlog) const override;
  Status check_mode(RespClient& client, int64_t timeout_ms) override;

 private:
  CutTraits traits_{.end_fenced = true,
                    .reverse_link = false,
                    .exact_end = false,
                    .holds_stay = true,
                    .permanent_fence = false,
                    .heals = true};
};

}  // namespace sf
