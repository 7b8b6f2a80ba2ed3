#include "storage_node/replica/task_thread.h"

#include <utility>

namespace sf {

TaskThread::~TaskThread() {
  stop();
}

void TaskThread::run(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  wake_.notify_one();
}

void TaskThread::stop() {
  std::thread ending;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ending.swap(thread_);
  }
  wake_.notify_one();
  if (ending.joinable()) ending.join();
}

void TaskThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

}  // namespace sf
