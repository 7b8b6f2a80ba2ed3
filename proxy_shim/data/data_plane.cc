#include "proxy_shim/data/data_plane.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <map>
#include <mutex>

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/net/uv_loop.h"
#include "common/net/worker_pool.h"
#include "proxy_shim/data/worker.h"

namespace sf {

DataPlaneStats PlaneShared::total_stats() const {
  DataPlaneStats sum;
  for (const auto& worker : stats) {
    sum.clients += worker->clients.get();
    sum.requests += worker->requests.get();
    sum.errors += worker->errors.get();
    sum.inflight += worker->inflight.get();
    sum.bytes_in += worker->bytes_in.get();
    sum.bytes_out += worker->bytes_out.get();
    sum.rejected += worker->rejected.get();
  }
  sum.refused_clients = refused_clients.load(std::memory_order_relaxed);
  sum.held_now = holds.requests();
  sum.held_bytes_now = holds.bytes();
  return sum;
}

namespace {

// Waits, with a deadline, until each of n workers has said something. Kept alive by the posted
// closures, so that a late answer after the deadline finds it.
class Gathering {
 public:
  explicit Gathering(int left) : left_(left) {}

  void add(int64_t value) {
    const std::lock_guard lock(mutex_);
    sum_ += value;
    if (--left_ == 0) all_.notify_all();
  }
  bool wait(int64_t timeout_ms) {
    std::unique_lock lock(mutex_);
    return all_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return left_ == 0; });
  }
  int64_t sum() const { return sum_; }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  int left_;
  int64_t sum_ = 0;
};

// A worker that does not come round in this time is stuck, and nothing it does can be promised.
constexpr int64_t kWorkerTurnMaxMs = 5'000;

class DataPlaneImpl final : public DataPlane {
 public:
  DataPlaneImpl(const DataPlaneOptions& options, Log log) : shared_(options, std::move(log)) {}
  ~DataPlaneImpl() override { stop(); }

  Status start(std::shared_ptr<const RouteTable> table) override;
  int port() const override { return shared_.port.load(std::memory_order_relaxed); }
  Status publish(std::shared_ptr<const RouteTable> table) override;
  Result<Drained> drain(const SlotSet& slots, InFlight what, int64_t timeout_ms,
                        Side side) override;
  void forget_unanswered(const SlotSet& slots, Side side) override;
  KeyNotes take_notes() override;
  HoldReport take_hold_report(const SlotSet& slots) override;
  void on_hold_overflow(std::function<void()> fn) override {
    shared_.holds.set_on_overflow(std::move(fn));
  }
  void on_stranger(std::function<void()> fn) override { shared_.on_stranger = std::move(fn); }
  void set_rules(const DataRules& rules) override;
  DataRules rules() const override;
  ReadCheckCounts read_checks(SlotDifferences* by_slot) const override;
  void set_facts(std::shared_ptr<const BackendFacts> facts) override;
  DataPlaneStats stats() const override { return shared_.total_stats(); }
  Histogram latency_us() const override;
  void shut_down(int64_t timeout_ms) override;

 private:
  // Runs fn on every worker's thread and waits.
  void on_each(const std::function<void(Worker&)>& fn) const;
  void accepted(std::unique_ptr<AcceptedSocket> socket);
  void stop_accepting();
  void stop();

  PlaneShared shared_;
  mutable std::mutex rules_mutex_;
  DataRules rules_ = shared_.options.rules;  // guarded by rules_mutex_
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<WorkerPool> pool_;
  std::unique_ptr<WorkerPool> acceptor_;
  std::unique_ptr<Listener> listener_;
  size_t next_worker_ = 0;  // the acceptor's
  KeyNotes last_notes_;     // of workers that are gone
  std::atomic<uint64_t> next_drain_{1};
};

