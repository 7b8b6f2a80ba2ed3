#include "proxy_shim/control/own_sockets.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

namespace sf {
namespace {

std::string local_address(int fd) {
  sockaddr_storage local{}, peer{};
  socklen_t local_size = sizeof local, peer_size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) return "";
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  if (local.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&local);
    inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(in->sin_port));
  }
  if (local.ss_family == AF_INET6) {
    const auto* in = reinterpret_cast<const sockaddr_in6*>(&local);
    inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(in->sin6_port));
  }
  return "";
}

}  // namespace

std::set<std::string> own_socket_addresses() {
  std::set<std::string> out;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return out;
  while (const dirent* entry = readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= 2) continue;
    std::string address = local_address(fd);
    if (!address.empty()) out.insert(std::move(address));
  }
  closedir(folder);
  return out;
}

}  // namespace sf
