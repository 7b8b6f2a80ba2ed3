// Which connections of a server's CLIENT LIST are this process's.
#pragma once

#include <set>
#include <string>

namespace sf {

// Local "ip:port" of every connected IPv4 and IPv6 socket this process has open, as the peer sees
// it if no address translation stands between.
std::set<std::string> own_socket_addresses();

}  // namespace sf
