// A load that holds a rate: requests leave when they are due, whether or not earlier ones were
// answered (an open loop), so a server that stands still is seen as waiting time and not as fewer
// requests. One thread, plain epoll, no millisecond timers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace sf::load {

struct PacedOptions {
  std::vector<int> ports;  // of the loopback address; connections are dealt to them in turn
  int connections = 8;
  int pipeline = 1;             // requests that leave together on one connection
  double rate = 0;              // requests a second of all connections; 0: sent again once answered
  int64_t duration_us = 0;      // 0: until told to end
  std::string command = "set";  // set or get
  int value_bytes = 64;
  std::vector<std::string> keys;
  uint64_t seed = 1;
  // Read line by line while the load runs: "mark NAME" begins or goes on with a window, its end is
  // the end; every other line is given to `on_line`, which answers the keys of the hot set from now
  // on. -1: none.
  int control_fd = -1;
  double hot_share = 0;  // of the requests, to the hot set once there is one
  std::function<std::vector<std::string>(std::string_view)> on_line;
};

// What was sent while a window ran (it may run several times), with how long its answers took.
// Microseconds.
struct PacedWindow {
  std::string name;
  double seconds = 0;
  int64_t answered = 0;
  int64_t errors = 0;  // error replies, and requests whose connection broke
  int64_t p50_us = 0;
  int64_t p99_us = 0;
  int64_t max_us = 0;
  int64_t late_max_us = 0;  // how late this program itself was, at most
  double per_second() const { return seconds > 0 ? static_cast<double>(answered) / seconds : 0; }
};

struct PacedResult {
  std::vector<PacedWindow> windows;      // at least one
  std::vector<std::string> error_texts;  // the first few
};

// A wait counts from when the request was sent, or from when it was due if the connection had too
// much unanswered to send it.
Result<PacedResult> run_paced(const PacedOptions& options);

}  // namespace sf::load
