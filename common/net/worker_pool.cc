#include "common/net/worker_pool.h"

#include <pthread.h>

#include <atomic>
#include <future>
#include <utility>

#include "common/base/check.h"
#include "common/base/strings.h"

namespace sf {
namespace {
constexpr size_t kMaxThreadName = 15;  // pthread_setname_np refuses more
}  // namespace

WorkerPool::WorkerPool(int count, const std::string& name,
                       const std::function<std::unique_ptr<Loop>()>& make) {
  SF_CHECK(count >= 1);
  for (int i = 0; i < count; ++i) loops_.push_back(make());
  for (int i = 0; i < count; ++i) {
    threads_.emplace_back([loop = loops_[static_cast<size_t>(i)].get()] { loop->run(); });
    const std::string suffix = cat("-", i);
    const std::string thread_name = name.substr(0, kMaxThreadName - suffix.size()) + suffix;
    pthread_setname_np(threads_.back().native_handle(), thread_name.c_str());
  }
}

WorkerPool::~WorkerPool() {
  for (auto& loop : loops_) loop->stop();
  for (auto& thread : threads_) thread.join();
}

void WorkerPool::broadcast(std::function<void(int)> fn, Loop* home, std::function<void()> done) {
  struct Round {
    std::function<void(int)> fn;
    std::function<void()> done;
    std::atomic<int> left;
  };
  auto round = std::make_shared<Round>();
  round->fn = std::move(fn);
  round->done = std::move(done);
  round->left = size();
  for (int i = 0; i < size(); ++i) {
    loop(i).post([round, home, i] {
      round->fn(i);
      if (round->left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      if (round->done) home->post(std::move(round->done));
    });
  }
}

void WorkerPool::run_on(int i, const std::function<void()>& fn) {
  std::promise<void> ran;
  loop(i).post([&fn, &ran] {
    fn();
    ran.set_value();
  });
  ran.get_future().wait();
}

}  // namespace sf
