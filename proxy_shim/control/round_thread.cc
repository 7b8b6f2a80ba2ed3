#include "proxy_shim/control/round_thread.h"

#include <utility>

namespace sf {

RoundThread::RoundThread(std::chrono::milliseconds period, std::function<void()> round)
    : period_(period), round_(std::move(round)) {}

RoundThread::~RoundThread() {
  stop();
}

void RoundThread::start() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = false;
  }
  thread_ = std::thread([this] { loop(); });
}

void RoundThread::stop() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RoundThread::now() {
  {
    std::lock_guard guard(mutex_);
    now_ = true;
  }
  changed_.notify_all();
}

void RoundThread::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    round_();
    lock.lock();
    changed_.wait_for(lock, period_, [this] { return stopping_ || now_; });
    now_ = false;
  }
}

}  // namespace sf
