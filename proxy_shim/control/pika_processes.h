// Which process answers at an address. A Pika's run id is kept over a restart or there is none, and
// in a container the process id is the same in every life and in every server (ADR 0025); so its
// address and the second of its start, as noted when it was first seen, belong to its name. The
// notes are shared by all drivers of a shim, so that a process has one name in all of them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "common/base/clock.h"
#include "common/pika/pika_status.h"
#include "proxy_shim/control/backend_driver.h"

namespace sf {

class PikaProcesses {
 public:
  PikaProcesses(DriverNotes* notes, const Clock* clock) : notes_(notes), clock_(clock) {}

  // The name of the process that says `said` of itself at `address`: another one after a restart,
  // the same over drifting clocks and over lives of the shim.
  std::string name(const HostPort& address, const PikaServer& said);

  // Does the process `name`, known at `address`, answer at `other` too? A server says its
  // interface's address, not the one dialled. `ask` is called once for a process; what it cannot
  // answer is not the same server, and asked again the next time.
  bool same_server(const HostPort& address, const std::string& name, const HostPort& other,
                   const std::function<Result<PikaServer>()>& ask);

 private:
  struct Start {
    std::string pid;
    int64_t since_s = 0;  // as in the process's name
    int64_t last_s = 0;   // as its newest uptime says
  };
  Start noted(const std::string& note) const;
  int64_t start_of(const PikaServer& said) const;

  DriverNotes* notes_;
  const Clock* clock_;
  std::map<std::string, Start> starts_;  // by address
  std::map<std::string, bool> others_;   // "<other address> <process>"
};

}  // namespace sf
