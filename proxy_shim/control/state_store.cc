#include "proxy_shim/control/state_store.h"

#include <fcntl.h>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/coding.h"
#include "common/base/file.h"

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

std::string slot_key(int slot) {
  std::string key = "s";
  put_big16(key, static_cast<uint16_t>(slot));
  return key;
}

std::string entry_key(uint64_t number) {
  std::string key = "a";
  put_big64(key, number);
  return key;
}

Json position_json(const ReplPosition& position) {
  return {{"history", position.history}, {"seq", position.seq}};
}

ReplPosition position_of(const Json& json) {
  return {json.value("history", std::string()), json.value("seq", uint64_t{0})};
}

std::string record_text(const SlotRecord& record) {
  return Json{{"phase", phase_name(record.phase)},
              {"epoch", record.epoch},
              {"attempt", record.attempt},
              {"back", record.back},
              {"proof", position_json(record.proof)},
              {"promoted", position_json(record.promoted)},
              {"marked", record.marked},
              {"linked", record.linked},
              {"owner", record.owner}}
      .dump();
}

// Throws nlohmann's exceptions on values of a wrong type.
std::optional<SlotRecord> parse_record(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  SlotRecord out;
  const std::string phase = json.value("phase", std::string());
  bool known = false;
  for (SlotPhase p : {SlotPhase::kOld, SlotPhase::kNew, SlotPhase::kFinal}) {
    if (phase == phase_name(p)) {
      out.phase = p;
      known = true;
    }
  }
  if (!known) return std::nullopt;
  out.epoch = json.value("epoch", uint64_t{0});
  out.attempt = json.value("attempt", uint64_t{0});
  out.back = json.value("back", false);  // not in records of shims that could not go back
  out.proof = position_of(json.value("proof", Json::object()));
  out.promoted = position_of(json.value("promoted", Json::object()));
  out.marked = json.value("marked", false);
  out.linked = json.value("linked", false);
  out.owner = json.value("owner", "");
  return out;
}

std::string listed_key(const ListedKey& key) {
  std::string out = "k";
  put_big16(out, static_cast<uint16_t>(key.slot));
  out.push_back(static_cast<char>(key.at.db));
  return out + key.at.key;
}

std::string heal_text(const HealRecord& record) {
  return Json{{"clean", record.clean}, {"passed", record.passed}, {"pair", record.pair}}.dump();
}

std::string time_text(int64_t wall_ms) {
  const time_t seconds = wall_ms / 1000;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string millis = std::to_string(1000 + wall_ms % 1000).substr(1);
  return cat(date, ".", millis, "Z");
}

Status from_rocks(const rocksdb::Status& status, const std::string& dir) {
  if (status.ok()) return Status::ok();
  if (status.IsCorruption()) {
    return Status::corrupt(
        cat("the state in ", dir, " is damaged (", status.ToString(),
            "): bring the folder back from a copy made while the shim was stopped; "
            "an older state is not used, because it could name the wrong owner"));
  }
  if (status.IsNoSpace()) return Status::no_space(cat(dir, ": no space left on the device"));
  return Status::io(cat(dir, ": ", status.ToString()));
}

std::string plan_record(const MovePlan& plan) {
  return Json{{"format", kFormat},
              {"plan", plan.id},
              {"slots", plan.slots.text()},
              {"stay", plan.stay.text()},
              {"old", plan.old_side.master.text()},
              {"new", plan.new_side.master.text()}}
      .dump();
}

}  // namespace

StateStore::StateStore(std::string dir, const Clock* clock) : dir_(std::move(dir)), clock_(clock) {}

StateStore::~StateStore() {
  if (audit_fd_ >= 0) ::close(audit_fd_);
}

