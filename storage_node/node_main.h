// What slotferry-node does: reads settings, starts the node, waits for the end.
#pragma once

#include <functional>

#include "storage_node/engine/engine.h"

namespace sf {

// Returns the exit code; errors are one sentence on standard error. `adjust_engine` may be empty:
// test programs put another file system under the engine.
int node_main(int argc, char** argv, std::function<void(EngineOptions&)> adjust_engine = {});

}  // namespace sf
