// Walks the units one after the other on a control thread: queue, forecast, retries with back-off,
// pacing, the automatic mode, and what is owed from earlier attempts (DESIGN 6.2).
//
// Public methods: any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "proxy_shim/control/unit_run.h"

namespace sf {

struct UnitResult {
  SlotSet slots;
  SlotPhase phase = SlotPhase::kOld;
  int64_t pause_us = 0;
  int64_t held = 0;
  std::string text;
};

struct RunnerOptions {
  int64_t max_pause_ms = 500;
  int hold_share_percent = 5;
  int64_t idle_gap_ms_max = 40;  // pacing waits no longer; the next unit's preparation comes on top
  int attempts_max = 6;          // of one unit in one request
  int64_t back_off_ms = 50;      // doubled each time, at most 40 times as long
  std::string state_dir;         // where the owner record goes: no attempt without room for it
};

class CutoverRunner {
 public:
  using Done = std::function<void(std::vector<UnitResult>)>;

  CutoverRunner(const RunPorts& ports, RunnerOptions options);
  ~CutoverRunner();

  // Before start(): what the start-up left owed for a unit.
  void owe(const SlotSet& unit, const CutoverMachine::Debts& debts, uint64_t epoch);
  void start();  // after stop() again, too
  // Takes a running attempt back if that is still possible, and ends the thread. Queued units are
  // answered as not started.
  void stop();

  // `done` is called on the runner's thread when every unit is decided. Refused if the slots are
  // not whole units of the plan. max_pause_ms 0: the plan's.
  Status cutover(const SlotSet& slots, int64_t max_pause_ms, Done done);
  void abort(const SlotSet& slots);
  Status set_auto(const SlotSet& slots, bool on);
  // Takes the running attempt back, if it can be: a hold overflowed, a backend changed.
  void interrupt(const std::string& why);
  // The monitor has new lags: the automatic mode looks at them.
  void wake();

  std::vector<SlotSet> units_of(const SlotSet& slots) const;

 private:
  struct Request {
    std::vector<UnitResult> results;
    size_t left = 0;
    Done done;
  };
  struct Job {
    SlotSet slots;
    int64_t max_pause_ms = 0;
    int attempts = 0;
    int64_t not_before_us = 0;
    std::shared_ptr<Request> request;  // null: the automatic mode's
  };
  enum class Verdict { kDone, kAgain };

  void loop();
  bool take_job(std::unique_lock<std::mutex>& lock, Job* job);
  void queue_automatic_locked();
  bool is_stopping();
  void pay_debts();
  Verdict run_job(Job& job, UnitResult* result);
  bool may_start(const Job& job, CutoverMachine& machine, std::string* why_not, bool* hopeless);
  void answer(Job& job, UnitResult result);
  void pace(int64_t let_go_us, int64_t hold_us);
  CutoverMachine& machine_of(const SlotSet& unit);
  bool sleep_until(std::unique_lock<std::mutex>& lock, int64_t us);
  Status check_units(const SlotSet& slots) const;

  const RunPorts ports_;
  const RunnerOptions options_;
  InterruptBox interrupts_;
  std::map<int, std::unique_ptr<CutoverMachine>>
      machines_;  // by first slot; runner's thread after start
  int64_t debts_due_us_ = 0;
  int64_t debt_gap_ms_ = 0;

  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  std::deque<Job> queue_;
  SlotSet running_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sf
