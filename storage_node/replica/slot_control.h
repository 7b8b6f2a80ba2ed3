// The verbs that say who owns a slot: follow, fence, promote (docs/COMMANDS.md;
// DESIGN 5.3, 6.2).
//
//   own --SLOTSSLAVEOF, FOLLOW--> followed --PROMOTE, NO ONE--> own
//   own --FENCE LEASE--> leased (lifts itself) --FENCE PERMANENT--> fenced --UNFENCE--> own
//   fenced --FOLLOW--> followed --PROMOTE--> fenced: nobody reads nor writes it before UNFENCE
//
// Each verb checks everything and writes one record set inside the gate, so it is done entirely or
// not at all, across a kill. The fsync comes behind the gate (ADR 0014): until it is done the
// stricter of old and new is in force, and the verb returns only then. Plans' epochs never go back.
//
// Any thread that may wait for the disk; try_fence_leased: any thread. A failed verb's text is the
// RESP error to send, code word first, without '-'.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "storage_node/replica/replica_state.h"

namespace sf {

struct PlanEpoch {
  std::string plan;
  uint64_t epoch = 0;
};

struct FenceAnswer {
  Position end;         // highest slot_seq of the slots, in this node's history
  int64_t time_ms = 0;  // the node's clock
};

struct PromoteAnswer {
  uint64_t applied = 0;  // the lowest followed position of the slots
  Position own;          // new history and its fork
};

class SlotControl {
 public:
  explicit SlotControl(ReplicaState& state) : state_(state) {}

  // Reads the records, begins this start's history, sets the flags. Before the port is open.
  Status load();

  Status slots_slave_of(const HostPort& master, const SlotSet& slots, bool force);
  Status slots_slave_of_no_one(const SlotSet& slots);
  Status slave_of(const HostPort& master);
  Status slave_of_no_one(bool force);

  Status announce_epoch(const SlotSet& slots, const PlanEpoch& by);
  Result<FenceAnswer> fence_leased(const SlotSet& slots, const PlanEpoch& by, int64_t lease_ms);
  // The same without waiting for anything; nullopt: it would have to (another verb, or a record
  // that EPOCH did not write before).
  std::optional<Result<FenceAnswer>> try_fence_leased(const SlotSet& slots, const PlanEpoch& by,
                                                      int64_t lease_ms);
  Result<FenceAnswer> fence_permanently(const SlotSet& slots, const PlanEpoch& by,
                                        const HostPort& new_owner);
  Status unfence(const SlotSet& slots, const PlanEpoch& by);
  Result<PromoteAnswer> promote(const SlotSet& slots, const PlanEpoch& by, const Position& from);
  // A slot that NO ONE took out of replication and nobody wrote since follows from where it stood
  // then; `from` is what others believe of the rest.
  Status follow(const SlotSet& slots, const PlanEpoch& by, const HostPort& master,
                const Position& from);
  // The epoch of each slot's last PROMOTE, here or on the master this node was a replica of, if it
  // was `plan`'s; 0 if not, or if the slot follows somebody now.
  std::map<int, uint64_t> promoted(const SlotSet& slots, const std::string& plan) const;

  // True: applied already. Else `done` is called (any thread, under the lock: must only post) when
  // it is; *waiter is for stop_waiting. kNoSpace: too many wait.
  Result<bool> wait_applied(const SlotSet& slots, const Position& want, std::function<void()> done,
                            uint64_t* waiter);
  bool stop_waiting(uint64_t waiter);  // false: it was done already

  void tick();  // each second or so: lifts what has run out

 private:
  Status load_records();
  Status load_sources();
  Status load_shared();
  void forget_own_records(SysRecords& records) const;
  Status begin_history();
  void find_untouched();
  // The rest expects the mutex held.
  Status check_epoch(const SlotSet& slots, const PlanEpoch& by) const;
  void record_epoch(const SlotSet& slots, const PlanEpoch& by, SysRecords& records) const;
  void set_epoch(const SlotSet& slots, const PlanEpoch& by);
  Status check_own(int slot, const PlanEpoch& by) const;
  Status check_not_storing(int slot) const;
  Status check_none_torn() const;
  // What is wrong between this node's clock and the master's; empty if nothing is.
  std::string clock_difference(const Source& source) const;
  bool untouched(const Gate& gate, int slot) const;
  bool untouched_since_mark(const Gate& gate, int slot) const;
  void set_flags(Gate& gate, int slot);
  // These are the records of slots that follow from now on: no fence or wait of before is theirs.
  void take_followed(Gate& gate, std::map<int, SlotRecord>& changed);
  static Status write(Gate& gate, const SysRecords& records);
  Status settle(std::unique_lock<std::mutex>& lock);
  Status open_when_settled(const SlotSet& slots, std::unique_lock<std::mutex>& lock);
  Result<FenceAnswer> fence_now(const SlotSet& slots, const PlanEpoch& by, int64_t lease_ms,
                                bool* wrote);
  std::shared_ptr<Source> source_for(const HostPort& master);
  void leave(const SlotSet& slots, SysRecords* records);
  FenceAnswer fence_answer(const Gate& gate, const SlotSet& slots) const;

  ReplicaState& state_;
  std::mutex verb_mutex_;  // one verb at a time, from its checks to its fsync; before state_.mutex
};

}  // namespace sf
