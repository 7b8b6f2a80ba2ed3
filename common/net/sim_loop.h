// The simulated twin of uv_loop.h: virtual time, a network made of a seed, any number of processes
// in one thread. The same seed and the same calls give the same history, byte for byte.
//
// What the seed decides: the latency of each transmission, how bytes are cut into reads, how late a
// posted function runs, and (where asked for) which connections break. Bytes of one connection stay
// in order. A connection takes `window` bytes that the other side has not read; more stays unsent.
//
// Threads: one, for everything; only Loop::post() and stop() may be called from others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/net/loop.h"

namespace sf {

struct SimOptions {
  uint64_t seed = 1;
  int64_t min_latency_us = 20;
  int64_t max_latency_us = 400;
  size_t window = 256 << 10;
  double break_chance = 0;  // of each delivery, that its connection breaks there
};

// Must outlive its loops.
class SimNetwork {
 public:
  explicit SimNetwork(const SimOptions& options);
  ~SimNetwork();

  // One loop (a thread) of the simulated process `process`. Loop::run() of it runs the whole
  // network until its stop(), or until nothing is left to happen.
  std::unique_ptr<Loop> make_loop(const std::string& process);

  int64_t now_us() const;
  bool step();  // false: nothing left to happen
  bool run_until(const std::function<bool()>& done, int64_t max_us);  // false: it did not come true
  void run_for(int64_t us);

  // kill -9: the process's loops run nothing any more and its streams are dead without a word;
  // peers learn it after the bytes already sent. Its objects may be destroyed at any time
  // afterwards, and a process of that name be started again.
  void kill(const std::string& process);
  // Bytes and connection attempts between the two wait until heal().
  void partition(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  // Resets every connection between the two; what is under way is lost.
  void break_connections(const std::string& a, const std::string& b);
  void set_break_chance(double chance);
  void set_latency(int64_t min_us, int64_t max_us);
  void jump_wall_ms(const std::string& process, int64_t ms);  // as NTP or an operator would

  class Core;

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace sf
