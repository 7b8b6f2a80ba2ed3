// A program started for a benchmark, on a free port of the loopback address, ended with the object.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace sf::bench {

class Child {
 public:
  Child() = default;
  // Its output goes to `log`. It is killed if this process dies.
  static Result<Child> start(const std::vector<std::string>& argv, const std::string& log);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;

  // Waits until it answers PING on `port`; an error carries the end of its log.
  Status wait_for_ping(int port, int seconds = 20);
  pid_t pid() const { return pid_; }
  int64_t cpu_us() const;  // user + system since its start, all threads
  int64_t resident_kb() const;

 private:
  void end();
  pid_t pid_ = -1;
  std::string log_;
};

// Runs a program to its end and returns its standard output.
Result<std::string> output_of(const std::vector<std::string>& argv);

// One command (words between blanks) and its reply, on a connection of its own: for PING, INFO.
Result<std::string> ask(int port, const std::string& command);

std::string folder_of_this_program();

// The storage node: `given`, or the one beside this program if it is empty.
std::string node_program(const std::string& given);
// A config file of `lines` parted by ';' ("name : value;name : value").
Status write_config(const std::string& path, const std::string& lines);

}  // namespace sf::bench
