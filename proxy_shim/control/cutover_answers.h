// Who asked for units to be switched and has not been answered: everybody is, when all his units
// are decided, or when the time is over, with the state the others are in then. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/slots/slot_set.h"
#include "proxy_shim/data/route_table.h"

namespace sf {

struct UnitResult {
  SlotSet slots;
  SlotPhase phase = SlotPhase::kOld;
  int64_t pause_us = 0;
  int64_t held = 0;
  std::string text;
};

class CutoverAnswers {
 public:
  using Done = std::function<void(std::vector<UnitResult>)>;
  using PhaseOf = std::function<SlotPhase(const SlotSet&)>;

  // `phase_of` is asked about units that are not decided when the time is over; any thread.
  CutoverAnswers(const Clock* clock, int64_t answer_ms, PhaseOf phase_of);
  ~CutoverAnswers();  // stops

  void start();  // after stop() again, too
  // Answers everybody who is left.
  void stop();

  // `done` is called once, on any thread.
  uint64_t ask(const std::vector<SlotSet>& units, Done done);
  void tried(uint64_t request, const SlotSet& unit, int attempts, const std::string& why_not);
  void decide(uint64_t request, UnitResult result);

 private:
  struct Unit {
    UnitResult result;
    bool decided = false;
    int attempts = 0;
  };
  struct Request {
    std::map<int, Unit> units;  // by first slot
    Done done;
    int64_t due_us = 0;
  };

  void loop();
  std::vector<UnitResult> results_of(Request& request) const;

  const Clock* const clock_;
  const int64_t answer_ms_;
  const PhaseOf phase_of_;
  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  std::map<uint64_t, Request> requests_;  // in the order they are due
  uint64_t next_ = 1;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sf
