#include "proxy_shim/control/state_store.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "common/base/coding.h"

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

std::string time_text(int64_t wall_ms) {
  const time_t seconds = wall_ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string millis = std::to_string(1000 + wall_ms % 1000).substr(1);
  return cat(date, ".", millis, "Z");
}

std::string plan_text(const MovePlan& plan) {
  return Json{{"format", kFormat},
              {"plan", plan.id},
              {"slots", plan.slots.text()},
              {"stay", plan.stay.text()},
              {"old", plan.old_side.master.text()},
              {"new", plan.new_side.master.text()}}
      .dump();
}

// Every entry of the store above `last`, a line each.
std::string entries_after(const RecordDb& db, uint64_t last) {
  std::string out;
  [[maybe_unused]] const Status status =
      db.scan(entry_key(last + 1), [&](std::string_view key, std::string_view value) {
        if (key[0] != 'a') return false;
        out.append(value).push_back('\n');
        return true;
      });
  return out;
}

}  // namespace

StateStore::StateStore(std::string dir, const Clock* clock) : dir_(std::move(dir)), clock_(clock) {}

Result<std::unique_ptr<StateStore>> StateStore::open(const std::string& dir, const MovePlan& plan,
                                                     bool init, const Clock* clock, bool adopt) {
  std::unique_ptr<StateStore> store(new StateStore(dir, clock));
  const std::string db_dir = dir + "/state";
  const bool there = RecordDb::exists(db_dir);
  if (!there && !init) {
    return Status::refused(cat(dir, " holds no record of who owns the slots of plan ", plan.id,
                               ": pass --init if the shim is started for this plan for the first "
                               "time, else point --dir to the folder it used before"));
  }
  std::lock_guard guard(store->mutex_);
  auto db = RecordDb::open(db_dir, there ? RecordDb::Mode::kExisting : RecordDb::Mode::kCreate);
  if (!db) return store->explained(db.status());
  store->db_ = std::move(*db);
  auto text = store->db_->get("m");
  if (!text) return store->explained(text.status());
  Status status;
  if (!*text && init) {
    status = store->first_start(plan);
  } else if (*text && init) {
    status = Status::exists(cat(dir,
                                " holds a record of a plan already: start without --init, or give "
                                "--dir another folder"));
  } else if (!*text) {
    status = Status::corrupt(cat(dir, " holds no finished record: if the shim never served plan ",
                                 plan.id, " from it, pass --init"));
  }
  if (status) status = store->load(plan, adopt && !init);
  if (!status) return status;
  store->audit_file_ = std::make_unique<AuditFile>(
      dir + "/audit.jsonl",
      [db = store->db_.get()](uint64_t last) { return entries_after(*db, last); });
  status = store->audit_file_->open();
  if (!status) return status;
  store->heal_record_ = store->now_.heal;
  return store;
}

// What an operator can do about it.
Status StateStore::explained(const Status& status) const {
  if (status.code() != Code::kCorrupt) return status;
  return Status::corrupt(
      cat("the state in ", dir_, " is damaged (", status.text(),
          "): bring the folder back from a copy made while the shim was stopped; "
          "an older state is not used, because it could name the wrong owner"));
}

Status StateStore::damaged(const std::string& what) const {
  return explained(Status::corrupt(what));
}

Status StateStore::first_start(const MovePlan& plan) {
  RecordBatch batch;
  plan.slots.for_each([&](int slot) { batch.put(slot_key(slot), record_text({})); });
  batch.put("e", epoch_text(0));
  batch.put("m", plan_text(plan));
  return db_->write(batch, true);
}

Status StateStore::check_plan(const MovePlan& plan, const Json& stored, bool adopt) const {
  if (!stored.is_object() || stored.value("format", 0) != kFormat) {
    return Status::corrupt(cat(dir_, " was written by another version of the shim"));
  }
  const std::string id = stored.value("plan", std::string());
  if (id != plan.id) {
    return Status::refused(cat(dir_, " belongs to plan ", id, ", not to ", plan.id,
                               ": give --plan the file of that plan, or --dir another folder"));
  }
  if (adopt) return Status::ok();
  const std::pair<const char*, std::string> parts[] = {{"slots", plan.slots.text()},
                                                       {"stay", plan.stay.text()},
                                                       {"old", plan.old_side.master.text()},
                                                       {"new", plan.new_side.master.text()}};
  for (const auto& [name, value] : parts) {
    const std::string was = stored.value(name, std::string());
    if (was != value) {
      return Status::refused(cat("plan ", id, " was started with ", name, " ", was,
                                 " and the file now says ", value,
                                 ": use the file it was started with, or, if the change is meant, "
                                 "pass --adopt"));
    }
  }
  return Status::ok();
}

