#include "proxy_shim/control/own_sockets.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include "common/net/socket.h"

namespace sf {
namespace {

// "" of a descriptor that is no connected IP socket.
std::string connected_from(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return "";
  return local_address(fd).text();
}

}  // namespace

std::set<std::string> own_socket_addresses() {
  std::set<std::string> out;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= 2) continue;
    std::string address = connected_from(fd);
    if (!address.empty()) out.insert(std::move(address));
  }
  closedir(folder);
  return out;
}

}  // namespace sf
