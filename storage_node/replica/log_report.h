// What INFO says about the log kept for replicas: how much, by which limits, who needs what.
#pragma once

#include <string>

#include "storage_node/engine/engine.h"

namespace sf {

// Lines name:value of INFO replication, each ended by CRLF.
std::string log_kept_text(const Engine& engine);

}  // namespace sf
