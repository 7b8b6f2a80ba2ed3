// The journal of a move: an append-only list of what was intended and what came of it, each entry
// synced to disk before append() returns (I10, I12). Also the migrator's whole memory: finished
// steps and named facts are a fold over it. Kept under <state>/journal (common/records); one
// program at a time writes (StateFolder sees to it), others may read. After an append that failed
// every other is refused: the next run reads what is there. Owned by the main thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/records/record_db.h"

namespace sf {

struct JournalEntry {
  // Stored as JSON {"seq","time_ms","kind","step","text"}; kFact has its name in `step`.
  enum class Kind { kIntent, kDone, kFailed, kFact };
  uint64_t seq = 0;
  int64_t time_ms = 0;
  Kind kind = Kind::kFact;
  std::string step;
  std::string text;
};

std::string_view journal_kind_text(JournalEntry::Kind kind);  // "intent", "done", "failed", "fact"

class Journal {
 public:
  // Errors name the folder: damaged, of another program, disk full. A damaged newest entry is an
  // error, not an older state.
  static Result<std::unique_ptr<Journal>> open(const std::string& state_dir, const Clock& clock);
  // For status: kNotFound if no move was begun there. Appending is refused.
  static Result<std::unique_ptr<Journal>> open_read_only(const std::string& state_dir,
                                                         const Clock& clock);
  ~Journal();

  Status intent(std::string_view step, std::string_view text);
  Status done(std::string_view step, std::string_view text);
  Status failed(std::string_view step, std::string_view text);
  Status set_fact(std::string_view name, std::string_view value);
  // Forgets that the steps were done (the entries stay readable): an aborted move may begin again.
  Status begin_anew(std::string_view why);

  bool is_done(std::string_view step) const { return done_.contains(std::string(step)); }
  const std::set<std::string>& done_steps() const { return done_; }
  std::optional<std::string> fact(std::string_view name) const;
  // Wall clock of the newest entry of that kind for the step, 0 if there is none.
  int64_t time_of(JournalEntry::Kind kind, std::string_view step) const;
  // Wall clock of the first intent of the step since the move (last) began, 0 if there is none.
  int64_t first_intent(std::string_view step) const;
  const std::vector<JournalEntry>& entries() const { return entries_; }

 private:
  Journal(std::unique_ptr<RecordDb> db, const Clock& clock, bool read_only);
  Status load();
  Status load_entry(std::string_view key, std::string_view value);
  Status append(JournalEntry::Kind kind, std::string_view step, std::string_view text);
  void fold(const JournalEntry& entry);

  std::unique_ptr<RecordDb> db_;
  const Clock& clock_;
  const bool read_only_;
  std::vector<JournalEntry> entries_;
  std::set<std::string> done_;
  std::map<std::string, std::string, std::less<>> facts_;
};

}  // namespace sf
