// What the shim must remember: which plan it serves, who owns each slot, the highest epoch used,
// the run lock, and the audit log (I3, I10, I12). RocksDB, opened so that damage is an error and
// never an older state. Thread-safe.
//
// Keys (values are JSON objects):
//   m                    {"format":1,"plan":..,"slots":..,"stay":..,"old":..,"new":..}
//   e                    {"epoch":n}                 highest epoch ever handed out
//   l                    {"owner":..,"epoch":n}      run lock
//   n<name>              {"value":..}                driver notes
//   h                    HealRecord
//   k<slot, db, key>     a key of the heal list; no value
//   s<slot, 2 big>       SlotRecord
//   a<number, 8 big>     audit entry; the same lines stand in <dir>/audit.jsonl for people and
//   programs
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
#include "common/slots/move_plan.h"
#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/control/cutover_machine.h"

namespace rocksdb {
class DB;
class WriteBatch;
}  // namespace rocksdb

namespace sf {

struct SlotRecord {
  SlotPhase phase = SlotPhase::kOld;  // kOld, kNew or kFinal: who owns the slot
  uint64_t epoch = 0;                 // of the last switch; 0: there was none
  uint64_t attempt = 0;               // epoch of the last attempt whose intent was recorded
  bool back = false;                  // that attempt goes from the new side to the old one
  ReplPosition proof;                 // end of the side that was left, at the switch
  ReplPosition promoted;              // own position there of the side that owns it since
  std::string owner;                  // its address; "" if not kept then
  bool marked = false;                // the marker stands on the new side
  bool linked = false;                // the side that was left follows the owner
};

struct RunLock {
  std::string owner;  // "" if free
  uint64_t epoch = 0;
};

// What is known of the heal list besides its keys (heal_list.h).
struct HealRecord {
  bool clean = false;   // the shim that kept it has stopped and written all of it
  bool passed = false;  // everything older than it was compared
  std::string pair;     // the two processes it is about
};
struct ListedKey {
  int slot = 0;
  HealKey at;
  auto operator<=>(const ListedKey&) const = default;
};

class StateStore : public DriverNotes {
 public:
  // `init`: the first start of this plan; refused if `dir` holds a record already. Without it,
  // refused if there is none, it is another plan's, or it is damaged. `adopt`: the plan may have
  // changed as adopt_plan() allows, which is to be called before anything else is asked of slots.
  // `clock` outlives the store.
  static Result<std::unique_ptr<StateStore>> open(const std::string& dir, const MovePlan& plan,
                                                  bool init, const Clock* clock,
                                                  bool adopt = false);
  ~StateStore() override;

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
  // Both masters by the record: those of the plan that was last started with or adopted.
  struct Masters {
    std::string old_side, new_side;  // host:port
  };
  Masters masters() const;

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
  Status open_db(bool create);
  Status first_start(const MovePlan& plan);
  Status load(const MovePlan& plan, bool adopt);
  Status load_records();
  Status check_plan(const MovePlan& plan, const nlohmann::json& stored, bool adopt) const;
  // With mutex_ held.
  Status check_successor(const MovePlan& plan) const;
  Status adopt_locked(const MovePlan& plan);
  Status open_audit_file();
  // All with mutex_ held.
  uint64_t reserve_locked();
  std::string add_entry(rocksdb::WriteBatch& batch, const nlohmann::json& entry);
  Status write(rocksdb::WriteBatch& batch, bool sync, const std::string& audit_line);
  Status put_records(const std::map<int, SlotRecord>& changed, rocksdb::WriteBatch& batch,
                     bool sync, const std::string& audit_line);

  const std::string dir_;
  const Clock* const clock_;
  mutable std::mutex mutex_;  // everything below
  std::unique_ptr<rocksdb::DB> db_;
  std::map<int, SlotRecord> records_;
  std::map<std::string, std::string> notes_;
  uint64_t epoch_ = 0;     // durable
  uint64_t reserved_ = 0;  // handed out
  RunLock lock_;
  Masters masters_;
  uint64_t next_entry_ = 1;
  std::optional<HealRecord> heal_record_;  // constant after open()
  std::function<void(uint64_t, const std::string&)> on_entry_;
  int audit_fd_ = -1;
};

}  // namespace sf
