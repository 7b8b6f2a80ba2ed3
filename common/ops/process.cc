#include "common/ops/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>

#include "common/base/check.h"
#include "common/base/file.h"
#include "common/base/strings.h"
#include "common/ops/config_file.h"

namespace sf {
namespace {

constexpr std::string_view kStamp = "slotferry.stamp";

std::string os_text(int error) {
  return std::error_code(error, std::generic_category()).message();
}

struct Stamp {
  std::string program;
  int64_t version = 0;
};

Result<Stamp> read_stamp(const std::string& path) {
  auto file = ConfigFile::load(path);
  if (!file) return file.status();
  const auto program = file->get("program");
  const auto version = parse_int64(file->get("format").value_or(""));
  if (!program || !version) {
    return Status::corrupt(cat(path, " is damaged: it must name a program and a format"));
  }
  return Stamp{*program, *version};
}

Status write_stamp(const std::string& path, std::string_view program, int version) {
  ConfigFile file;
  file.set("program", program);
  file.set("format", std::to_string(version));
  return file.save(path);
}

// Nothing in it but what a first start that was cut off may have left.
Result<bool> is_unused(const std::string& dir) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(dir, error), end; it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kStamp) && name != "lost+found") return false;
    if (error) break;
  }
  if (error) return Status::io(cat("cannot list ", dir, ": ", error.message()));
  return true;
}

Status check_stamp(const std::string& dir, std::string_view program, int version) {
  const std::string path = cat(dir, "/", kStamp);
  auto stamp = read_stamp(path);
  if (!stamp && stamp.status().code() == Code::kNotFound) {
    auto unused = is_unused(dir);
    if (!unused) return unused.status();
    if (!*unused) {
      return Status::refused(cat(dir, " is not empty and was not made by ", program,
                                 "; name another folder or empty this one"));
    }
    return write_stamp(path, program, version);
  }
  if (!stamp) return stamp.status();
  if (stamp->program != program) {
    return Status::refused(cat(dir, " belongs to ", printable(stamp->program), ", not to ", program,
                               "; name another folder"));
  }
  if (stamp->version > version) {
    return Status::refused(cat(dir, " was written by a newer ", program, " (format ",
                               stamp->version, ", this one knows ", version,
                               "); start that version"));
  }
  if (stamp->version < version) return write_stamp(path, program, version);
  return Status::ok();
}

}  // namespace

std::string version_text(std::string_view program) {
  return cat(program, " ", SF_VERSION);
}

void print_ready(std::string_view program, std::string_view where) {
  std::printf("%s ready on %s, pid %d\n", version_text(program).c_str(), std::string(where).c_str(),
              static_cast<int>(::getpid()));
  std::fflush(stdout);
}

struct StopSignals::State {
  std::function<void()> on_stop;
  int signals = -1;
  int quit = -1;
  std::thread thread;

  void watch() {
    while (true) {
      pollfd watched[2] = {{signals, POLLIN, 0}, {quit, POLLIN, 0}};
      if (::poll(watched, 2, -1) < 0) {
        if (errno == EINTR) continue;
        return;
      }
      if (watched[1].revents != 0) return;
      signalfd_siginfo info{};
      if (::read(signals, &info, sizeof(info)) != sizeof(info)) continue;
      if (on_stop) std::exchange(on_stop, nullptr)();
    }
  }
};

StopSignals::StopSignals(std::function<void()> on_stop) : state_(std::make_unique<State>()) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  // Threads made later inherit the mask, so the signal can only come out of the descriptor.
  SF_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  state_->on_stop = std::move(on_stop);
  state_->signals = ::signalfd(-1, &set, SFD_CLOEXEC);
  state_->quit = ::eventfd(0, EFD_CLOEXEC);
  SF_CHECK(state_->signals >= 0 && state_->quit >= 0);
  state_->thread = std::thread([state = state_.get()] { state->watch(); });
  pthread_setname_np(state_->thread.native_handle(), "signals");
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  SF_CHECK(::write(state_->quit, &one, sizeof(one)) == sizeof(one));
  state_->thread.join();
  ::close(state_->signals);
  ::close(state_->quit);
}

Result<std::unique_ptr<StateFolder>> StateFolder::open(const std::string& dir,
                                                       std::string_view program,
                                                       int format_version) {
  const Status made = make_dirs(dir);
  if (!made) return made;
  const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Status::io(cat("cannot open the folder ", dir, ": ", os_text(errno)));
  std::unique_ptr<StateFolder> folder(new StateFolder(dir, fd));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Status::io(cat("cannot lock ", dir, ": ", os_text(errno)));
    return Status::refused(
        cat(dir, " is in use by another running program; stop that one or name another folder"));
  }
  const Status ours = check_stamp(dir, program, format_version);
  if (!ours) return ours;
  return folder;
}

StateFolder::~StateFolder() {
  ::close(fd_);
}

}  // namespace sf
