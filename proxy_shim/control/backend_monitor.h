// Asks both masters each second what they are and how far the new one is behind: facts for the
// disguise (INFO, SLOTSINFO), lags for the forecast, and identity (DESIGN 6.6). A master that is no
// master any more gets no writes until it is one again; a restart (new run id) is adopted after
// asking once more. Has its own thread and its own driver.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/ops/log.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/round_thread.h"
#include "proxy_shim/control/slot_board.h"
#include "proxy_shim/control/state_store.h"
#include "proxy_shim/data/data_plane.h"

namespace sf {

class BackendMonitor {
 public:
  static constexpr int64_t kPeriodMs = 1'000;

  // `on_lags` is called after each round, `on_change` when a master changed. Both: monitor's
  // thread.
  BackendMonitor(const MovePlan& plan, std::unique_ptr<BackendDriver> driver, SlotBoard* board,
                 DataPlane* plane, StateStore* store, const Clock* clock,
                 std::function<void()> on_lags, std::function<void(std::string)> on_change,
                 Log log);

  // Asked before another process at a master's address is accepted; false if the group has another
  // master now. Before start().
  void before_accepting(std::function<bool(PairSide)> confirmed) {
    confirmed_ = std::move(confirmed);
  }

  void start() { rounds_.start(); }  // after stop() again, too
  void stop() { rounds_.stop(); }
  void look_now() { rounds_.now(); }  // any thread
  void round();                       // one look at both sides; start() does it each second

 private:
  struct SideState {
    std::string run_id;
    bool reachable = true;
    bool stopped = false;
  };
  void look(PairSide side, ServerFacts* facts);
  bool must_be_master(PairSide side) const;
  void judge(PairSide side, const ServerFacts& facts, bool must);
  // The process asked is the one judged: connections of the data plane accept no other.
  void accept(PairSide side, const std::string& run_id);
  // After a restart: slots whose owner this side is not any more are in DOUBT from here on. False:
  // it did not say.
  bool check_owner(PairSide side);
  std::map<int, SlotRecord> records_of(PairSide side) const;
  void look_at_lags();
  void publish_facts(const ServerFacts& old_facts, const ServerFacts& new_facts);
  const std::string& address(PairSide side) const { return address_[side == PairSide::kNew]; }

  const MovePlan plan_;
  const std::string address_[2];
  std::unique_ptr<BackendDriver> driver_;
  const std::unique_ptr<BackendDriver> back_;  // as driver_ with the sides exchanged, or null
  SlotBoard* const board_;
  DataPlane* const plane_;
  StateStore* const store_;
  const Clock* const clock_;
  const std::function<void()> on_lags_;
  const std::function<void(std::string)> on_change_;
  std::function<bool(PairSide)> confirmed_;
  const Log log_;
  SideState state_[2];
  RoundThread rounds_;  // last: its thread uses all of the above
};

}  // namespace sf
