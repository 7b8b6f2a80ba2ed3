#include "common/net/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/base/strings.h"

namespace sf {
namespace {

constexpr int kBacklog = 1024;
constexpr int kKeepAliveSeconds = 120;

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof(value));
}

void tune(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveSeconds);
}

int open_tcp(const SocketAddress& address) {
  return ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

const sockaddr* raw(const SocketAddress& a) {
  return reinterpret_cast<const sockaddr*>(&a.storage);
}
sockaddr* raw(SocketAddress& a) {
  return reinterpret_cast<sockaddr*>(&a.storage);
}

Status listen_error(const SocketAddress& address, int error) {
  if (error == EADDRINUSE) {
    return Status::exists(cat("cannot listen on ", address.text(),
                              ": another program has this port; stop it or choose another port"));
  }
  return Status::io(cat("cannot listen on ", address.text(), ": ", errno_text(error)));
}

}  // namespace

std::string errno_text(int error) {
  char buf[128];
  return strerror_r(error, buf, sizeof(buf));
}

std::string SocketAddress::host() const {
  char buf[INET6_ADDRSTRLEN] = "?";
  if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    ::inet_ntop(AF_INET6, &v6->sin6_addr, buf, sizeof(buf));
  } else {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, buf, sizeof(buf));
  }
  return buf;
}

std::string SocketAddress::text() const {
  if (storage.ss_family == AF_INET6) return cat("[", host(), "]:", port());
  return cat(host(), ":", port());
}

int SocketAddress::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

Result<SocketAddress> numeric_address(const std::string& host, int port) {
  SocketAddress out;
  if (port < 0 || port > 65535) return Status::invalid(cat("port ", port, " is not in 0..65535"));
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<uint16_t>(port));
    out.size = sizeof(sockaddr_in);
    return out;
  }
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string bare = bracketed ? host.substr(1, host.size() - 2) : host;
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  if (::inet_pton(AF_INET6, bare.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<uint16_t>(port));
    out.size = sizeof(sockaddr_in6);
    return out;
  }
  return Status::invalid(cat("'", host, "' is not a numeric address"));
}

Result<int> open_listening(const SocketAddress& address) {
  const int fd = open_tcp(address);
  if (fd < 0) return listen_error(address, errno);
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd, raw(address), address.size) != 0 || ::listen(fd, kBacklog) != 0) {
    const int error = errno;
    ::close(fd);
    return listen_error(address, error);
  }
  return fd;
}

Result<int> open_connecting(const SocketAddress& address) {
  const int fd = open_tcp(address);
  if (fd < 0) return Status::io(errno_text(errno));
  tune(fd);
  if (::connect(fd, raw(address), address.size) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    ::close(fd);
    return Status::unavailable(errno_text(error));
  }
  return fd;
}

Status connect_outcome(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) return Status::unavailable(errno_text(error));
  SocketAddress peer;
  peer.size = sizeof(peer.storage);
  if (::getpeername(fd, raw(peer), &peer.size) != 0) return Status::unavailable(errno_text(errno));
  // Linux may give a connecting socket the very port it connects to: nobody listens there, and yet
  // the connection succeeds, with itself.
  if (peer.text() == local_address(fd).text()) {
    return Status::unavailable(errno_text(ECONNREFUSED));
  }
  return Status::ok();
}

int accept_one(int listening, SocketAddress* peer) {
  peer->size = sizeof(peer->storage);
  const int fd = ::accept4(listening, raw(*peer), &peer->size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) tune(fd);
  return fd;
}

SocketAddress local_address(int fd) {
  SocketAddress out;
  out.size = sizeof(out.storage);
  if (::getsockname(fd, raw(out), &out.size) != 0) out.storage.ss_family = AF_INET;
  return out;
}

std::set<std::string> interface_addresses() {
  std::set<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, one->ifa_addr, address.size);
    out.insert(address.host());
  }
  ::freeifaddrs(all);
  return out;
}

}  // namespace sf
