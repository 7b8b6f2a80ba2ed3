// What the registered proxies really route by, against what they should (traps 5, 12, 16, 25; M12).
#pragma once

#include <map>
#include <string>

#include "migrator/codis_dashboard.h"

namespace sf {

struct ReadBack {
  int proxies = 0;
  SlotSet wrong;  // slots that at least one proxy routes elsewhere, holds locked or as migrating
  std::string
      text;  // about the first of them: "proxy 127.0.0.1:18101 maps slot 905 to 127.0.0.1:7001"
  bool ok() const { return wrong.empty(); }
};

// Asks every proxy registered now. `expected`: slots and the address each proxy shall send them to.
// A status (kUnavailable mostly) if one of them does not answer, or if none is registered.
Result<ReadBack> read_back_proxies(CodisDashboard& dashboard, const CodisTopology& topology,
                                   const std::map<int, std::string>& expected);

std::map<int, std::string> expect_slots(const SlotSet& slots, const std::string& address);

}  // namespace sf
