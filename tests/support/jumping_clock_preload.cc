// For LD_PRELOAD: the program's wall clock is off by as many milliseconds as the first 8 bytes of
// the file JUMPING_CLOCK_FILE say (int64, little endian), from the moment they are written. Time
// that only passes is not touched. (libfaketime does not start under jemalloc.)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace {

const volatile int64_t* offset_ms = nullptr;

__attribute__((constructor)) void map_offset() {
  const char* path = std::getenv("JUMPING_CLOCK_FILE");
  if (path == nullptr) return;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) std::abort();
  void* mapped = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped == MAP_FAILED) std::abort();
  offset_ms = static_cast<const volatile int64_t*>(mapped);
}

constexpr int64_t kBillion = 1'000'000'000;

int read_clock(clockid_t id, timespec* out) {
  const long failed = syscall(SYS_clock_gettime, id, out);
  if (failed != 0) return -1;
  if (offset_ms != nullptr && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
    const int64_t moved = out->tv_nsec + *offset_ms % 1000 * 1'000'000 + kBillion;
    out->tv_sec += *offset_ms / 1000 + moved / kBillion - 1;
    out->tv_nsec = moved % kBillion;
  }
  return 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t id, timespec* out) noexcept {
  return read_clock(id, out);
}

int gettimeofday(timeval* out, void* /*zone*/) noexcept {
  timespec now{};
  if (read_clock(CLOCK_REALTIME, &now) != 0) return -1;
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* out) noexcept {
  timespec now{};
  read_clock(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
}
