// Which units may be prepared and which may hold, and when: the pacing of a move (DESIGN 6.2, ADR
// 0019). A held slot stalls every slot behind it on a proxy's connection, so holds come in batches
// of at most `at_once`; after a batch nothing is held until the share of held time is small again.
// Pure: the caller says what time it is. Not thread-safe.
//
//   prepare -> begin -> end        a unit that held
//   prepare -> withdraw            one that did not
#pragma once

#include <cstdint>
#include <functional>

namespace sf {

struct HoldPacing {
  int at_once = 1;              // units held at the same time
  int hold_share_percent = 5;   // 1..100, of the time
  int64_t gap_us_max = 40'000;  // pacing waits no longer
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
  static constexpr int64_t kNotYet = -1;
  int64_t wait_us(int64_t now_us) const;
  // The unit was there to be begun since `ready_us`. Answers how long nothing was held although a
  // unit was there, or -1: none was when the last hold ended.
  int64_t begin(int64_t now_us, int64_t ready_us);
  void end(int64_t now_us);

 private:
  const HoldPacing pacing_;
  int inside_ = 0;   // prepared or holding
  int holding_ = 0;  // of the batch
  int begun_ = 0;    // likewise, ended ones included
  bool closed_ = false;
  int64_t batch_start_us_ = 0;
  int64_t batch_end_us_ = -1;  // of the last one; -1: there was none
  int64_t paced_until_us_ = 0;
};

// How a unit's run asks for its turn. Its own thread blocks.
class HoldGate {
 public:
  virtual ~HoldGate() = default;
  // False: `gave_up` said so meanwhile. `gap_us`: as HoldTurns::begin().
  virtual bool take_turn(const std::function<bool()>& gave_up, int64_t* gap_us) = 0;
  virtual void end_turn() = 0;
};

}  // namespace sf