Status DataPlaneImpl::start(std::shared_ptr<const RouteTable> table) {
  const int threads = shared_.options.threads;
  if (threads < 1 || threads > 64) {
    return Status::invalid(cat("threads is ", threads, ", expected 1 to 64"));
  }
  for (int i = 0; i < threads; ++i) shared_.stats.push_back(std::make_unique<WorkerStats>());
  pool_ = std::make_unique<WorkerPool>(threads, "shim", make_uv_loop);
  acceptor_ = std::make_unique<WorkerPool>(1, "shim-accept", make_uv_loop);
  shared_.started_us = acceptor_->loop(0).now_us();
  workers_.resize(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    pool_->run_on(i, [&] {
      workers_[static_cast<size_t>(i)] =
          std::make_unique<Worker>(i, pool_->loop(i), shared_, table);
    });
  }
  Status outcome;
  acceptor_->run_on(0, [&] {
    auto listener = acceptor_->loop(0).listen(
        shared_.options.bind, shared_.options.port,
        [this](std::unique_ptr<AcceptedSocket> socket) { accepted(std::move(socket)); });
    if (!listener) {
      outcome = listener.status();
      return;
    }
    listener_ = std::move(*listener);
    shared_.port.store(listener_->port(), std::memory_order_relaxed);
  });
  if (!outcome) stop();
  return outcome;
}

// The acceptor's thread. Over the limit the connection is closed at once: a proxy redials with
// back-off.
void DataPlaneImpl::accepted(std::unique_ptr<AcceptedSocket> socket) {
  const auto limit = static_cast<int64_t>(shared_.options.clients_max);
  if (shared_.clients.fetch_add(1, std::memory_order_relaxed) >= limit) {
    shared_.clients.fetch_sub(1, std::memory_order_relaxed);
    shared_.refused_clients.fetch_add(1, std::memory_order_relaxed);
    shared_.log.warning(cat("connection from ", socket->peer(), " refused: ", limit,
                            " clients are connected, the limit of clients-max"));
    return;
  }
  Worker* worker = workers_[next_worker_].get();
  Loop& loop = pool_->loop(static_cast<int>(next_worker_));
  next_worker_ = (next_worker_ + 1) % workers_.size();
  const auto moved = std::make_shared<std::unique_ptr<AcceptedSocket>>(std::move(socket));
  loop.post([worker, moved] { worker->adopt(std::move(*moved)); });
}

void DataPlaneImpl::on_each(const std::function<void(Worker&)>& fn) const {
  const auto all = std::make_shared<Gathering>(static_cast<int>(workers_.size()));
  for (size_t i = 0; i < workers_.size(); ++i) {
    pool_->loop(static_cast<int>(i)).post([&fn, all, worker = workers_[i].get()] {
      fn(*worker);
      all->add(0);
    });
  }
  while (!all->wait(kWorkerTurnMaxMs)) {
    shared_.log.error("a worker has not come round for 5 s; control waits for it");
  }
}

Status DataPlaneImpl::publish(std::shared_ptr<const RouteTable> table) {
  if (workers_.empty()) return Status::refused("the data plane is not running");
  shared_.holds.rearm();
  const auto all = std::make_shared<Gathering>(static_cast<int>(workers_.size()));
  for (size_t i = 0; i < workers_.size(); ++i) {
    pool_->loop(static_cast<int>(i)).post([table, all, worker = workers_[i].get()] {
      worker->apply(table);
      all->add(0);
    });
  }
  if (!all->wait(kWorkerTurnMaxMs)) {
    return Status::timeout(cat("not every worker took routes of epoch ", table->epoch, " in ",
                               kWorkerTurnMaxMs, " ms; they take it as soon as they come round"));
  }
  return Status::ok();
}

Result<DataPlane::Drained> DataPlaneImpl::drain(const SlotSet& slots, InFlight what,
                                                int64_t timeout_ms, Side side) {
  if (workers_.empty()) return Status::refused("the data plane is not running");
  const uint64_t id = next_drain_.fetch_add(1);
  const auto all = std::make_shared<Gathering>(static_cast<int>(workers_.size()));
  for (size_t i = 0; i < workers_.size(); ++i) {
    pool_->loop(static_cast<int>(i)).post([id, slots, what, side, all, worker = workers_[i].get()] {
      worker->ledger().when_drained(
          id, slots, what, [all](int64_t lost) { all->add(lost); }, side);
    });
  }
  if (all->wait(timeout_ms)) return Drained{all->sum()};
  on_each([id](Worker& worker) { worker.ledger().cancel(id); });
  return Status::timeout(cat(what == InFlight::kAll ? "requests" : "writes", " to slots ",
                             slots.text(), " were still unanswered after ", timeout_ms, " ms"));
}

void DataPlaneImpl::forget_unanswered(const SlotSet& slots, Side side) {
  on_each([&](Worker& worker) { worker.ledger().forget_unanswered(slots, side); });
}

