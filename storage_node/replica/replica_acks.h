// What this node's full replicas have acknowledged, and clients that wait for it (WAIT, WAITAOF,
// min-replicas-to-write). Woken by events. Any thread; callbacks must only post.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "common/base/status.h"

namespace sf {

class ReplicaAcks {
 public:
  static constexpr size_t kWaitersMax = 4096;

  struct Ack {
    bool online = false;  // it streams
    uint64_t applied = 0;
    uint64_t synced = 0;
    int64_t at_us = 0;  // mono, of the last ack; 0: none yet
  };
  // True: it came, went, or is online now and was not, or the other way round.
  bool update(uint64_t replica, const Ack& ack);
  void remove(uint64_t replica);

  // Online replicas that have applied, or synced, everything up to `seq`.
  int count(uint64_t seq, bool synced) const;
  // Online replicas that acknowledged at `since_us` or later.
  int good(int64_t since_us) const;

  // 0: as many as that are there already, and `done` was not kept. Else the waiter's number.
  // kNoSpace: too many wait.
  Result<uint64_t> wait(uint64_t seq, bool synced, int replicas, std::function<void()> done);
  bool stop(uint64_t waiter);  // false: it was done already

 private:
  struct Waiter {
    uint64_t seq = 0;
    bool synced = false;
    int replicas = 0;
    std::function<void()> done;
  };
  int count_locked(uint64_t seq, bool synced) const;
  void wake();

  mutable std::mutex mutex_;
  std::map<uint64_t, Ack> acks_;
  std::map<uint64_t, Waiter> waiters_;
  uint64_t last_ = 0;
};

}  // namespace sf
