// TCP socket calls, each with an error a person can act on. Descriptors returned are non-blocking,
// close-on-exec and TCP_NODELAY, and the caller's to close.
#pragma once

#include <sys/socket.h>

#include <set>
#include <string>

#include "common/base/status.h"

namespace sf {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  std::string text() const;  // "127.0.0.1:4711", "[::1]:4711"
  std::string host() const;  // without port and brackets
  int port() const;
};

// `host` must be a numeric IPv4 or IPv6 address (brackets allowed); kInvalid if it is a name.
Result<SocketAddress> numeric_address(const std::string& host, int port);

// SO_REUSEADDR, not SO_REUSEPORT: a port in use is an error whose text names the address.
Result<int> open_listening(const SocketAddress& address);
Result<int> open_connecting(const SocketAddress& address);  // connect() has been started
Status connect_outcome(
    int fd);  // after it became writable; a socket connected to itself is refused
int accept_one(int listening, SocketAddress* peer);  // -1: errno says why
SocketAddress local_address(int fd);
std::set<std::string> interface_addresses();  // of this host, IPv4 and IPv6, without loopback ones

std::string errno_text(int error);

}  // namespace sf
