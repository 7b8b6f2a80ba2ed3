#include "proxy_shim/control/pika_trust.h"

#include <nlohmann/json.hpp>

namespace sf {

Result<PikaTrust::Verdict> PikaTrust::look(const std::string& unit, const std::string& old_process,
                                           const std::string& new_process, PikaLink link) {
  const std::string note = unit.empty() ? "pika.trust" : cat("pika.trust.", unit);
  const std::string pair = nlohmann::json{{"old", old_process}, {"new", new_process}}.dump();
  const std::optional<std::string> noted = notes_->note(note);
  if (link == PikaLink::kCopying) {
    if (noted && *noted != pair) (void)notes_->drop_note(note);
    return Verdict::kCopying;
  }
  if (noted && *noted != pair) return Verdict::kRestarted;
  const Status status = noted ? Status::ok() : notes_->put_note(note, pair);
  if (!status) return status;
  return Verdict::kTrusted;
}

}  // namespace sf
