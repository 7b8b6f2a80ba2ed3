// What the drivers for Pika have in common (pika_rehearsal.cc and pika_prepare.cc: before a pause,
// pika_recopy.cc: a copy for what restarted, pika_driver.cc: in it, pika_heal.cc: comparing and
// healing; DESIGN 6.3, 6.4; contracts/pika 2.1, 3.2-3.5). Pika has no fence, no epochs and no word
// for "applied", so:
//
//   end final   accounting: with every write of the binlog held, its end P is read, fence keys are
//               written, its end E is read; E must be where our own records alone lead to. Read
//               again before and after the promote.
//   applied     all fence keys readable on the new side, which follows, has its link up and has
//               logged up to E.
//   promote     leaves replication, CONFIG REWRITE, both read back.
//   take back   follows again, if its end still is the E that was noted before it left.
//   marker      a reserved key on the new side.
//
// A copy is trusted only while neither server restarts: a Pika killed with -9 loses what it had
// queued for ever, and nothing it says shows it. The pair of run ids first seen is noted; a full
// copy that was seen to run makes a new pair.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/pika/pika_status.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/pika_faults.h"
#include "proxy_shim/control/pika_fence.h"
#include "proxy_shim/control/pika_keys.h"
#include "proxy_shim/control/pika_link_watch.h"
#include "proxy_shim/control/pika_processes.h"
#include "proxy_shim/control/pika_trust.h"
#include "proxy_shim/control/resp_client.h"

namespace sf {

// What one server says about the unit, now.
struct PikaSide {
  std::string run_id;  // as PikaProcesses names it
  bool is_master = false;
  std::optional<std::string> id;  // ReplicationID, where the version has one
  HostPort master;                // of a replica, as said
  PikaLink link = PikaLink::kNone;
  bool settled = true;                       // no copy runs or is about to
  std::vector<HostPort> replicas;            // of a master, as they announce themselves
  std::map<std::string, BinlogOffset> ends;  // by binlog: database ("db0") or slot ("905")
};

class PikaDriver : public BackendDriver {
 public:
  PikaDriver(const MovePlan& plan, DriverNotes* notes, const Clock* clock, const std::string& name);

