#include "tests/support/redis_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"
#include "tests/support/loopback.h"

namespace sf {

namespace {

bool answers_ping(int port) {
  const int fd = connect_loopback(port);
  if (fd < 0) return false;
  bool ok = ::send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6;
  pollfd p{fd, POLLIN, 0};
  char byte = 0;
  ok = ok && ::poll(&p, 1, 1000) == 1 && ::recv(fd, &byte, 1, 0) == 1 && byte == '+';
  ::close(fd);
  return ok;
}

}  // namespace

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  SF_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  socklen_t size = sizeof address;
  SF_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(fd);
  return ntohs(address.sin_port);
}

RedisProcess::RedisProcess(const std::vector<std::string>& extra_args) : port_(free_port()) {
  std::vector<std::string> words = {
      "redis-server", "--port", std::to_string(port_), "--bind", "127.0.0.1", "--dir", dir_.path(),
      "--save",       "",       "--appendonly",        "no"};
  words.insert(words.end(), extra_args.begin(), extra_args.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  SF_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 1);
    ::dup2(null, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  for (int i = 0; i < 1000; ++i) {
    if (answers_ping(port_)) return;
    ::poll(nullptr, 0, 10);
  }
  SF_CHECK(!"redis-server did not start");
}

void RedisProcess::kill_hard() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

RedisProcess::~RedisProcess() {
  kill_hard();
}

}  // namespace sf
