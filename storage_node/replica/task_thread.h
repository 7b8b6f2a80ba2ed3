// One thread for what may wait for the disk (an fsync of the log, reading the log back), so that no
// loop does. Tasks run one at a time, in order. The thread begins with the first task.
//
// run() from any thread; a task must only post what it found.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sf {

class TaskThread {
 public:
  TaskThread() = default;
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void run(std::function<void()> task);  // after stop(): dropped
  void stop();  // waits for the task under way; those not begun are dropped

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sf