Result<std::unique_ptr<StateStore>> StateStore::open(const std::string& dir, const MovePlan& plan,
                                                     bool init, const Clock* clock, bool adopt) {
  std::unique_ptr<StateStore> store(new StateStore(dir, clock));
  const bool there = std::filesystem::exists(dir + "/state/CURRENT");
  if (!there && !init) {
    return Status::refused(cat(dir, " holds no record of who owns the slots of plan ", plan.id,
                               ": pass --init if the shim is started for this plan for the first "
                               "time, else point --dir to the folder it used before"));
  }
  std::lock_guard guard(store->mutex_);
  Status status = store->open_db(!there);
  if (!status) return status;
  std::string text;
  const rocksdb::Status found = store->db_->Get(rocksdb::ReadOptions(), "m", &text);
  if (found.IsNotFound() && init) {
    status = store->first_start(plan);
  } else if (found.ok() && init) {
    status = Status::exists(cat(dir,
                                " holds a record of a plan already: start without --init, or give "
                                "--dir another folder"));
  } else if (found.IsNotFound()) {
    status = Status::corrupt(cat(dir, " holds no finished record: if the shim never served plan ",
                                 plan.id, " from it, pass --init"));
  } else {
    status = from_rocks(found, dir);
  }
  if (status) status = store->load(plan, adopt && !init);
  if (status) status = store->open_audit_file();
  if (!status) return status;
  return store;
}

Status StateStore::open_db(bool create) {
  rocksdb::Options options;
  options.create_if_missing = create;
  options.paranoid_checks = true;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  options.write_buffer_size = 4UL << 20;
  options.max_background_jobs = 2;
  options.info_log_level = rocksdb::InfoLogLevel::ERROR_LEVEL;
  options.keep_log_file_num = 2;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.compression = rocksdb::kNoCompression;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, dir_ + "/state", &db);
  db_.reset(db);
  return from_rocks(status, dir_);
}

Status StateStore::first_start(const MovePlan& plan) {
  rocksdb::WriteBatch batch;
  plan.slots.for_each([&](int slot) { batch.Put(slot_key(slot), record_text({})); });
  batch.Put("e", Json{{"epoch", 0}}.dump());
  batch.Put("m", plan_record(plan));
  rocksdb::WriteOptions synced;
  synced.sync = true;
  return from_rocks(db_->Write(synced, &batch), dir_);
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

Status StateStore::load(const MovePlan& plan, bool adopt) {
  std::string text;
  rocksdb::Status found = db_->Get(rocksdb::ReadOptions(), "m", &text);
  if (!found.ok()) return from_rocks(found, dir_);
  try {
    const Json stored = Json::parse(text, nullptr, false);
    Status status = check_plan(plan, stored, adopt);
    if (status) status = load_records();
    if (status) masters_ = {stored.value("old", ""), stored.value("new", "")};
    if (status && adopt) return check_successor(plan);
    if (status && records_.size() != static_cast<size_t>(plan.slots.size())) {
      status = from_rocks(rocksdb::Status::Corruption("records are missing"), dir_);
    }
    return status;
  } catch (const Json::exception& e) {
    return from_rocks(rocksdb::Status::Corruption(e.what()), dir_);
  }
}

Status StateStore::load_records() {
  const Status damaged = from_rocks(rocksdb::Status::Corruption("a record cannot be read"), dir_);
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
  bool epoch_seen = false;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string key = it->key().ToString();
    const std::string text = it->value().ToString();
    if (key[0] == 's' && key.size() == 3) {
      const std::optional<SlotRecord> record = parse_record(text);
      if (!record) return damaged;
      records_[big16(key.data() + 1)] = *record;
    } else if (key[0] == 'a' && key.size() == 9) {
      next_entry_ = big64(key.data() + 1) + 1;
    } else if (key[0] != 'k') {
      const Json json = Json::parse(text, nullptr, false);
      if (!json.is_object()) return damaged;
      if (key == "e") epoch_ = json.value("epoch", uint64_t{0});
      if (key == "e") epoch_seen = true;
      if (key == "l")
        lock_ = {json.value("owner", std::string()), json.value("epoch", uint64_t{0})};
      if (key == "h") {
        heal_record_ = {json.value("clean", false), json.value("passed", false),
                        json.value("pair", std::string())};
      }
      if (key[0] == 'n') notes_[key.substr(1)] = json.value("value", std::string());
    }
  }
  if (!it->status().ok()) return from_rocks(it->status(), dir_);
  if (!epoch_seen) return damaged;
  return Status::ok();
}

