#include "proxy_shim/control/pika_trust.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr const char* kCopying = "copying";

}  // namespace

std::string PikaTrust::note_name(const std::string& unit) {
  return unit.empty() ? "pika.trust" : cat("pika.trust.", unit);
}

Result<PikaTrust::Verdict> PikaTrust::look(const std::string& unit, const std::string& old_process,
                                           const std::string& new_process, PikaLink link,
                                           bool settled) {
  const Json both = {{"old", old_process}, {"new", new_process}};
  Json begun = both;
  begun[kCopying] = true;
  const std::string pair = both.dump(), copy = begun.dump();
  const std::optional<std::string> noted = notes_->note(note_name(unit));
  if (link != PikaLink::kUp || !settled) up_.erase(unit);
  if (link == PikaLink::kCopying) {
    if (noted == pair || noted == copy) return Verdict::kCopying;
    const Status status = notes_->put_note(note_name(unit), copy);
    if (!status) return status;
    return Verdict::kCopying;
  }
  if (noted == copy) {
    if (link != PikaLink::kUp || !settled) return Verdict::kCopying;
    // A look may be older than the note, which another driver made; the next one is not.
    if (std::exchange(up_[unit], copy) != copy) return Verdict::kCopying;
  } else if (noted == pair) {
    return Verdict::kTrusted;
  } else if (noted) {
    return Verdict::kRestarted;
  }
  up_.erase(unit);
  const Status status = notes_->put_note(note_name(unit), pair);
  if (!status) return status;
  return Verdict::kTrusted;
}

Status PikaTrust::left(const std::string& unit) {
  const std::optional<std::string> noted = notes_->note(note_name(unit));
  const Json note = noted ? Json::parse(*noted, nullptr, false) : Json();
  return note.is_object() && note.contains(kCopying) ? forget(unit) : Status::ok();
}

bool PikaTrust::ask_again(const std::string& unit, const std::string& old_process,
                          const std::string& new_process) {
  const std::string pair = cat(old_process, " ", new_process);
  Asked& asked = asked_[unit];
  if (asked.pair != pair) asked = {pair, 0};
  if (asked.times >= kAsksMost) return false;
  ++asked.times;
  return true;
}

}  // namespace sf
