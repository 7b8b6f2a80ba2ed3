// Which connections of a server's CLIENT LIST are this process's.
#pragma once

#include <set>
#include <string>

namespace sf {

// Local "ip:port" of every connected IPv4 and IPv6 socket this process has open, as the peer sees
// it if no address translation stands between. `peer_port`: of those to that port only (0: all);
// connections to different peers may share a local port, and an address that is ours towards
// another server says nothing about this one.
std::set<std::string> own_socket_addresses(int peer_port = 0);

}  // namespace sf
