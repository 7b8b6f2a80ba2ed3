// What every program does about its process: version text, stop signals, the ready line, state folders.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace sf {

std::string version_text(std::string_view program);  // "slotferry-node 0.1.0"

// SIGTERM and SIGINT call `on_stop` once, on a thread of its own; SIGPIPE is ignored. Made before any
// other thread, in main(), and kept until its end.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> on_stop);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One line to standard output, flushed: "slotferry-node 0.1.0 ready on 127.0.0.1:9221, pid 4711".
void print_ready(std::string_view program, std::string_view where);

// Makes `dir` if needed, and takes it for `program`: writes a stamp file on first use (program,
// format version); refuses a folder with another program's or a newer version's stamp, a non-empty folder
// without a stamp, and one that another living process holds (flock). The lock lasts with the object.
class StateFolder {
 public:
  static Result<std::unique_ptr<StateFolder>> open(const std::string& dir, std::string_view program,
                                                   int format_version);
  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;
  const std::string& dir() const { return dir_; }

 private:
  StateFolder(std::string dir, int fd) : dir_(std::move(dir)), fd_(fd) {}
  std::string dir_;
  int fd_;
};

}  // namespace sf
