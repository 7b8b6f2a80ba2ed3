// A full copy for a pair that is not trusted any more, asked for before an attempt and outside any
// pause. It is asked for and not only waited for: a small server's copy is over in half a second
// (measured 0.4 to 0.6 s on 3.5.5 and 4.0.1), between two looks of a second, and leaves nothing
// behind that proves it.
#include <chrono>
#include <thread>

#include "proxy_shim/control/pika_driver.h"

namespace sf {
namespace {

constexpr int64_t kLeaveMs = 10'000;
// A master that still remembers the replica lets it wait 10 to 12 s (3.5.5, 4.0.1); a copy that
// takes longer is waited for by later attempts.
constexpr int64_t kCopyMs = 25'000;
constexpr std::chrono::milliseconds kPollGap{20};  // a server can only be asked

}  // namespace

// Only what follows the old master as it must but for the restart, and is nobody's owner.
Result<bool> PikaDriver::needs_copy(const SlotSet& slots, const PikaSide& from, const PikaSide& to,
                                    int64_t timeout_ms) {
  // A SLAVEOF of any form between the steps of a copy can hang the server for ever.
  if (!from.is_master || to.is_master || to.link != PikaLink::kUp || !to.settled) return false;
  if (!is_server(to.master, old_, from.run_id, timeout_ms)) return false;
  if (!notes_->note(heal_note(slots))) {
    const auto verdict = judge(slots, from, to);
    if (!verdict) return verdict.status();
    if (*verdict != PikaTrust::Verdict::kRestarted) return false;
  }
  Result<std::map<int, uint64_t>> marked = markers(slots, timeout_ms);
  if (!marked) return marked.status();
  for (const auto& [slot, epoch] : *marked) {
    if (epoch != 0) return false;
  }
  return true;
}

Status PikaDriver::note_left(const SlotSet& slots, const PikaSide& from, const PikaSide& to) {
  now_ = {};
  now_.old_run_id = from.run_id;
  now_.end = to.ends;
  return note_end({slots, 0}, to);
}

Status PikaDriver::copy_anew(const SlotSet& slots, const PikaSide& from, const PikaSide& to,
                             int64_t timeout_ms) {
  if (!trust_.ask_again(unit_name(slots), from.run_id, to.run_id)) {
    return Status::refused(
        cat("a copy of ", old_.address().text(), " was asked for ", PikaTrust::kAsksMost,
            " times and none was seen to run; look at the "
            "log of ",
            new_.address().text(), ", and have it copied anew there: ", copy_words(slots)));
  }
  Status status = trust_.forget(unit_name(slots));
  if (!status) return status;
  const Status left = leave(new_, slots, kLeaveMs);
  if (!left) return left.with_context("leaving replication to be copied anew");
  Result<PikaSide> out = look(new_, slots, timeout_ms);
  if (!out) return out.status();
  // A shim that ends here finds in its next life where the new side stands, and goes on.
  status = note_left(slots, from, *out);
  if (status) status = follow_by_copy(new_, old_.address(), slots, timeout_ms);
  return status ? follow_copy(slots, timeout_ms) : status;
}

Status PikaDriver::follow_copy(const SlotSet& slots, int64_t timeout_ms) {
  const int64_t deadline_us = clock_->mono_us() + kCopyMs * 1000;
  bool seen = false;
  for (;;) {
    Result<PikaSide> to = look(new_, slots, timeout_ms);
    Result<PikaSide> from = to ? look(old_, slots, timeout_ms) : to;
    if (!from) return from.status();
    if (to->is_master) return Status::refused(cat(new_.address().text(), " follows nobody"));
    const auto verdict = judge(slots, *from, *to);
    if (!verdict) return verdict.status();
    if (to->link == PikaLink::kCopying && notes_->note(heal_note(slots))) {
      (void)notes_->drop_note(heal_note(slots));
    }
    was_copying_ = to->link == PikaLink::kCopying || !to->settled;
    seen = seen || *verdict == PikaTrust::Verdict::kCopying;
    if (*verdict == PikaTrust::Verdict::kTrusted) return Status::ok();
    const bool up = to->link == PikaLink::kUp && to->settled;
    if (up && *verdict == PikaTrust::Verdict::kRestarted) {
      return Status::unavailable(cat(new_.address().text(), " was told to copy ",
                                     old_.address().text(),
                                     " anew and was not seen to: its link "
                                     "is up; it is told again"));
    }
    if (clock_->mono_us() >= deadline_us) break;
    std::this_thread::sleep_for(kPollGap);
  }
  if (seen) return Status::ok();  // it goes on, and is told by sync_state()
  return Status::timeout(cat(new_.address().text(), " was told to copy ", old_.address().text(),
                             " anew and did not begin within ", kCopyMs / 1000,
                             " s; look at its log: ", copy_words(slots)));
}

}  // namespace sf
