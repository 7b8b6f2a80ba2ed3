// The sub-commands of slotferry: command line in, exit code out. Text for people goes to standard
// output, errors to standard error as one sentence.
#pragma once

#include <string>
#include <vector>

#include "migrator/move_session.h"

namespace sf {

// `arguments` without the program's name. Exit codes: 0 done, 1 failed, 2 wrong command line or
// plan, 3 stopped to ask.
int run_command(const std::vector<std::string>& arguments, StopFlag& stop);

}  // namespace sf
