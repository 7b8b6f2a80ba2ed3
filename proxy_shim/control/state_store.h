// What the shim must remember: which plan it serves, who owns each slot, the highest epoch used,
// the run lock, and the audit log (I3, I10, I12). Damage is an error and never an older state
// (common/records). Where the disk was full, everything is read again from it as soon as it has
// room: no restart is needed, except for slots whose owner record it was (DOUBT). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/records/record_db.h"
#include "common/slots/move_plan.h"
#include "proxy_shim/control/audit_file.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/state_records.h"

namespace sf {

class StateStore : public DriverNotes {
 public:
  // `init`: the first start of this plan; refused if `dir` holds a record already. Without it,
  // refused if there is none, it is another plan's, or it is damaged. `adopt`: the plan may have
  // changed as adopt_plan() allows, which is to be called before anything else is asked of slots.
  // `clock` outlives the store.
  static Result<std::unique_ptr<StateStore>> open(const std::string& dir, const MovePlan& plan,
                                                  bool init, const Clock* clock,
                                                  bool adopt = false);

  std::map<int, SlotRecord> records() const;  // of every slot of the plan that moves
  SlotRecord record(int slot) const;
  uint64_t epoch() const;
  // Synced: the next epoch, never handed out before.
  Result<uint64_t> next_epoch();

  // In memory only, never handed out before in this life: an attempt's, which record_intent() makes
  // durable before any server hears of it.
  uint64_t reserve_epoch();
  // Synced: an attempt at `slots` with `epoch`, a reserved one, is about to begin; epoch() is at
  // least that then. `entry` goes to the audit log.
  Status record_intent(const SlotSet& slots, uint64_t epoch, const nlohmann::json& entry,
                       bool back = false);
  // Synced: THE commit point. An error means that it is unknown whether the record is written.
  Status commit_owner(const SlotSet& slots, const SlotRecord& record, const nlohmann::json& entry);
  Status set_final(const SlotSet& slots, const nlohmann::json& entry);  // synced
  Status set_marked(const SlotSet& slots);                              // not synced: asked again
  Status set_linked(const SlotSet& slots, bool linked);

  // Synced: the plan as it is now, changed since the last start or reload. Refused, with a
  // sentence, where the record does not allow it: another plan, slots taken away, slots added to a
  // unit that was switched already. Slots that are new belong to the old side.
  Status adopt_plan(const MovePlan& plan);
  PairMasters masters() const;

  RunLock run_lock() const;
  Result<RunLock> take_lock(const std::string& owner, bool force);  // synced
  Status drop_lock(const std::string& owner, uint64_t epoch);

  // The heal list. Nothing if there is none yet.
  std::optional<HealRecord> heal_record() const { return heal_record_; }  // as found at the start
  Result<std::vector<ListedKey>> heal_keys() const;
  Status put_heal(const HealRecord& record, const std::vector<ListedKey>& add,
                  const std::vector<ListedKey>& drop, bool sync);
  Status clear_heal(const HealRecord& record);  // synced: no keys any more

  // Adds "n", "wall_ms" and "time". Not synced unless told; never fails the caller's work.
  void audit(const nlohmann::json& entry);
  Status audit_synced(const nlohmann::json& entry);
  // Called with each entry that was written (its number, its line), on the writer's thread, inside
  // the store's lock: quick, and it does not call back. Before any other thread uses the store.
  void on_entry(std::function<void(uint64_t number, const std::string& line)> fn) {
    on_entry_ = std::move(fn);
  }

  std::optional<std::string> note(const std::string& key) const override;
  Status put_note(const std::string& key, const std::string& value) override;
  Status drop_note(const std::string& key) override;

 private:
  StateStore(std::string dir, const Clock* clock);
  // All with mutex_ held.
  Status first_start(const MovePlan& plan);
  Status load(const MovePlan& plan, bool adopt);
  Status load_records();
  Result<nlohmann::json> plan_record() const;
  Status check_plan(const MovePlan& plan, const nlohmann::json& stored, bool adopt) const;
  Status check_successor(const MovePlan& plan) const;
  Status explained(const Status& status) const;
  Status damaged(const std::string& what) const;
  // To be asked before anything is changed, or computed from what is remembered.
  Status usable();
  uint64_t reserve_locked();
  std::string add_entry(RecordBatch& batch, const nlohmann::json& entry);
  Status write(const RecordBatch& batch, bool sync, const std::string& audit_line);
  Status put_records(const std::map<int, SlotRecord>& changed, RecordBatch& batch, bool sync,
                     const std::string& audit_line);
  // The records of `slots` as they are, for put_records() to write with a change.
  std::map<int, SlotRecord> records_of(const SlotSet& slots) const;

  const std::string dir_;
  const Clock* const clock_;
  mutable std::mutex mutex_;  // everything below
  std::unique_ptr<RecordDb> db_;
  bool stale_ = false;  // a write failed: what it left on the disk is not known
  StateRecords now_;
  uint64_t reserved_ = 0;                  // the highest epoch handed out
  std::optional<HealRecord> heal_record_;  // constant after open()
  std::function<void(uint64_t, const std::string&)> on_entry_;
  std::unique_ptr<AuditFile> audit_file_;
};

}  // namespace sf