  Status connect(int64_t timeout_ms) override;
  Status raise_epoch(const CutAttempt&, int64_t) override { return Status::ok(); }
  // Everything that can be done before the pause: sync, identity, the fence's names chosen and
  // noted, what an earlier attempt left deleted.
  Status announce(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> fence(const CutAttempt& attempt, int64_t lease_ms,
                             int64_t timeout_ms) override;
  Result<bool> wait_applied(const CutAttempt& attempt, const ReplPosition& end,
                            int64_t timeout_ms) override;
  // CLIENT LIST has addresses only. Ours, and those from the hosts of the dashboard and of the
  // plan's servers, are let pass.
  Status check_writers(int64_t timeout_ms) override;
  // There is none: the end is read again and must be what it was.
  Result<ReplPosition> fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<ReplPosition> promote(const CutAttempt& attempt, const ReplPosition& end,
                               int64_t timeout_ms) override;
  Result<Ends> read_ends(const CutAttempt& attempt, const ReplPosition& end,
                         int64_t timeout_ms) override;
  Result<Healing> heal(const CutAttempt& attempt, const std::vector<HealKey>& keys,
                       int64_t timeout_ms) override;
  Result<Healing> compare(const SlotSet& slots, const std::vector<HealKey>& keys,
                          bool settled_first, int64_t timeout_ms) override;
  Result<std::vector<HealKey>> next_keys(PassCursor* cursor, int64_t timeout_ms) override;
  std::string healable_faults() const override;
  std::string pair() const override { return pair_; }
  Status mark(const CutAttempt& attempt, int64_t timeout_ms) override;
  Result<uint64_t> marker(int64_t timeout_ms) override;
  Result<std::map<int, uint64_t>> markers(const SlotSet& slots, int64_t timeout_ms) override;
  // Deletes the fence keys at the owner.
  Status release(const CutAttempt& attempt, int64_t timeout_ms) override;
  Status follow_again(const CutAttempt& attempt, const ReplPosition& from,
                      int64_t timeout_ms) override;
  Status unfence(const CutAttempt&, int64_t) override { return Status::ok(); }
  // Leaves replication once and follows again, where the version needs it (pika_rehearsal.cc).
  Status make_ready(const SlotSet& slots, int64_t timeout_ms) override;
  SyncState sync_state(const SlotSet& slots, int64_t timeout_ms) override;
  int64_t lag_limit() const override { return 1 << 20; }

 protected:
  using Binlogs = std::map<std::string, BinlogOffset>;

  // What `client`'s server says about `slots`: one round trip.
  virtual Result<PikaSide> look(RespClient& client, const SlotSet& slots, int64_t timeout_ms) = 0;
  // Leaves replication, persisted, and reads back that a restart would not undo it.
  virtual Status leave(RespClient& client, const SlotSet& slots, int64_t timeout_ms) = 0;
  // Follows `leader` without force, persisted where the kind persists it.
  virtual Status follow(RespClient& client, const HostPort& leader, const SlotSet& slots,
                        int64_t timeout_ms) = 0;
  // Follows `leader` from a full copy, persisted where the kind persists it.
  virtual Status follow_by_copy(RespClient& client, const HostPort& leader, const SlotSet& slots,
                                int64_t timeout_ms) = 0;
  // The commands a person gives the new side to have it copied anew.
  virtual std::string copy_words(const SlotSet& slots) const = 0;
  // The slot whose tag the fence's keys and the marker carry.
  virtual int tag_slot(const SlotSet& slots) const = 0;
  // Database of a binlog; -1: the only one.
  virtual int database_of(const std::string& binlog) const = 0;
  // Is what is said about the kind of mode what this driver is for?
  virtual Status check_mode(RespClient& client, int64_t timeout_ms) = 0;

  Result<std::string> config_get(RespClient& client, const char* name, int64_t timeout_ms);
  std::string process_of(const RespClient& client, const PikaServer& server) {
    return processes_.name(client.address(), server);
  }
  // A server by another address than the plan's: Pika says its interface's, not the one dialled.
  bool is_server(const HostPort& said, RespClient& known, const std::string& run_id,
                 int64_t timeout_ms);
  // Why the pair is not following as it must; "" if it is.
  std::string not_following(const SlotSet& slots, const PikaSide& from, const PikaSide& to,
                            int64_t timeout_ms);
  int64_t lag_of(const PikaSide& from, const PikaSide& to) const;
  uint64_t bytes_of(const PikaSide& side) const;  // of all its binlogs, what is purged included
  ReplPosition position(const PikaSide& side) const;
  SlotReport report(const PikaSide& from, const PikaSide& to, bool of_new, bool following) const;
  const MovePlan& plan() const { return plan_; }
  std::string marker_key(int slot) const;
  // Where the new side left replication; refused if that was not noted.
  Result<Binlogs> noted_end(const SlotSet& slots) const;

  RespClient old_;
  RespClient new_;
  PikaServer old_server_;
  PikaServer new_server_;

 private:
  struct Attempt {
    SlotSet slots;
    PikaFence fence;
    std::string old_run_id, new_run_id;
    Binlogs end;
    bool committed = false;
  };
  Result<PikaServer> ask_server(RespClient& client, int64_t timeout_ms);
  Result<PikaTrust::Verdict> judge(const SlotSet& slots, const PikaSide& from, const PikaSide& to);
  std::string distrust(const SlotSet& slots, const PikaSide& from, const PikaSide& to);
  // What a restart left is mended by a full copy (pika_recopy.cc).
  Result<bool> needs_copy(const SlotSet& slots, const PikaSide& from, const PikaSide& to,
                          int64_t timeout_ms);
  Status copy_anew(const SlotSet& slots, const PikaSide& from, const PikaSide& to,
                   int64_t timeout_ms);
  Status follow_copy(const SlotSet& slots, int64_t timeout_ms);
  Status note_left(const SlotSet& slots, const PikaSide& from, const PikaSide& to);
  void forget_rehearsal();  // a full copy runs: the next leaving is slow again
  Status same_processes(const PikaSide& side, PairSide which) const;
  // Once for a pair of processes: do they replicate what clients write as it was written?
  Status try_faithful(const PikaSide& from, const PikaSide& to, int64_t timeout_ms);
  // How long does it take now until every apply worker has done what is written? Refused if longer
  // than the plan's pause: it would be missed. Believed for kForecastUs.
  Status forecast(int64_t timeout_ms);
  Result<int64_t> settle(const SlotSet& slots, int64_t most_us, int64_t timeout_ms);
  struct Pair {
    HealKey at;
    PikaValue was, is;  // at the old and at the new side
  };
  Result<std::vector<Pair>> differing(const std::vector<HealKey>& keys, int64_t timeout_ms);
  Healing healing_of(const std::vector<Pair>& pairs, size_t compared) const;
  Status write_healed(const std::vector<Pair>& pairs, int64_t deadline_us);
  std::string heal_note(const SlotSet& slots) const;
  PikaAsked asked() const;
  std::string unit_name(const SlotSet& slots) const;
  std::string copying_text(const SlotSet& slots) const;
  std::string stuck_text(const SlotSet& slots) const;
  Status sweep(int64_t timeout_ms);  // fence keys of attempts that were taken back
  std::vector<std::vector<std::string>> fence_requests(const Binlogs& binlogs, bool remove) const;
  static bool all_values(const Reply& reply, const PikaFence& fence);
  Result<bool> all_readable(const Binlogs& binlogs, int64_t timeout_ms);
  Status note_end(const CutAttempt& attempt, const PikaSide& side);
  Status still_at(const PikaSide& side, const Binlogs& end, const char* whose) const;
  std::string fence_note(const SlotSet& slots) const;
  std::string end_note(const SlotSet& slots) const;

  const MovePlan plan_;
  DriverNotes* notes_;
  const Clock* clock_;
  std::string name_;
  uint64_t file_size_ = 0;
  PikaProcesses processes_;
  PikaTrust trust_;
  PikaLinkWatch links_;
  std::string tried_;  // the pair of run ids `faults_` was found for
  std::vector<PikaFault> faults_;
  int databases_ = 0;  // 0: not asked
  std::string pair_;   // of run ids, as last seen
  bool was_copying_ = false;
  std::string leaving_;      // run id of the new side while make_ready() has it leave
  int64_t forecast_us_ = 0;  // when the last good one was made; 0: none
  int64_t trial_ms_ = 0;     // how long it took until its keys were applied
  Attempt now_;
};

}  // namespace sf
