// Sockets to 127.0.0.1, for the programs of the tests.
#pragma once

#include <netinet/in.h>

namespace sf {

sockaddr_in loopback(int port);

// A blocking connection without Nagle's delay; the caller closes it. -1 (see errno) if nothing
// listens there.
int connect_loopback(int port);

}  // namespace sf
