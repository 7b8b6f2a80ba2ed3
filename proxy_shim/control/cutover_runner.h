// Walks the units on a few control threads, its lanes: queue, forecast, retries with back-off,
// turns to hold, the automatic mode, and what is owed from earlier attempts (DESIGN 6.2, ADR 0019).
// While one unit is released, linked and marked, the next is prepared; units hold at the same time
// only if the plan says so. A lane has its own driver; a unit is in one lane at a time.
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

#include "proxy_shim/control/cutover_answers.h"
#include "proxy_shim/control/hold_turns.h"
#include "proxy_shim/control/unit_run.h"

namespace sf {

struct RunnerOptions {
  int64_t max_pause_ms = 500;
  HoldPacing pacing;
  int attempts_max = 6;      // of one unit in one request
  int64_t back_off_ms = 50;  // doubled each time, at most 40 times as long
  // Likewise of the automatic mode, which never gives a unit up: at most this long.
  int64_t auto_back_off_ms_max = 60'000;
  int64_t answer_ms = 10'000;  // a request is answered by then, whatever its units do
  std::string state_dir;       // where the owner record goes: no attempt without room for it
};

class CutoverRunner {
 public:
  using Done = CutoverAnswers::Done;

  // What one lane works with: drivers of its own, which outlive the runner. `back` sees the sides
  // exchanged; null: this kind has no way back.
  struct LaneDrivers {
    BackendDriver* there = nullptr;
    BackendDriver* back = nullptr;
  };
  // None: one lane with `ports.driver`, and no way back.
  CutoverRunner(const RunPorts& ports, RunnerOptions options, std::vector<LaneDrivers> lanes = {});
  ~CutoverRunner();
  // How many lanes a pair of this kind can use: its servers take slots one by one, and a fence or
  // an end is of one slot alone.
  static int lanes_for(const HoldPacing& pacing) { return pacing.at_once + 2; }

  // Before start(): what the start-up left owed for a unit.
  // `back`: of an attempt, or a switch, back to the old side.
  void owe(const SlotSet& unit, const CutoverMachine::Debts& debts, uint64_t epoch, bool back);
  void start();  // after stop() again, too
  // Takes running attempts back if that is still possible, and ends the threads. Queued units are
  // answered as not started.
  void stop();

  // `done` is called when every unit is decided or the time is over, on a thread of the runner's.
  // Refused if the slots are not whole units of the plan. max_pause_ms 0: the plan's.
  Status cutover(const SlotSet& slots, int64_t max_pause_ms, Done done) {
    return ask(slots, max_pause_ms, false, std::move(done));
  }
  // Units in NEW go back to the old side, which follows the new one. They leave the automatic mode.
  Status rollback(const SlotSet& slots, int64_t max_pause_ms, Done done);
  // Some of them are on their way back, or queued for it, or what that has left undone is owed:
  // then `owed` says what, and with it what the operator has to do where trying again never helps.
  bool going_back(const SlotSet& slots, std::string* owed);
  void abort(const SlotSet& slots);
  // Off: what is queued by this mode alone is dropped; a running attempt goes on to its end.
  Status set_auto(const SlotSet& slots, bool on);
  // Takes the running attempts back, if they can be: a hold overflowed, a backend changed.
  void interrupt(const std::string& why);
  // The monitor has new lags: the automatic mode looks at them.
  void wake();

  std::vector<SlotSet> units_of(const SlotSet& slots) const;

 private:
  // A unit's machine, and the direction of its last attempt: the machine's OLD is who owns the unit
  // before a switch in that direction (direction.h).
  struct Unit {
    std::unique_ptr<CutoverMachine> machine;
    bool back = false;
  };
  struct Job {
    SlotSet slots;
    bool back = false;
    int64_t max_pause_ms = 0;
    int attempts = 0;
    int64_t not_before_us = 0;       // since when it is there to be begun
    std::vector<uint64_t> requests;  // none: the automatic mode's
    int64_t asked_us = 0;            // as in HoldTurns::rests_until_us()
  };
  // How it went with a unit in the automatic mode, which queues each attempt anew.
  struct Patience {
    int failures = 0;
    int64_t not_before_us = 0;
    int64_t asked_us = 0;  // when it was put into the mode
  };
  struct Lane : HoldGate {
    Lane(CutoverRunner* owner, const RunPorts& there, const RunPorts& back)
        : runner(owner), ports{there, back} {}
    const RunPorts& ports_for(bool back) const { return ports[back ? 1 : 0]; }
    bool take_turn(const std::function<bool()>& gave_up, int64_t* gap_us) override;
    void end_turn(bool taken_back) override;

    CutoverRunner* const runner;
    const RunPorts ports[2];  // with its own drivers: there, back
    InterruptBox interrupts;
    // Guarded by mutex_:
    SlotSet running;          // the job's
    bool going_back = false;  // the job is
    bool aborted = false;     // likewise: whatever becomes of the attempt, there is no other
    SlotSet paying;           // whose debts it pays
    bool inside = false;      // counted by turns_
    int64_t ready_us = 0;     // since when its job is there to be begun
    int64_t asked_us = 0;     // the job's
    std::thread thread;
  };
  enum class Verdict { kDone, kAgain, kWaits };  // kWaits: no attempt was made

  void loop(Lane& lane);
  bool take_job(std::unique_lock<std::mutex>& lock, Lane& lane, Job* job);
  // Answers when to look again, at the latest.
  int64_t queue_automatic_locked(int64_t now_us);
  void learn_patience_locked(const Lane& lane, const Job& job, Verdict verdict,
                             const UnitResult& result);
  // When a unit is ready: not before its back-off is over, nor in the rest of another's hold.
  int64_t ready_at_locked(int64_t not_before_us, int64_t asked_us) const;
  void tell_rest_locked();
  void queue_again_locked(Job job);
  void finish_job(Lane& lane, Job job, Verdict verdict, UnitResult result);
  SlotSet busy_locked() const;
  void pay_debts(std::unique_lock<std::mutex>& lock, Lane& lane);
  void owe_later_locked();
  Verdict run_job(Lane& lane, Job& job, UnitResult* result);
  void note_debts(const Unit& unit, const SlotSet& slots);
  bool pay(Lane& lane, Unit& unit, const SlotSet& slots, int64_t max_pause_ms);
  bool may_start(Lane& lane, const Job& job, Unit& unit, std::string* why_not, bool* hopeless);
  Status ask(const SlotSet& slots, int64_t max_pause_ms, bool back, Done done);
  // I2b: both sides are still being compared (heal_pass.h).
  bool waits_for_pass(const Lane& lane, std::string* why) const;
  void answer(const Job& job, const UnitResult& result);
  // Made in direction `back` if there is none.
  Unit& unit_of(const SlotSet& slots, bool back);
  bool sleep_until(std::unique_lock<std::mutex>& lock, int64_t us);
  Status check_units(const SlotSet& slots) const;

  const RunPorts ports_;
  const RunnerOptions options_;
  CutoverAnswers answers_;

  std::mutex mutex_;  // everything below
  std::condition_variable changed_;
  std::map<int, Unit> units_;              // by first slot; each is used by one lane at a time
  std::map<int, std::string> owing_back_;  // slots that owe something of a way back, and what
  HoldTurns turns_;
  int64_t debts_due_us_ = 0;
  int64_t debt_gap_ms_ = 0;
  bool paying_ = false;  // one lane at a time
  std::deque<Job> queue_;
  std::map<int, Patience> patience_;  // by first slot
  bool stopping_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace sf
