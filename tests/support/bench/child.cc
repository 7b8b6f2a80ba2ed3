#include "tests/support/bench/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <utility>

#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/strings.h"
#include "tests/support/loopback.h"

namespace sf::bench {
namespace {

std::vector<char*> c_arguments(const std::vector<std::string>& argv) {
  std::vector<char*> out;
  for (const std::string& word : argv) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// Waits for the child's end for at most `ms`.
bool reap(pid_t pid, int ms) {
  const SystemClock clock;
  const int64_t until = clock.mono_us() + ms * 1000LL;
  while (::waitpid(pid, nullptr, WNOHANG) == 0) {
    if (clock.mono_us() > until) return false;
    ::poll(nullptr, 0, 10);
  }
  return true;
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& argv, const std::string& log) {
  const auto arguments = c_arguments(argv);
  const pid_t pid = ::fork();
  if (pid < 0) return Status::io(cat("cannot start ", argv[0]));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  Child child;
  child.pid_ = pid;
  child.log_ = log;
  return child;
}

Child::~Child() {
  end();
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), log_(std::move(other.log_)) {}

Child& Child::operator=(Child&& other) noexcept {
  end();
  pid_ = std::exchange(other.pid_, -1);
  log_ = std::move(other.log_);
  return *this;
}

void Child::end() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  if (!reap(pid_, 10'000)) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

Status Child::wait_for_ping(int port, int seconds) {
  const SystemClock clock;
  const int64_t until = clock.mono_us() + seconds * 1'000'000LL;
  while (clock.mono_us() < until) {
    auto reply = ask(port, "PING");
    if (reply && reply->starts_with("+PONG")) return Status::ok();
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      break;
    }
    ::poll(nullptr, 0, 20);
  }
  auto log = read_file(log_);
  std::string tail = log ? *log : log.status().text();
  if (tail.size() > 2000) tail.erase(0, tail.size() - 2000);
  return Status::unavailable(cat("no PONG on port ", port, ". Its log ends: ", tail));
}

int64_t Child::cpu_us() const {
  auto text = read_file(cat("/proc/", static_cast<int64_t>(pid_), "/stat"));
  if (!text) return 0;
  // Fields count from behind the name, which may hold blanks and ends with the last ')'.
  const auto fields = split(std::string_view(*text).substr(text->rfind(')') + 2), ' ');
  const int64_t ticks = parse_int64(fields[11]).value_or(0) + parse_int64(fields[12]).value_or(0);
  return ticks * 1'000'000 / ::sysconf(_SC_CLK_TCK);
}

int64_t Child::resident_kb() const {
  auto text = read_file(cat("/proc/", static_cast<int64_t>(pid_), "/statm"));
  if (!text) return 0;
  const auto fields = split(*text, ' ');
  return parse_int64(fields[1]).value_or(0) * (::sysconf(_SC_PAGESIZE) / 1024);
}

Result<std::string> output_of(const std::vector<std::string>& argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::io("no pipe");
  const auto arguments = c_arguments(argv);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(ends[1], 1);
    ::dup2(::open("/dev/null", O_WRONLY), 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string out;
  char buf[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buf, sizeof(buf))) > 0;) {
    out.append(buf, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (status != 0) return Status::unavailable(cat(argv[0], " failed: ", printable(out, 500)));
  return out;
}

Result<std::string> ask(int port, const std::string& command) {
  const int fd = connect_loopback(port);
  if (fd < 0) return Status::unavailable(cat("nothing listens on port ", port));
  const timeval patience{5, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const auto words = split(command, ' ');
  std::string line = cat("*", words.size(), "\r\n");
  for (const std::string_view word : words) line += cat("$", word.size(), "\r\n", word, "\r\n");
  std::string out;
  char buf[64 << 10];
  if (::send(fd, line.data(), line.size(), MSG_NOSIGNAL) > 0) {
    const ssize_t n = ::recv(fd, buf, sizeof(buf), 0);
    if (n > 0) out.assign(buf, static_cast<size_t>(n));
  }
  ::close(fd);
  if (out.empty()) return Status::unavailable(cat("no answer on port ", port));
  return out;
}

std::string folder_of_this_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

std::string node_program(const std::string& given) {
  return given.empty() ? folder_of_this_program() + "/slotferry-node" : given;
}

Status write_config(const std::string& path, const std::string& lines) {
  std::string text;
  for (const std::string_view line : split(lines, ';')) text += cat(line, "\n");
  return write_file_atomic(path, text);
}

}  // namespace sf::bench
