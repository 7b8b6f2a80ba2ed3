// What can be set for replication while the node runs (docs/CONFIG.md): asked for each time it is
// needed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace sf {

struct ReplicaSettings {
  int64_t ping_ms = 1000;
  int64_t timeout_s = 10;
  int64_t copy_bytes_per_second = 128LL << 20;  // of the node; 0: no limit
  int64_t copy_cpu_percent = 10;  // of one core, reading slots; of the node; 0: no limit
  int copy_parallel = 2;
  int64_t output_bytes = 4LL << 20;
  int64_t min_replicas = 0;  // full ones, for writes to be taken; 0: none needed
  int64_t max_lag_s = 10;    // of their last ack; 0: min_replicas does not count

  int64_t silence_us() const { return timeout_s * 1'000'000; }
  // A link must not be cut for being quiet, whatever was set.
  int64_t ping_us() const { return std::min(ping_ms * 1000, silence_us() / 4); }
};

}  // namespace sf