Result<Json> StateStore::plan_record() const {
  const auto text = db_->get("m");
  if (!text) return explained(text.status());
  Json stored = *text ? Json::parse(**text, nullptr, false) : Json();
  if (!stored.is_object()) return damaged("the record of the plan cannot be read");
  return stored;
}

Status StateStore::load(const MovePlan& plan, bool adopt) {
  try {
    const auto stored = plan_record();
    if (!stored) return stored.status();
    Status status = check_plan(plan, *stored, adopt);
    if (status) status = load_records();
    if (!status) return status;
    if (adopt) return check_successor(plan);
    const bool whole = now_.slots.size() == static_cast<size_t>(plan.slots.size());
    return whole ? Status::ok() : damaged("records are missing");
  } catch (const Json::exception& e) {
    return damaged(e.what());
  }
}

// What is remembered is replaced by what stands on the disk, whole or not at all.
Status StateStore::load_records() {
  StateRecords found;
  bool sound = true;
  const Status read = db_->scan("", [&](std::string_view key, std::string_view value) {
    return sound = found.take(key, value);
  });
  if (!read) return explained(read);
  if (!sound || !found.epoch) return damaged("a record cannot be read");
  found.next_entry = std::max(found.next_entry, now_.next_entry);
  now_ = std::move(found);
  return Status::ok();
}

Status StateStore::usable() {
  if (!stale_) return Status::ok();
  Status status = db_->broken() ? db_->reopen() : Status::ok();
  if (status) status = load_records();
  if (!status) return status.with_context("the state cannot be written");
  stale_ = false;
  RecordBatch batch;
  const std::string line = add_entry(batch, {{"what", "state opened anew after a failed write"}});
  return write(batch, true, line);
}

Status StateStore::check_successor(const MovePlan& plan) const {
  SlotSet known;
  bool switched = false;
  for (const auto& [slot, record] : now_.slots) {
    known.add(slot);
    switched = switched || record.phase != SlotPhase::kOld;
  }
  SlotSet gone = known;
  gone.remove(plan.slots);
  if (!gone.empty()) {
    return Status::refused(cat("slots ", gone.text(),
                               " are not in the plan file any more, and the record of their owners "
                               "is here: put them back; a move ends with FINAL and cleanup"));
  }
  if (plan.unit == CutUnit::kPlan && switched && !(known == plan.slots)) {
    return Status::refused(cat("plan ", plan.id,
                               " moves its slots as one unit, which was switched already: more "
                               "slots need a plan of their own"));
  }
  return Status::ok();
}

Status StateStore::adopt_plan(const MovePlan& plan) {
  std::lock_guard guard(mutex_);
  if (Status status = usable(); !status) return status;
  const auto stored = plan_record();
  if (!stored) return stored.status();
  const std::string id = stored->value("plan", std::string());
  if (id != plan.id) {
    return Status::refused(cat("the record is of plan ", id, ", the file is of plan ", plan.id));
  }
  Status status = check_successor(plan);
  if (!status) return status;
  RecordBatch batch;
  std::map<int, SlotRecord> added;
  plan.slots.for_each([&](int slot) {
    if (now_.slots.count(slot) == 0) added[slot] = {};
  });
  batch.put("m", plan_text(plan));
  const std::string line = add_entry(batch, {{"what", "plan adopted"},
                                             {"old", plan.old_side.master.text()},
                                             {"new", plan.new_side.master.text()},
                                             {"slots", plan.slots.text()}});
  status = put_records(added, batch, true, line);
  if (status) now_.masters = {plan.old_side.master.text(), plan.new_side.master.text()};
  return status;
}

PairMasters StateStore::masters() const {
  std::lock_guard guard(mutex_);
  return now_.masters;
}

std::map<int, SlotRecord> StateStore::records() const {
  std::lock_guard guard(mutex_);
  return now_.slots;
}

