// Which units may be prepared and which may hold, and when: the pacing of a move (DESIGN 6.2, ADR
// 0019). A held slot stalls every slot behind it on a proxy's connection, so holds come in batches
// of at most `at_once`; after a batch nothing is held until the share of held time is small again.
// A hold that led to a switch is there once for its unit, so the wait after it is short at most;
// one that was taken back may come again and again, so all of the share is waited for after it, up
// to a minute.
// Pure: the caller says what time it is. Not thread-safe.
//
//   prepare -> begin -> end        a unit that held
//   prepare -> withdraw            one that did not
#pragma once

#include <cstdint>
#include <functional>

namespace sf {

struct HoldPacing {
  int at_once = 1;                   // units held at the same time
  int hold_share_percent = 5;        // 1..100, of the time
  int64_t gap_us_max = 40'000;       // pacing waits no longer after a hold that switched
  int64_t rest_us_max = 60'000'000;  // likewise after one that was taken back
};

class HoldTurns {
 public:
  explicit HoldTurns(HoldPacing pacing) : pacing_(pacing) {}

  // Nothing is held, so that what preparing costs the disk and the servers is in nobody's pause;
  // and there is at most one unit ready beyond those that may hold.
  bool may_prepare() const { return holding_ == 0 && inside_ <= pacing_.at_once; }
  void prepare() { ++inside_; }
  void withdraw() { --inside_; }

  // How long until a prepared unit may hold: 0: now; kNotYet: when another one has ended.
  // `asked_us`: when somebody asked for the unit last, as in rests_until_us().
  static constexpr int64_t kNotYet = -1;
  int64_t wait_us(int64_t now_us, int64_t asked_us = INT64_MAX) const;
  // Until when a unit is left alone, and not prepared either, after a hold that was taken back: who
  // asks for it after that does not wait. In the past: it may go.
  int64_t rests_until_us(int64_t asked_us) const {
    return asked_us <= taken_back_us_ ? rests_until_us_ : 0;
  }
  // The unit was there to be begun since `ready_us`. Answers how long nothing was held although a
  // unit was there, or -1: none was when the last hold ended.
  int64_t begin(int64_t now_us, int64_t ready_us);
  void end(int64_t now_us, bool taken_back = false);

 private:
  const HoldPacing pacing_;
  int inside_ = 0;   // prepared or holding
  int holding_ = 0;  // of the batch
  int begun_ = 0;    // likewise, ended ones included
  bool closed_ = false;
  bool taken_back_ = false;  // one of the batch was
  int64_t batch_start_us_ = 0;
  int64_t batch_end_us_ = -1;  // of the last one; -1: there was none
  int64_t paced_until_us_ = 0;
  int64_t taken_back_us_ = -1;  // end of the last batch that is rested after; -1: there was none
  int64_t rests_until_us_ = 0;
};

// How a unit's run asks for its turn. Its own thread blocks.
class HoldGate {
 public:
  virtual ~HoldGate() = default;
  // False: `gave_up` said so meanwhile. `gap_us`: as HoldTurns::begin().
  virtual bool take_turn(const std::function<bool()>& gave_up, int64_t* gap_us) = 0;
  virtual void end_turn(bool taken_back) = 0;
};

}  // namespace sf