KeyNotes DataPlaneImpl::take_notes() {
  if (workers_.empty()) return std::exchange(last_notes_, {});
  std::mutex mutex;
  KeyNotes all;
  on_each([&](Worker& worker) {
    KeyNotes some = worker.notes().take();
    const std::lock_guard lock(mutex);
    all.overflowed = all.overflowed || some.overflowed;
    std::move(some.keys.begin(), some.keys.end(), std::back_inserter(all.keys));
  });
  return all;
}

HoldReport DataPlaneImpl::take_hold_report(const SlotSet& slots) {
  std::mutex mutex;
  HoldQueue::Part sum;
  on_each([&](Worker& worker) {
    const HoldQueue::Part part = worker.holds().take_report(slots);
    const std::lock_guard lock(mutex);
    sum.merge(part);
  });
  return {slots, sum.requests, sum.bytes, sum.first_us == 0 ? 0 : sum.last_us - sum.first_us};
}

void DataPlaneImpl::set_rules(const DataRules& rules) {
  const std::lock_guard lock(rules_mutex_);
  if (rules.reads == ReadPolicy::kNewThenOld && rules_.reads != rules.reads) {
    shared_.log.warning(
        "reads go to the new side first: before a switch they may be stale, after it deleted keys "
        "may come back");
  }
  rules_ = rules;
  on_each([&](Worker& worker) { worker.checks().set(rules); });
}

DataRules DataPlaneImpl::rules() const {
  const std::lock_guard lock(rules_mutex_);
  return rules_;
}

ReadCheckCounts DataPlaneImpl::read_checks(SlotDifferences* by_slot) const {
  std::mutex mutex;
  ReadCheckCounts sum;
  std::map<int, int64_t> slots;
  on_each([&](Worker& worker) {
    const ReadCheckCounts one = worker.checks().counts();
    const std::lock_guard lock(mutex);
    sum.compared += one.compared;
    sum.different += one.different;
    sum.late += one.late;
    sum.skipped += one.skipped;
    sum.fallbacks += one.fallbacks;
    for (const auto& [slot, count] : worker.checks().differences()) slots[slot] += count;
  });
  if (by_slot != nullptr) by_slot->assign(slots.begin(), slots.end());
  return sum;
}

void DataPlaneImpl::set_facts(std::shared_ptr<const BackendFacts> facts) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    pool_->loop(static_cast<int>(i)).post([facts, worker = workers_[i].get()] {
      worker->set_facts(facts);
    });
  }
}

Histogram DataPlaneImpl::latency_us() const {
  std::mutex mutex;
  Histogram sum;
  on_each([&](Worker& worker) {
    const std::lock_guard lock(mutex);
    sum.merge(worker.latency());
  });
  return sum;
}

void DataPlaneImpl::stop_accepting() {
  if (acceptor_ == nullptr) return;
  acceptor_->run_on(0, [this] { listener_.reset(); });
  acceptor_.reset();
}

void DataPlaneImpl::shut_down(int64_t timeout_ms) {
  if (workers_.empty()) return;
  stop_accepting();
  const auto all = std::make_shared<Gathering>(static_cast<int>(workers_.size()));
  for (size_t i = 0; i < workers_.size(); ++i) {
    pool_->loop(static_cast<int>(i)).post([all, worker = workers_[i].get()] {
      worker->finish_clients([all] { all->add(0); });
    });
  }
  const bool is_clean = all->wait(timeout_ms);
  if (!is_clean) shared_.log.warning("some clients were cut off by the shutdown");
  KeyNotes notes = take_notes();
  notes.overflowed = notes.overflowed || !is_clean;  // who is cut off may have a write under way
  last_notes_ = std::move(notes);
  stop();
}

void DataPlaneImpl::stop() {
  stop_accepting();
  if (pool_ == nullptr) return;
  for (size_t i = 0; i < workers_.size(); ++i) {
    pool_->run_on(static_cast<int>(i), [&] { workers_[i].reset(); });
  }
  workers_.clear();
  pool_.reset();
}

}  // namespace

std::unique_ptr<DataPlane> make_data_plane(const DataPlaneOptions& options, Log log) {
  return std::make_unique<DataPlaneImpl>(options, std::move(log));
}

}  // namespace sf
