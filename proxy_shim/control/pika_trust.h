// Which pair of processes is trusted to have made a whole copy, by unit (the server, or a slot that
// was copied by itself). A Pika killed with -9 loses what it had queued for ever, and nothing it
// says shows it: so the pair first seen is noted, another is not trusted, and a full copy that was
// seen to run and after which the link came up makes a new pair. What a copy leaves behind proves
// nothing: one from a reused dump may end where the replica stood before (ADR 0025).
//
// Notes are shared by all drivers of a shim, each with a PikaTrust of its own.
#pragma once

#include <map>
#include <string>

#include "common/pika/pika_status.h"
#include "proxy_shim/control/backend_driver.h"

namespace sf {

class PikaTrust {
 public:
  enum class Verdict { kTrusted, kCopying, kRestarted };

  explicit PikaTrust(DriverNotes* notes) : notes_(notes) {}

  // What a look at the replica of `unit` tells of the pair: its link, whether it is between steps,
  // and the names of both processes. kCopying: until the link is up, and for one look more.
  // kRestarted: another process than the one that copied, and no copy was seen since. Errors: of
  // the notes; then nothing is trusted.
  Result<Verdict> look(const std::string& unit, const std::string& old_process,
                       const std::string& new_process, PikaLink link, bool settled);

  // Seen out of replication: what was copied until then is not whole.
  Status left(const std::string& unit);
  // Nobody is trusted there from now on, until a copy is seen.
  Status forget(const std::string& unit) { return notes_->put_note(note_name(unit), kNobody); }

  // May this pair be asked for a copy once more? Counts; no more than kAsksMost for a pair.
  bool ask_again(const std::string& unit, const std::string& old_process,
                 const std::string& new_process);
  static constexpr int kAsksMost = 3;

 private:
  static constexpr const char* kNobody = "{}";
  static std::string note_name(const std::string& unit);
  struct Asked {
    std::string pair;
    int times = 0;
  };
  DriverNotes* notes_;
  std::map<std::string, std::string> up_;  // by unit: the copy's note, seen with the link up
  std::map<std::string, Asked> asked_;
};

}  // namespace sf