// The lines of the store are the truth; the file is brought up to them after a crash.
Status StateStore::open_audit_file() {
  const std::string path = dir_ + "/audit.jsonl";
  audit_fd_ = ::open(path.c_str(), O_CREAT | O_APPEND | O_RDWR | O_CLOEXEC, 0644);
  if (audit_fd_ < 0) return Status::io(cat(path, ": ", std::strerror(errno)));
  Result<std::string> text = read_file(path);
  if (!text) return text.status();
  size_t end = text->rfind('\n');
  end = end == std::string::npos ? 0 : end + 1;
  if (end < text->size() && ::ftruncate(audit_fd_, static_cast<off_t>(end)) != 0) {
    return Status::io(cat(path, ": ", std::strerror(errno)));
  }
  uint64_t last = 0;
  if (end > 1) {
    const size_t start = text->rfind('\n', end - 2);
    const size_t from = start == std::string::npos ? 0 : start + 1;
    const Json json = Json::parse(text->substr(from, end - from), nullptr, false);
    if (json.is_object()) last = json.value("n", uint64_t{0});
  }
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
  std::string missing;
  for (it->Seek(entry_key(last + 1)); it->Valid() && it->key().starts_with("a"); it->Next()) {
    missing += it->value().ToString() + "\n";
  }
  if (!missing.empty() && ::write(audit_fd_, missing.data(), missing.size()) < 0) {
    return Status::io(cat(path, ": ", std::strerror(errno)));
  }
  return Status::ok();
}

