// Which pair of processes is trusted to have made a whole copy, by unit (the server, or a slot that
// was copied by itself). A Pika killed with -9 loses what it had queued for ever, and nothing it
// says shows it: so the pair first seen is noted, another is not trusted, and a full copy that was
// seen to run makes a new pair.
#pragma once

#include <string>

#include "common/pika/pika_status.h"
#include "proxy_shim/control/backend_driver.h"

namespace sf {

class PikaTrust {
 public:
  enum class Verdict { kTrusted, kCopying, kRestarted };

  explicit PikaTrust(DriverNotes* notes) : notes_(notes) {}

  // What a look at `unit` tells of the pair: the replica's `link`, and the names of both processes.
  // kRestarted: another process than the one that copied, and no copy was seen since. Errors: of
  // the notes; then nothing is trusted.
  Result<Verdict> look(const std::string& unit, const std::string& old_process,
                       const std::string& new_process, PikaLink link);

 private:
  DriverNotes* notes_;
};

}  // namespace sf
