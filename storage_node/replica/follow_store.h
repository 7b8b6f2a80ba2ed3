// Carries out what a FollowSession asks of the data: positions are saved in the same batch as the
// data they speak of, so that after a kill the one is as old as the other.
//
// Everything expects ReplicaState::mutex held, but StoreJob::run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "replication/peer_session.h"
#include "storage_node/replica/replica_state.h"

namespace sf {

// A copied slot to be put in place; made under the mutex, run outside it.
struct StoreJob {
  int slot = 0;
  // On disk before the slot's data changes: it has no position until `sys` is. A large slot is not
  // put in place at one stroke.
  SysRecords before;
  SysRecords sys;
  std::optional<uint64_t> as_seq;
  uint64_t version = 0;  // above every version in the slot
  Status run(Engine& engine, const std::vector<std::pair<Cf, std::string>>& files) const {
    if (!before.empty()) {
      Status s = engine.with_gate([this](Gate& gate) { return gate.write_sys(before, true); });
      if (!s) return s;
    }
    return engine.replace_slot(slot, files, sys, version, as_seq);
  }
};

class FollowStore {
 public:
  FollowStore(ReplicaState& state, std::shared_ptr<Source> source)
      : state_(state), source_(std::move(source)) {}

  Status accepted(const wire::Hello& hello);
  Status took(const follow::Took& took);
  StoreJob store_job(const wire::CopyDone& done, std::optional<uint64_t> reload_seq);
  void stored(const wire::CopyDone& done, std::optional<uint64_t> reload_seq);
  Status begin_stream(uint64_t seq);
  Status apply(const follow::Apply& apply);
  void master_time(int64_t time_ms);
  Status adopt(const History& history);
  // The stream position, if it moved since it was last saved: frames without data are not worth a
  // batch.
  Status save_position();

 private:
  void put_position(uint64_t stream, SysRecords& records) const;
  Status begin_mirror(uint64_t seq);
  Status take_shared(const SysRecords& changes, SlotSet slots);
  void note_clock(int64_t time_ms);
  Status apply_mirror(const follow::Apply& apply);
  Status apply_slots(const follow::Apply& apply);
  Status unplace(const SlotSet& slots, bool forget_position, SysRecords records);
  void plan_copies(int slots);
  void end_copies();

  ReplicaState& state_;
  std::shared_ptr<Source> source_;
  int64_t told_time_ms_ = 0;
  SlotSet told_slots_;  // those that heard it
};

}  // namespace sf
