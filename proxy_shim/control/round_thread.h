// A thread that does the same round again and again: at once after start(), then each period, and
// whenever it is told to.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace sf {

class RoundThread {
 public:
  RoundThread(std::chrono::milliseconds period, std::function<void()> round);
  ~RoundThread();  // stops

  void start();  // after stop() again, too
  void stop();   // waits for the round under way
  void now();    // any thread: the next round does not wait for its time

 private:
  void loop();

  const std::chrono::milliseconds period_;
  const std::function<void()> round_;
  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  bool stopping_ = false;
  bool now_ = false;
  std::thread thread_;
};

}  // namespace sf