SlotRecord StateStore::record(int slot) const {
  std::lock_guard guard(mutex_);
  const auto found = now_.slots.find(slot);
  return found == now_.slots.end() ? SlotRecord{} : found->second;
}

uint64_t StateStore::epoch() const {
  std::lock_guard guard(mutex_);
  return *now_.epoch;
}

Result<uint64_t> StateStore::next_epoch() {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  const uint64_t epoch = reserve_locked();
  RecordBatch batch;
  batch.put("e", epoch_text(epoch));
  Status status = write(batch, true, "");
  if (!status) return status;
  return *now_.epoch = epoch;
}

uint64_t StateStore::reserve_locked() {
  return reserved_ = std::max(reserved_, *now_.epoch) + 1;
}

uint64_t StateStore::reserve_epoch() {
  std::lock_guard guard(mutex_);
  return reserve_locked();
}

std::string StateStore::add_entry(RecordBatch& batch, const Json& entry) {
  Json line = {{"n", now_.next_entry}, {"wall_ms", clock_->wall_ms()}};
  line["time"] = time_text(clock_->wall_ms());
  for (const auto& [key, value] : entry.items()) line[key] = value;
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  batch.put(entry_key(now_.next_entry++), text);
  return text + "\n";
}

Status StateStore::write(const RecordBatch& batch, bool sync, const std::string& audit_line) {
  const Status status = db_->write(batch, sync);
  stale_ = !status;
  if (stale_) audit_file_->fall_behind();
  if (!status) return explained(status);
  if (audit_line.empty()) return status;
  audit_file_->append(now_.next_entry - 1, audit_line);
  if (on_entry_) on_entry_(now_.next_entry - 1, audit_line.substr(0, audit_line.size() - 1));
  return status;
}

Status StateStore::put_records(const std::map<int, SlotRecord>& changed, RecordBatch& batch,
                               bool sync, const std::string& audit_line) {
  for (const auto& [slot, record] : changed) batch.put(slot_key(slot), record_text(record));
  Status status = write(batch, sync, audit_line);
  if (!status) return status;
  for (const auto& [slot, record] : changed) now_.slots[slot] = record;
  return status;
}

std::map<int, SlotRecord> StateStore::records_of(const SlotSet& slots) const {
  std::map<int, SlotRecord> out;
  slots.for_each([&](int slot) {
    const auto found = now_.slots.find(slot);
    out[slot] = found == now_.slots.end() ? SlotRecord{} : found->second;
  });
  return out;
}

Status StateStore::record_intent(const SlotSet& slots, uint64_t epoch, const Json& entry,
                                 bool back) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  std::map<int, SlotRecord> changed = records_of(slots);
  for (auto& [slot, record] : changed) {
    record.attempt = epoch;
    record.back = back;
  }
  // Attempts run side by side: one with a higher epoch may have been recorded already.
  const uint64_t highest = std::max(*now_.epoch, epoch);
  reserved_ = std::max(reserved_, highest);
  batch.put("e", epoch_text(highest));
  const std::string line = add_entry(batch, entry);
  Status status = put_records(changed, batch, true, line);
  if (status) *now_.epoch = highest;
  return status;
}

Status StateStore::commit_owner(const SlotSet& slots, const SlotRecord& record, const Json& entry) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  std::map<int, SlotRecord> changed;
  slots.for_each([&](int slot) { changed[slot] = record; });
  const std::string line = add_entry(batch, entry);
  return put_records(changed, batch, true, line);
}

Status StateStore::set_final(const SlotSet& slots, const Json& entry) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  std::map<int, SlotRecord> changed = records_of(slots);
  for (auto& [slot, record] : changed) {
    record.phase = SlotPhase::kFinal;
    record.back = false;
  }
  const std::string line = add_entry(batch, entry);
  return put_records(changed, batch, true, line);
}

Status StateStore::set_marked(const SlotSet& slots) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  std::map<int, SlotRecord> changed = records_of(slots);
  for (auto& [slot, record] : changed) record.marked = true;
  return put_records(changed, batch, false, "");
}

Status StateStore::set_linked(const SlotSet& slots, bool linked) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  std::map<int, SlotRecord> changed = records_of(slots);
  for (auto& [slot, record] : changed) record.linked = linked;
  return put_records(changed, batch, false, "");
}

