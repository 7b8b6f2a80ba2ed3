// What the shim knows about each slot, and the one gate through which routes reach the workers.
// Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "common/slots/move_plan.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/lag_trend.h"
#include "proxy_shim/data/data_plane.h"
#include "proxy_shim/data/route_table.h"

namespace sf {

struct SlotRow {
  int slot = 0;
  SlotPhase phase = SlotPhase::kOutside;
  uint64_t epoch = 0;    // of the last attempt or the switch
  int64_t pause_us = 0;  // of the last attempt
  int64_t held = 0;      // requests held in it
  int64_t lag = -1;      // -1: unknown, or the new side does not follow
  int steady = 0;        // samples in a row with a small lag
  bool automatic = false;
  bool back = false;    // held, and on its way back
  int64_t next_us = 0;  // not tried again before; past: nothing is waited for
  std::string text;     // the last thing worth saying about it
};

class SlotBoard {
 public:
  explicit SlotBoard(const MovePlan& plan);

  // Before the data plane starts.
  void set_phase(const SlotSet& slots, SlotPhase phase, uint64_t epoch, const std::string& text);
  std::shared_ptr<const RouteTable> make_table();
  void attach(DataPlane* plane);
  // Writes to the old side are looked at for the heal list; `timed`: SETEX and its like are noted,
  // too.
  void note_writes(bool timed) {
    note_writes_ = true;
    note_timed_ = timed;
  }
  // Connections to servers are given this name; none by default.
  void name_connections(std::string name) { connection_name_ = std::move(name); }
  // Its tables' epochs are above this one: another board published before.
  void begin_above(uint64_t route_epoch);

  // Sets the phase and returns when every worker acts by it. One caller at a time gets through. A
  // slot in FINAL stays there where NEW is asked for, and one in DOUBT whatever is: a start or a
  // changed plan judges it anew.
  Status publish(const SlotSet& slots, SlotPhase phase);
  // Two sets in one table. `back`: `slots` are held on their way back.
  Status publish(const SlotSet& slots, SlotPhase phase, const SlotSet& others,
                 SlotPhase others_phase, bool back = false);
  // A side's writes are answered with a retryable error until allowed again; `why` names the
  // reason. Independent reasons a side: the monitor's judgement, a marker not yet written, another
  // first server of the group in the dashboard, and a changed plan that replaces the master.
  enum class Reason { kIdentity, kMarker, kGroup, kReplaced };
  Status stop_writes(PairSide side, Reason reason, bool stopped);
  // `slots` lack, or lack no more, their marker on `side`, which owns them. While there are any, it
  // takes no write (Reason::kMarker).
  Status owe_marker(PairSide side, const SlotSet& slots, bool owed);
  bool writes_stopped(PairSide side) const;
  bool stopped_for(PairSide side, Reason reason) const;
  // The process judged to be this side's master: new connections accept no other.
  Status set_identity(PairSide side, const std::string& run_id);

  void note_attempt(const SlotSet& slots, uint64_t epoch, const std::string& text);
  void note_pause(const SlotSet& slots, int64_t pause_us, int64_t held);
  void set_text(const SlotSet& slots, const std::string& text);
  // A look at how far the new side is behind, or that it does not follow (nullopt: what was known
  // of its course is void).
  void set_lag(int slot, const std::optional<LagSample>& sample, int64_t small);
  // A look just before an attempt: does not count as one of the steady ones.
  void add_lag(const SlotSet& slots, const LagSample& sample);
  // Of the slot that needs longest.
  LagForecast forecast(const SlotSet& slots) const;
  void set_auto(const SlotSet& slots, bool on);
  // Of `slots`: not before `us` of the monotonic clock; 0: as soon as it can be.
  void set_next_attempt(const SlotSet& slots, int64_t us);
  // The first of all that lie after `now_us`; 0: there is none.
  int64_t next_attempt_us(int64_t now_us) const;

  SlotRow row(int slot) const;
  SlotSet in_phase(SlotPhase phase) const;
  SlotSet automatic() const;
  SlotSet owned_by(PairSide side) const;  // of all slots that pass the shim, but for doubts
  HostPort owner(const SlotRow& row) const;
  uint64_t route_epoch() const;

 private:
  std::shared_ptr<const RouteTable> table_locked();
  bool is_stopped(PairSide side) const;           // mutex_ held
  Status publish_flag(bool* flag, bool stopped);  // gate_ held

  const MovePlan plan_;
  std::mutex
      gate_;  // held while workers acknowledge: tables reach them in the order of their epochs
  DataPlane* plane_ = nullptr;
  mutable std::mutex mutex_;  // everything below
  std::array<SlotRow, kSlotCount> rows_;
  std::array<LagTrend, kSlotCount> lags_;
  bool stopped_[2][4] = {};
  SlotSet unmarked_[2];
  std::string run_id_[2];
  uint64_t route_epoch_ = 0;
  bool note_writes_ = false;     // constant once tables are made
  bool note_timed_ = false;      // likewise
  std::string connection_name_;  // likewise
};

}  // namespace sf
