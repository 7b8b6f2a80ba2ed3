#include "proxy_shim/control/own_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "common/net/socket.h"

namespace sf {
namespace {

// "" of a descriptor that is no IP socket connected to that port.
std::string connected_from(int fd, int peer_port) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return "";
  const in_port_t port = peer.ss_family == AF_INET
                             ? reinterpret_cast<const sockaddr_in*>(&peer)->sin_port
                             : reinterpret_cast<const sockaddr_in6*>(&peer)->sin6_port;
  if (peer_port != 0 && ntohs(port) != peer_port) return "";
  return local_address(fd).text();
}

}  // namespace

std::set<std::string> own_socket_addresses(int peer_port) {
  std::set<std::string> out;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= 2) continue;
    std::string address = connected_from(fd, peer_port);
    if (!address.empty()) out.insert(std::move(address));
  }
  closedir(folder);
  return out;
}

}  // namespace sf