Status StateStore::check_successor(const MovePlan& plan) const {
  SlotSet known;
  bool switched = false;
  for (const auto& [slot, record] : records_) {
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

Status StateStore::adopt_locked(const MovePlan& plan) {
  std::string text;
  const rocksdb::Status found = db_->Get(rocksdb::ReadOptions(), "m", &text);
  if (!found.ok()) return from_rocks(found, dir_);
  const Json stored = Json::parse(text, nullptr, false);
  const std::string id = stored.is_object() ? stored.value("plan", std::string()) : std::string();
  if (id != plan.id) {
    return Status::refused(cat("the record is of plan ", id, ", the file is of plan ", plan.id));
  }
  Status status = check_successor(plan);
  if (!status) return status;
  rocksdb::WriteBatch batch;
  std::map<int, SlotRecord> added;
  plan.slots.for_each([&](int slot) {
    if (records_.count(slot) == 0) added[slot] = {};
  });
  batch.Put("m", plan_record(plan));
  const std::string line = add_entry(batch, {{"what", "plan adopted"},
                                             {"old", plan.old_side.master.text()},
                                             {"new", plan.new_side.master.text()},
                                             {"slots", plan.slots.text()}});
  status = put_records(added, batch, true, line);
  if (status) masters_ = {plan.old_side.master.text(), plan.new_side.master.text()};
  return status;
}

StateStore::Masters StateStore::masters() const {
  std::lock_guard guard(mutex_);
  return masters_;
}

Status StateStore::adopt_plan(const MovePlan& plan) {
  std::lock_guard guard(mutex_);
  return adopt_locked(plan);
}

std::map<int, SlotRecord> StateStore::records() const {
  std::lock_guard guard(mutex_);
  return records_;
}

SlotRecord StateStore::record(int slot) const {
  std::lock_guard guard(mutex_);
  const auto found = records_.find(slot);
  return found == records_.end() ? SlotRecord{} : found->second;
}

uint64_t StateStore::epoch() const {
  std::lock_guard guard(mutex_);
  return epoch_;
}

Result<uint64_t> StateStore::next_epoch() {
  std::lock_guard guard(mutex_);
  const uint64_t epoch = reserve_locked();
  rocksdb::WriteBatch batch;
  batch.Put("e", Json{{"epoch", epoch}}.dump());
  Status status = write(batch, true, "");
  if (!status) return status;
  return epoch_ = epoch;
}

uint64_t StateStore::reserve_locked() {
  return reserved_ = std::max(reserved_, epoch_) + 1;
}

uint64_t StateStore::reserve_epoch() {
  std::lock_guard guard(mutex_);
  return reserve_locked();
}

std::string StateStore::add_entry(rocksdb::WriteBatch& batch, const Json& entry) {
  Json line = {{"n", next_entry_}, {"wall_ms", clock_->wall_ms()}};
  line["time"] = time_text(clock_->wall_ms());
  for (const auto& [key, value] : entry.items()) line[key] = value;
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  batch.Put(entry_key(next_entry_++), text);
  return text + "\n";
}

Status StateStore::write(rocksdb::WriteBatch& batch, bool sync, const std::string& audit_line) {
  rocksdb::WriteOptions options;
  options.sync = sync;
  Status status = from_rocks(db_->Write(options, &batch), dir_);
  // The file is a copy for readers; the next start completes it if this write fails.
  if (status && !audit_line.empty() && audit_fd_ >= 0) {
    [[maybe_unused]] const ssize_t n = ::write(audit_fd_, audit_line.data(), audit_line.size());
  }
  if (status && !audit_line.empty() && on_entry_) {
    on_entry_(next_entry_ - 1, audit_line.substr(0, audit_line.size() - 1));
  }
  return status;
}

Status StateStore::put_records(const std::map<int, SlotRecord>& changed, rocksdb::WriteBatch& batch,
                               bool sync, const std::string& audit_line) {
  for (const auto& [slot, record] : changed) batch.Put(slot_key(slot), record_text(record));
  Status status = write(batch, sync, audit_line);
  if (!status) return status;
  for (const auto& [slot, record] : changed) records_[slot] = record;
  return status;
}

Status StateStore::record_intent(const SlotSet& slots, uint64_t epoch, const Json& entry,
                                 bool back) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  std::map<int, SlotRecord> changed;
  slots.for_each([&](int slot) {
    changed[slot] = records_[slot];
    changed[slot].attempt = epoch;
    changed[slot].back = back;
  });
  // Attempts run side by side: one with a higher epoch may have been recorded already.
  const uint64_t highest = std::max(epoch_, epoch);
  reserved_ = std::max(reserved_, highest);
  batch.Put("e", Json{{"epoch", highest}}.dump());
  const std::string line = add_entry(batch, entry);
  Status status = put_records(changed, batch, true, line);
  if (status) epoch_ = highest;
  return status;
}

Status StateStore::commit_owner(const SlotSet& slots, const SlotRecord& record, const Json& entry) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  std::map<int, SlotRecord> changed;
  slots.for_each([&](int slot) { changed[slot] = record; });
  const std::string line = add_entry(batch, entry);
  return put_records(changed, batch, true, line);
}

Status StateStore::set_final(const SlotSet& slots, const Json& entry) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  std::map<int, SlotRecord> changed;
  slots.for_each([&](int slot) {
    changed[slot] = records_[slot];
    changed[slot].phase = SlotPhase::kFinal;
    changed[slot].back = false;
  });
  const std::string line = add_entry(batch, entry);
  return put_records(changed, batch, true, line);
}

Status StateStore::set_marked(const SlotSet& slots) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  std::map<int, SlotRecord> changed;
  slots.for_each([&](int slot) {
    changed[slot] = records_[slot];
    changed[slot].marked = true;
  });
  return put_records(changed, batch, false, "");
}

Status StateStore::set_linked(const SlotSet& slots, bool linked) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  std::map<int, SlotRecord> changed;
  slots.for_each([&](int slot) {
    changed[slot] = records_[slot];
    changed[slot].linked = linked;
  });
  return put_records(changed, batch, false, "");
}

RunLock StateStore::run_lock() const {
  std::lock_guard guard(mutex_);
  return lock_;
}

