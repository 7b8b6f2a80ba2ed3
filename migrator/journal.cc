#include "migrator/journal.h"

#include <nlohmann/json.hpp>

#include "common/base/coding.h"
#include "common/base/file.h"
#include "common/base/strings.h"

namespace sf {
namespace {

using Json = nlohmann::json;
using Kind = JournalEntry::Kind;

constexpr std::string_view kBeginFact = "begin-anew";

std::string key_of(uint64_t seq) {
  std::string key;
  put_big64(key, seq);
  return key;
}

// With the way out.
Status explained(const Status& status) {
  const Status out = status.with_context("journal");
  if (out.code() == Code::kNoSpace || out.code() == Code::kUnavailable) {
    return {out.code(), out.text() + "; free some disk space and run again"};
  }
  if (out.code() == Code::kCorrupt) {
    return Status::corrupt(
        out.text() +
        "; the move's memory is damaged: read the state from slotferry status and "
        "begin with another --dir folder");
  }
  return out;
}

std::string path_of(const std::string& state_dir) {
  return state_dir + "/journal";
}

}  // namespace

std::string_view journal_kind_text(Kind kind) {
  switch (kind) {
    case Kind::kIntent:
      return "intent";
    case Kind::kDone:
      return "done";
    case Kind::kFailed:
      return "failed";
    case Kind::kFact:
      break;
  }
  return "fact";
}

Journal::Journal(std::unique_ptr<RecordDb> db, const Clock& clock, bool read_only)
    : db_(std::move(db)), clock_(clock), read_only_(read_only) {}
Journal::~Journal() = default;

Result<std::unique_ptr<Journal>> Journal::open(const std::string& state_dir, const Clock& clock) {
  const Status made = make_dirs(state_dir);
  if (!made) return made;
  auto db = RecordDb::open(path_of(state_dir), RecordDb::Mode::kCreate);
  if (!db) return explained(db.status());
  std::unique_ptr<Journal> journal(new Journal(std::move(*db), clock, false));
  const Status loaded = journal->load();
  if (!loaded) return loaded;
  return journal;
}

Result<std::unique_ptr<Journal>> Journal::open_read_only(const std::string& state_dir,
                                                         const Clock& clock) {
  auto db = RecordDb::open(path_of(state_dir), RecordDb::Mode::kReadOnly);
  if (!db) return Status::not_found(cat("no move was begun with the state folder ", state_dir));
  std::unique_ptr<Journal> journal(new Journal(std::move(*db), clock, true));
  const Status loaded = journal->load();
  if (!loaded) return loaded;
  return journal;
}

Status Journal::load() {
  Status bad;
  const Status read = db_->scan("", [&](std::string_view key, std::string_view value) {
    bad = load_entry(key, value);
    return bad.is_ok();
  });
  return read ? bad : explained(read);
}

Status Journal::load_entry(std::string_view key, std::string_view value) {
  const Json json = Json::parse(value, nullptr, false);
  JournalEntry entry;
  entry.seq = entries_.size() + 1;
  if (!json.is_object() || key != key_of(entry.seq)) {
    return Status::corrupt(cat("journal entry ", entry.seq,
                               " is missing or damaged; read the state from ",
                               "slotferry status and begin with another --dir folder"));
  }
  const std::string kind = json.value("kind", "");
  entry.time_ms = json.value("time_ms", int64_t{0});
  entry.kind = kind == "intent"   ? Kind::kIntent
               : kind == "done"   ? Kind::kDone
               : kind == "failed" ? Kind::kFailed
                                  : Kind::kFact;
  entry.step = json.value("step", "");
  entry.text = json.value("text", "");
  fold(entry);
  entries_.push_back(std::move(entry));
  return Status::ok();
}

void Journal::fold(const JournalEntry& entry) {
  if (entry.kind == Kind::kDone) done_.insert(entry.step);
  if (entry.kind != Kind::kFact) return;
  if (entry.step == kBeginFact) {
    done_.clear();
    facts_.clear();
  }
  facts_[entry.step] = entry.text;
}

Status Journal::append(Kind kind, std::string_view step, std::string_view text) {
  if (read_only_) return Status::refused("the journal was opened for reading only");
  JournalEntry entry{entries_.size() + 1, clock_.wall_ms(), kind, std::string(step),
                     std::string(text)};
  const Json json{{"seq", entry.seq},
                  {"time_ms", entry.time_ms},
                  {"kind", std::string(journal_kind_text(kind))},
                  {"step", entry.step},
                  {"text", entry.text}};
  RecordBatch batch;
  batch.put(key_of(entry.seq), json.dump(-1, ' ', false, Json::error_handler_t::replace));
  const Status status = db_->write(batch, true);
  if (!status) return explained(status);
  fold(entry);
  entries_.push_back(std::move(entry));
  return Status::ok();
}

Status Journal::intent(std::string_view step, std::string_view text) {
  return append(Kind::kIntent, step, text);
}
Status Journal::done(std::string_view step, std::string_view text) {
  return append(Kind::kDone, step, text);
}
Status Journal::failed(std::string_view step, std::string_view text) {
  return append(Kind::kFailed, step, text);
}
Status Journal::set_fact(std::string_view name, std::string_view value) {
  return append(Kind::kFact, name, value);
}
Status Journal::begin_anew(std::string_view why) {
  return append(Kind::kFact, kBeginFact, why);
}

std::optional<std::string> Journal::fact(std::string_view name) const {
  const auto it = facts_.find(name);
  if (it == facts_.end()) return std::nullopt;
  return it->second;
}

int64_t Journal::time_of(Kind kind, std::string_view step) const {
  for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
    if (it->kind == kind && it->step == step) return it->time_ms;
  }
  return 0;
}

int64_t Journal::first_intent(std::string_view step) const {
  int64_t first = 0;
  for (const JournalEntry& entry : entries_) {
    if (entry.kind == Kind::kFact && entry.step == kBeginFact) first = 0;
    if (entry.kind == Kind::kIntent && entry.step == step && first == 0) first = entry.time_ms;
  }
  return first;
}

}  // namespace sf
