#include "proxy_shim/control/hold_turns.h"

#include <algorithm>
#include <utility>

namespace sf {

int64_t HoldTurns::wait_us(int64_t now_us, int64_t asked_us) const {
  const int64_t until_us = std::max(paced_until_us_, rests_until_us(asked_us));
  if (holding_ == 0) return std::max<int64_t>(until_us - now_us, 0);
  // One that joined a batch some of which has ended would draw the held time out without end.
  return closed_ || begun_ >= pacing_.at_once ? kNotYet : 0;
}

int64_t HoldTurns::begin(int64_t now_us, int64_t ready_us) {
  ++holding_;
  ++begun_;
  if (holding_ > 1) return -1;
  batch_start_us_ = now_us;
  const bool was_there = batch_end_us_ >= 0 && ready_us <= batch_end_us_;
  return was_there ? now_us - batch_end_us_ : -1;
}

void HoldTurns::end(int64_t now_us, bool taken_back) {
  --inside_;
  closed_ = true;
  taken_back_ = taken_back_ || taken_back;
  if (--holding_ > 0) return;
  closed_ = false;
  begun_ = 0;
  batch_end_us_ = now_us;
  const int64_t share = std::clamp(pacing_.hold_share_percent, 1, 100);
  const int64_t held_us = now_us - batch_start_us_;
  const int64_t gap_us = held_us * (100 - share) / share;
  paced_until_us_ = now_us + std::min(gap_us, pacing_.gap_us_max);
  if (!std::exchange(taken_back_, false) || gap_us <= pacing_.gap_us_max) return;
  taken_back_us_ = now_us;
  // A shorter one meanwhile does not end the rest after a long one.
  rests_until_us_ = std::max(rests_until_us_, now_us + std::min(gap_us, pacing_.rest_us_max));
}

}  // namespace sf
