#include "storage_node/replica/replica_acks.h"

#include <algorithm>

#include "common/base/strings.h"

namespace sf {

bool ReplicaAcks::update(uint64_t replica, const Ack& ack) {
  const std::lock_guard lock(mutex_);
  auto [it, fresh] = acks_.try_emplace(replica);
  bool turned = fresh || it->second.online != ack.online || it->second.at_us == 0;
  it->second = ack;
  wake();
  return turned;
}

void ReplicaAcks::remove(uint64_t replica) {
  const std::lock_guard lock(mutex_);
  acks_.erase(replica);
}

int ReplicaAcks::count(uint64_t seq, bool synced) const {
  const std::lock_guard lock(mutex_);
  return count_locked(seq, synced);
}

int ReplicaAcks::count_locked(uint64_t seq, bool synced) const {
  return static_cast<int>(std::count_if(acks_.begin(), acks_.end(), [&](const auto& item) {
    const Ack& ack = item.second;
    return ack.online && (synced ? ack.synced : ack.applied) >= seq;
  }));
}

int ReplicaAcks::good(int64_t since_us) const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(acks_.begin(), acks_.end(), [&](const auto& item) {
    return item.second.online && item.second.at_us != 0 && item.second.at_us >= since_us;
  }));
}

Result<uint64_t> ReplicaAcks::wait(uint64_t seq, bool synced, int replicas,
                                   std::function<void()> done) {
  const std::lock_guard lock(mutex_);
  if (count_locked(seq, synced) >= replicas) return uint64_t{0};
  if (waiters_.size() >= kWaitersMax) {
    return Status::no_space(cat("ERR more than ", kWaitersMax, " clients wait for replicas here"));
  }
  waiters_[++last_] = {seq, synced, replicas, std::move(done)};
  return last_;
}

bool ReplicaAcks::stop(uint64_t waiter) {
  const std::lock_guard lock(mutex_);
  return waiters_.erase(waiter) != 0;
}

void ReplicaAcks::wake() {
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    const Waiter& waiter = it->second;
    if (count_locked(waiter.seq, waiter.synced) >= waiter.replicas) {
      waiter.done();
      it = waiters_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace sf
