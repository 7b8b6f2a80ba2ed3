// N threads, one Loop each. Objects made on a worker's loop stay there; everybody else talks to them
// by loop(i).post().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/net/loop.h"

namespace sf {

class WorkerPool {
 public:
  // Starts `count` (>= 1) threads named `name`-0.. with loops made by `make`.
  WorkerPool(int count, const std::string& name,
             const std::function<std::unique_ptr<Loop>()>& make);
  ~WorkerPool();  // stops the loops and joins

  int size() const { return static_cast<int>(loops_.size()); }
  Loop& loop(int i) { return *loops_[static_cast<size_t>(i)]; }

  // Posts fn(i) to every loop; when all have run, posts `done` to `home`. Any thread.
  void broadcast(std::function<void(int)> fn, Loop* home, std::function<void()> done);
  // Runs fn on loop i and waits for it. Not from a pool thread.
  void run_on(int i, const std::function<void()>& fn);

 private:
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::thread> threads_;
};

}  // namespace sf
