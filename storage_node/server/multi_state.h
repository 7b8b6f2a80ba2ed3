// What a connection has collected between MULTI and EXEC, and what it watches.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "storage_node/server/watch_table.h"

namespace sf {

struct MultiState {
  bool open = false;    // between MULTI and EXEC
  bool broken = false;  // a command was refused while queueing: EXEC answers EXECABORT
  std::vector<std::vector<std::string>> queued;
  size_t queued_bytes = 0;
  std::vector<WatchTable::Watch> watches;
};

}  // namespace sf
