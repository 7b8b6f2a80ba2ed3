// One of the proxy's 1,024 slots: where it goes, and the lock that fillslots takes (contracts/codis
// 1.6, 5.1). Loop thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/codis/proxy_backend.h"

namespace sf::codis {

// A slot as the dashboard sends it (4.3).
struct SlotFill {
  int id = 0;
  bool locked = false;
  std::string backend_addr;
  int backend_group = 0;
  std::string migrate_from;
  int migrate_from_group = 0;
  int forward_method = 0;  // 0 sync, 1 semi-async
  std::vector<std::vector<std::string>> replica_groups;
};

struct Slot {
  SlotFill as_filled;
  SharedBackend* backend = nullptr;
  SharedBackend* migrate_from = nullptr;
  std::vector<std::vector<SharedBackend*>> replicas;

  bool held = false;   // fillslots is draining it, or left it locked: new requests wait
  int in_flight = 0;   // requests sent to a backend and not answered
  int forwarding = 0;  // requests whose migration wrapper is still being asked
  Waiters waiters;
  std::function<void()> on_drained;  // set while fillslots waits; runs once

  bool drained() const { return in_flight == 0 && forwarding == 0; }
  void check_drained() {
    if (!on_drained || !drained()) return;
    const auto run = std::move(on_drained);
    on_drained = nullptr;
    run();
  }
};

}  // namespace sf::codis
