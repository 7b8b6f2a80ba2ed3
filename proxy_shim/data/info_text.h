// INFO as Codis, its fork, codis-fe and exporters read it.
#pragma once

#include <string>
#include <string_view>

#include "proxy_shim/data/local_commands.h"

namespace sf {

// `section` as the client wrote it; "" for the default set. An unknown section gives "".
std::string info_text(const ServerView& server, std::string_view section);

}  // namespace sf
