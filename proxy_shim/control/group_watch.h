// Asks the dashboard each second which server is the first of either group (DESIGN 6.6): Codis
// sends clients there, and a master it has replaced must get no more writes from us, even if it
// comes back and takes itself for one. What cannot be read changes nothing. Has its own thread.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "common/ops/log.h"
#include "common/slots/move_plan.h"
#include "proxy_shim/control/round_thread.h"
#include "proxy_shim/control/slot_board.h"
#include "proxy_shim/control/state_store.h"

namespace sf {

class GroupWatch {
 public:
  static constexpr int64_t kPeriodMs = 1'000;

  // `on_change` gets a sentence when a group has another first server than the plan. Thread of the
  // round.
  GroupWatch(const MovePlan& plan, SlotBoard* board, StateStore* store,
             std::function<void(std::string)> on_change, Log log);

  void start() { rounds_.start(); }  // after stop() again, too
  void stop() { rounds_.stop(); }
  // One question to the dashboard and what follows from its answer. Any thread; at most 3 s.
  void round();
  // Asks now. False if the dashboard says that another server is the first of that group; true also
  // if it cannot be asked.
  bool confirms(PairSide side);

  // The first server of `group` in the answer to GET /topom/stats; "" if the group has none,
  // nothing if it cannot be told. Pure.
  static std::optional<std::string> first_server(std::string_view stats_json, int group);
  // What follows from one answer.
  void judge(std::string_view stats_json);

 private:
  void judge_side(PairSide side, const std::string& first);

  const HostPort dashboard_;
  const int groups_[2];
  const std::string ours_[2];
  SlotBoard* const board_;
  StateStore* const store_;
  const std::function<void(std::string)> on_change_;
  const Log log_;
  std::mutex judging_;    // one at a time; the two below
  std::string other_[2];  // the first server, where it is not ours
  bool reachable_ = true;
  RoundThread rounds_;  // last: its thread uses all of the above
};

}  // namespace sf
