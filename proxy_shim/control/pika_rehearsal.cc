// Leaving replication once outside any pause. After a full copy the first SLAVEOF NO ONE of a Pika
// since 3.5 waits for the thread that copied to end: 0 to 4 s (measured on 3.5.5), the next ones
// take milliseconds. No bound would survive that inside a pause.
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "proxy_shim/control/pika_driver.h"

namespace sf {
namespace {

constexpr const char* kRehearsedNote = "pika.rehearsed";
constexpr int64_t kLeaveMs = 10'000;
constexpr int64_t kLinkUpMs = 25'000;              // measured 0.2 to 13 s
constexpr std::chrono::milliseconds kPollGap{20};  // a server can only be asked

bool copies_by_thread(const PikaServer& server) {
  return server.major > 3 || (server.major == 3 && server.minor >= 5);
}

}  // namespace

void PikaDriver::forget_rehearsal() {
  if (notes_->note(kRehearsedNote)) (void)notes_->drop_note(kRehearsedNote);
}

Status PikaDriver::make_ready(const SlotSet& slots, int64_t timeout_ms) {
  Result<PikaSide> to = look(new_, slots, timeout_ms);
  if (!to && was_copying_ && to.status().code() == Code::kTimeout) {
    return Status::timeout(
        cat(to.status().text(),
            "; it was copying when it was last heard: a Pika that is told SLAVEOF "
            "then can be wedged for ever. Kill it, start it and copy anew"));
  }
  if (!to) return to.status();
  Result<PikaSide> from = look(old_, slots, timeout_ms);
  if (!from) return from.status();
  const Result<bool> stale = needs_copy(slots, *from, *to, timeout_ms);
  if (!stale) return stale.status();
  if (*stale) {
    const Status copied = copy_anew(slots, *from, *to, timeout_ms);
    if (!copied) return copied;
    to = look(new_, slots, timeout_ms);
    if (to) from = look(old_, slots, timeout_ms);
    if (!to || !from) return to ? from.status() : to.status();
  }
  if (!copies_by_thread(new_server_)) return Status::ok();
  const std::string pair = nlohmann::json{{"old", from->run_id}, {"new", to->run_id}}.dump();
  const bool rehearsed = notes_->note(kRehearsedNote) == pair;
  if (!to->is_master) {
    // Why it does not follow as it must is said by sync_state(), and it is left alone.
    if (rehearsed || !not_following(slots, *from, *to, timeout_ms).empty()) return Status::ok();
    leaving_ = to->run_id;
    const Status left = leave(new_, slots, kLeaveMs);
    if (!left) return left.with_context("leaving replication once before the pause");
    to = look(new_, slots, timeout_ms);
    if (!to) return to.status();
  }
  if (to->is_master) {
    const CutAttempt rehearsal{slots, 0};
    // Left by us just now: where it stands is where it left. Else only a noted end says that.
    if (leaving_ == to->run_id) {
      const Status noted = note_left(slots, *from, *to);
      if (!noted) return noted;
    }
    const Status follows = follow_again(rehearsal, {}, timeout_ms);
    if (!follows) return follows;
    leaving_.clear();
  }
  const int64_t deadline_us = clock_->mono_us() + kLinkUpMs * 1000;
  while (to && (to->is_master || to->link != PikaLink::kUp || !to->settled)) {
    if (clock_->mono_us() >= deadline_us) {
      return Status::timeout(cat(new_.address().text(), " left replication once before the pause ",
                                 "and has no link to its master again after ", kLinkUpMs / 1000,
                                 " s; look at its log, it is tried again"));
    }
    std::this_thread::sleep_for(kPollGap);
    to = look(new_, slots, timeout_ms);
  }
  return to ? notes_->put_note(kRehearsedNote, pair) : to.status();
}

}  // namespace sf
