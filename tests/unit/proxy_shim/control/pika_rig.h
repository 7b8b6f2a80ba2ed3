// A pair of fake Pikas and a driver between them.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/slots/slot_tag.h"
#include "proxy_shim/control/pika_driver.h"
#include "tests/support/fake_pika/fake_pika.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {

using fake_pika::FakePika;
using fake_pika::PikaOptions;
using fake_pika::Words;

constexpr int64_t kMs = 5'000;

inline bool eventually(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a server can only be asked
  }
  return false;
}

inline bool has(FakePika& pika, const Words& question, const std::string& part) {
  return pika.call(question).find(part) != std::string::npos;
}

inline std::string offset_of(FakePika& pika) {
  const std::string text = pika.call({"INFO", "replication"});
  const size_t mark = text.find("binlog_offset=");
  return text.substr(mark, text.find(',', mark) - mark);
}

struct PikaRig {
  explicit PikaRig(const PikaOptions& options = {}) : from(options), to(options) {
    plan = test_plan(options.sharding ? CutUnit::kSlot : CutUnit::kPlan);
    plan.handback = HandbackWay::kSlotAction;
    plan.old_side.kind = plan.new_side.kind =
        options.sharding ? ServerKind::kPikaSharding : ServerKind::kPika;
    plan.old_side.master = {"127.0.0.1", from.port()};
    plan.new_side.master = {"127.0.0.1", to.port()};
    plan.accept = {"streams"};
    plan.max_pause_ms = 5'000;
    slots = options.sharding ? SlotSet::of(901) : plan.slots;
    attempt = {slots, 7};
    key = cat("{", tag_of_slot(901, kSlotCount), "}key");
  }
  void follow() {
    const std::string port = std::to_string(from.port());
    if (plan.unit == CutUnit::kSlot) {
      to.call({"PKCLUSTER", "SLOTSSLAVEOF", "127.0.0.1", port, "901-910"});
    } else {
      to.call({"SLAVEOF", "127.0.0.1", port});
      to.call({"CONFIG", "REWRITE"});
    }
  }
  void start() {
    follow();
    make();
    REQUIRE(eventually([&] { return driver->sync_state(slots, kMs).following; }));
  }
  void make() {
    Result<std::unique_ptr<BackendDriver>> made = make_driver(plan, &notes, &clock, "test", kMs);
    REQUIRE_MESSAGE(made.is_ok(), made.status().text());
    driver = std::move(*made);
  }
  Result<ReplPosition> fence() {
    const Status announced = driver->announce(attempt, kMs);
    REQUIRE_MESSAGE(announced.is_ok(), announced.text());
    return driver->fence(attempt, 500, kMs);
  }
  // Up to and with the promote.
  ReplPosition switch_over() {
    const Result<ReplPosition> end = fence();
    REQUIRE_MESSAGE(end.is_ok(), end.status().text());
    REQUIRE(*driver->wait_applied(attempt, *end, kMs));
    CHECK(driver->check_writers(kMs).is_ok());
    CHECK(*driver->fence_permanent(attempt, kMs) == *end);
    const Result<ReplPosition> promoted = driver->promote(attempt, *end, kMs);
    REQUIRE_MESSAGE(promoted.is_ok(), promoted.status().text());
    CHECK(*promoted == *end);
    return *end;
  }
  FakePika from, to;
  MemoryNotes notes;
  SystemClock clock;
  MovePlan plan;
  SlotSet slots;
  CutAttempt attempt;
  std::string key;
  std::unique_ptr<BackendDriver> driver;
};

}  // namespace sf