Result<RunLock> StateStore::take_lock(const std::string& owner, bool force) {
  std::lock_guard guard(mutex_);
  // Its owner may take it again, after a crash say: the epoch rises, and what the earlier one sent
  // late is refused.
  if (!lock_.owner.empty() && lock_.owner != owner && !force) {
    return Status::refused(cat("the run lock is held by ", lock_.owner, " (epoch ", lock_.epoch,
                               "): end that run, or take the lock over with FORCE"));
  }
  const RunLock taken{owner, lock_.epoch + 1};
  rocksdb::WriteBatch batch;
  batch.Put("l", Json{{"owner", taken.owner}, {"epoch", taken.epoch}}.dump());
  const std::string line = add_entry(
      batch,
      {{"what", "lock taken"}, {"owner", owner}, {"from", lock_.owner}, {"epoch", taken.epoch}});
  Status status = write(batch, true, line);
  if (!status) return status;
  lock_ = taken;
  return lock_;
}

Status StateStore::drop_lock(const std::string& owner, uint64_t epoch) {
  std::lock_guard guard(mutex_);
  if (lock_.owner != owner || lock_.epoch != epoch) {
    return Status::refused(lock_.owner.empty() ? std::string("the run lock is free")
                                               : cat("the run lock is held by ", lock_.owner,
                                                     " (epoch ", lock_.epoch, ")"));
  }
  rocksdb::WriteBatch batch;
  batch.Put("l", Json{{"owner", ""}, {"epoch", epoch}}.dump());
  const std::string line =
      add_entry(batch, {{"what", "lock given back"}, {"owner", owner}, {"epoch", epoch}});
  Status status = write(batch, true, line);
  if (status) lock_.owner.clear();
  return status;
}

void StateStore::audit(const Json& entry) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  const std::string line = add_entry(batch, entry);
  [[maybe_unused]] const Status status = write(batch, false, line);
}

Status StateStore::audit_synced(const Json& entry) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  const std::string line = add_entry(batch, entry);
  return write(batch, true, line);
}

Result<std::vector<ListedKey>> StateStore::heal_keys() const {
  std::lock_guard guard(mutex_);
  std::vector<ListedKey> out;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(rocksdb::ReadOptions()));
  for (it->Seek("k"); it->Valid() && it->key().starts_with("k"); it->Next()) {
    const std::string key = it->key().ToString();
    if (key.size() < 4) return Status::corrupt(cat("a key of the heal list in ", dir_, " is cut"));
    out.push_back({big16(key.data() + 1), {static_cast<uint8_t>(key[3]), key.substr(4)}});
  }
  Status status = from_rocks(it->status(), dir_);
  if (!status) return status;
  return out;
}

Status StateStore::put_heal(const HealRecord& record, const std::vector<ListedKey>& add,
                            const std::vector<ListedKey>& drop, bool sync) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  for (const ListedKey& key : add) batch.Put(listed_key(key), "");
  for (const ListedKey& key : drop) batch.Delete(listed_key(key));
  batch.Put("h", heal_text(record));
  return write(batch, sync, "");
}

Status StateStore::clear_heal(const HealRecord& record) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  batch.DeleteRange("k", "l");
  batch.Put("h", heal_text(record));
  return write(batch, true, "");
}

std::optional<std::string> StateStore::note(const std::string& key) const {
  std::lock_guard guard(mutex_);
  const auto found = notes_.find(key);
  if (found == notes_.end()) return std::nullopt;
  return found->second;
}

Status StateStore::put_note(const std::string& key, const std::string& value) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  batch.Put("n" + key, Json{{"value", value}}.dump());
  const std::string line = add_entry(
      batch, {{"what", "setting noted before it is changed"}, {"name", key}, {"value", value}});
  Status status = write(batch, true, line);
  if (status) notes_[key] = value;
  return status;
}

Status StateStore::drop_note(const std::string& key) {
  std::lock_guard guard(mutex_);
  rocksdb::WriteBatch batch;
  batch.Delete("n" + key);
  Status status = write(batch, false, "");
  if (status) notes_.erase(key);
  return status;
}

}  // namespace sf
