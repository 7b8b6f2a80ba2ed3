// What all workers of one data plane share. Everything here is constant after start, or
// thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ops/log.h"
#include "common/ops/metrics.h"
#include "proxy_shim/data/command_table.h"
#include "proxy_shim/data/data_plane.h"
#include "proxy_shim/data/hold_queue.h"

namespace sf {

// Written by one worker, read by any thread.
struct WorkerStats {
  Cell clients, requests, errors, inflight, bytes_in, bytes_out, rejected;
};

struct PlaneShared {
  PlaneShared(const DataPlaneOptions& o, Log l)
      : options(o), log(std::move(l)), holds(o.held_requests_max, o.held_bytes_max) {}

  const DataPlaneOptions options;
  const Log log;
  const CommandTable commands;
  HoldBudget holds;
  std::vector<std::unique_ptr<WorkerStats>> stats;  // one a worker; fixed at start
  std::atomic<int64_t> clients{0};
  std::atomic<int64_t> refused_clients{0};  // over clients_max
  std::atomic<int64_t> input_bytes{0};  // of unfinished large requests
  std::atomic<int> port{0};
  int64_t started_us = 0;
  std::function<void()> on_stranger;  // set before start; may be empty

  DataPlaneStats total_stats() const;
};

}  // namespace sf