RunLock StateStore::run_lock() const {
  std::lock_guard guard(mutex_);
  return now_.lock;
}

Result<RunLock> StateStore::take_lock(const std::string& owner, bool force) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  // Its owner may take it again, after a crash say: the epoch rises, and what the earlier one sent
  // late is refused.
  if (!now_.lock.owner.empty() && now_.lock.owner != owner && !force) {
    return Status::refused(cat("the run lock is held by ", now_.lock.owner, " (epoch ",
                               now_.lock.epoch,
                               "): end that run, or take the lock over with FORCE"));
  }
  const RunLock taken{owner, now_.lock.epoch + 1};
  RecordBatch batch;
  batch.put("l", lock_text(taken));
  const std::string line = add_entry(batch, {{"what", "lock taken"},
                                             {"owner", owner},
                                             {"from", now_.lock.owner},
                                             {"epoch", taken.epoch}});
  Status status = write(batch, true, line);
  if (!status) return status;
  now_.lock = taken;
  return now_.lock;
}

Status StateStore::drop_lock(const std::string& owner, uint64_t epoch) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  if (now_.lock.owner != owner || now_.lock.epoch != epoch) {
    return Status::refused(
        now_.lock.owner.empty()
            ? std::string("the run lock is free")
            : cat("the run lock is held by ", now_.lock.owner, " (epoch ", now_.lock.epoch, ")"));
  }
  RecordBatch batch;
  batch.put("l", lock_text({"", epoch}));
  const std::string line =
      add_entry(batch, {{"what", "lock given back"}, {"owner", owner}, {"epoch", epoch}});
  Status status = write(batch, true, line);
  if (status) now_.lock.owner.clear();
  return status;
}

void StateStore::audit(const Json& entry) {
  std::lock_guard guard(mutex_);
  if (!usable()) return;
  RecordBatch batch;
  const std::string line = add_entry(batch, entry);
  [[maybe_unused]] const Status status = write(batch, false, line);
}

Status StateStore::audit_synced(const Json& entry) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  const std::string line = add_entry(batch, entry);
  return write(batch, true, line);
}

Result<std::vector<ListedKey>> StateStore::heal_keys() const {
  std::lock_guard guard(mutex_);
  std::vector<ListedKey> out;
  bool whole = true;
  const Status read = db_->scan("k", [&](std::string_view key, std::string_view /*value*/) {
    if (key[0] != 'k') return false;
    const auto listed = parse_listed_key(key);
    whole = listed.has_value();
    if (whole) out.push_back(*listed);
    return whole;
  });
  if (!read) return explained(read);
  if (!whole) return Status::corrupt(cat("a key of the heal list in ", dir_, " is cut"));
  return out;
}

Status StateStore::put_heal(const HealRecord& record, const std::vector<ListedKey>& add,
                            const std::vector<ListedKey>& drop, bool sync) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  for (const ListedKey& key : add) batch.put(listed_key(key), "");
  for (const ListedKey& key : drop) batch.erase(listed_key(key));
  batch.put("h", heal_text(record));
  return write(batch, sync, "");
}

Status StateStore::clear_heal(const HealRecord& record) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  batch.erase_range("k", "l");
  batch.put("h", heal_text(record));
  return write(batch, true, "");
}

std::optional<std::string> StateStore::note(const std::string& key) const {
  std::lock_guard guard(mutex_);
  const auto found = now_.notes.find(key);
  if (found == now_.notes.end()) return std::nullopt;
  return found->second;
}

Status StateStore::put_note(const std::string& key, const std::string& value) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  batch.put("n" + key, note_text(value));
  const std::string line = add_entry(
      batch, {{"what", "setting noted before it is changed"}, {"name", key}, {"value", value}});
  Status status = write(batch, true, line);
  if (status) now_.notes[key] = value;
  return status;
}

Status StateStore::drop_note(const std::string& key) {
  std::lock_guard guard(mutex_);
  if (Status usable_now = usable(); !usable_now) return usable_now;
  RecordBatch batch;
  batch.erase("n" + key);
  Status status = write(batch, false, "");
  if (status) now_.notes.erase(key);
  return status;
}

}  // namespace sf
