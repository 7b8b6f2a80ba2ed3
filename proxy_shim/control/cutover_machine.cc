#include "proxy_shim/control/cutover_machine.h"

namespace sf {
namespace {

using Event = CutEvent::Type;
using Act = CutAction::Type;

CutAction action(Act type) {
  CutAction out;
  out.type = type;
  return out;
}

CutAction action(Act type, const ReplPosition& position) {
  CutAction out = action(type);
  out.position = position;
  return out;
}

CutAction publish(SlotPhase phase) {
  CutAction out = action(Act::kPublish);
  out.phase = phase;
  return out;
}

}  // namespace

CutEvent::Type CutoverMachine::answer_of(Step step) {
  switch (step) {
    case Step::kIdle:
      return Event::kStart;
    case Step::kRecording:
      return Event::kRecorded;
    case Step::kAnnouncing:
      return Event::kAnnounced;
    case Step::kHolding:
    case Step::kReadHolding:
    case Step::kOpening:
    case Step::kReopening:
      return Event::kPublished;
    case Step::kDraining:
    case Step::kReadDraining:
      return Event::kDrained;
    case Step::kFencing:
      return Event::kFenced;
    case Step::kApplying:
      return Event::kApplied;
    case Step::kPermitting:
      return Event::kPermit;
    case Step::kSealing:
      return Event::kPermanent;
    case Step::kPromoting:
      return Event::kPromoted;
    case Step::kEnding:
      return Event::kEnds;
    case Step::kHealing:
      return Event::kHealed;
    case Step::kCommitting:
      return Event::kOwnerSynced;
    case Step::kMarking:
    case Step::kRetryingMark:
      return Event::kMarked;
    case Step::kReleasing:
    case Step::kTidying:
      return Event::kReleased;
    case Step::kLinking:
    case Step::kRetryingLink:
      return Event::kLinked;
    case Step::kFollowingAgain:
    case Step::kRetryingFollow:
      return Event::kFollowing;
    case Step::kUnfencing:
    case Step::kRetryingUnfence:
      return Event::kUnfenced;
  }
  return Event::kStart;
}

CutoverMachine::Actions CutoverMachine::go(Step step, CutAction what) {
  step_ = step;
  return {std::move(what)};
}

CutoverMachine::Actions CutoverMachine::step(const CutEvent& event) {
  if (event.type == Event::kStart) return start(event);
  if (event.type == Event::kRetry) return step_ == Step::kIdle ? retry() : Actions{};
  if (event.epoch != epoch_) return {};
  if (event.type == Event::kInterrupt) {
    const bool can_go_back = step_ >= Step::kRecording && step_ < Step::kCommitting;
    return can_go_back ? take_back(event.text) : Actions{};
  }
  if (step_ == Step::kIdle || event.type != answer_of(step_)) return {};
  if (step_ < Step::kCommitting) return forward(event);
  if (step_ <= Step::kLinking) return committed(event);
  if (step_ <= Step::kTidying) return back(event);
  return retried(event);
}

void CutoverMachine::owe(const Debts& debts, uint64_t epoch) {
  epoch_ = epoch;
  promote_sent_ = debts.follow;
  fence_sent_ = debts.unfence;
  mark_owed_ = debts.mark;
  link_owed_ = debts.link && traits_.reverse_link;
  promoted_ = debts.promoted;
  debt_ = debts.why;
}

CutoverMachine::Actions CutoverMachine::start(const CutEvent& event) {
  // A side that could not be put back comes first: a second attempt on top would prove nothing.
  if (step_ != Step::kIdle || phase_ != SlotPhase::kOld || owes()) return {};
  if (event.epoch <= epoch_) return {};
  epoch_ = event.epoch;
  proof_ = {};
  promoted_ = {};
  reason_.clear();
  held_ = announced_ = commit_asked_ = false;
  return go(Step::kRecording, action(Act::kRecordIntent));
}

CutoverMachine::Actions CutoverMachine::forward(const CutEvent& event) {
  if (step_ == Step::kDraining) return on_drained(event);
  if (step_ == Step::kSealing) return on_permanent(event);
  if (step_ == Step::kPromoting) return on_promoted(event);
  if (step_ == Step::kEnding) return on_ends(event);
  if (step_ == Step::kHealing) return on_healed(event);
  if (!event.status) return take_back(event.status.text());
  switch (step_) {
    case Step::kRecording:
      announced_ = true;
      return go(Step::kAnnouncing, action(Act::kAnnounce));
    case Step::kAnnouncing:
      phase_ = SlotPhase::kHold;
      held_ = true;
      return go(Step::kHolding, publish(SlotPhase::kHold));
    case Step::kHolding:
      return go(Step::kDraining, action(Act::kDrain));
    case Step::kFencing:
      if (event.position.history.empty()) return take_back("(c) the old side did not say its end");
      proof_ = event.position;
      return go(Step::kApplying, action(Act::kWaitApplied, proof_));
    case Step::kApplying:
      if (!event.yes) {
        return take_back("(d) the new side had not applied " + proof_.text() + " in time");
      }
      return go(Step::kPermitting, action(Act::kCheckPermit));
    case Step::kPermitting:
      if (!event.yes) return take_back("permit: " + event.text);
      phase_ = SlotPhase::kPromote;
      return go(Step::kReadHolding, publish(SlotPhase::kPromote));
    case Step::kReadHolding:
      return go(Step::kReadDraining, action(Act::kDrainReads));
    default:  // kReadDraining
      // The permanent fence first: a new side found promoted after a crash then always has an old
      // side that stands still at the position to follow from.
      return go(Step::kSealing, action(Act::kFencePermanent));
  }
}

CutoverMachine::Actions CutoverMachine::on_drained(const CutEvent& event) {
  if (!event.status) return take_back("(b) " + event.status.text());
  if (event.unanswered > 0 && !traits_.end_fenced) {
    return take_back("(b) " + std::to_string(event.unanswered) +
                     " writes to the old side were never answered and may still execute");
  }
  phase_ = SlotPhase::kBarrier;
  fence_sent_ = true;
  return go(Step::kFencing, action(Act::kFence));
}

CutoverMachine::Actions CutoverMachine::on_permanent(const CutEvent& event) {
  if (!event.status) return take_back("(c) " + event.status.text());
  if (event.position != proof_) {
    return take_back("(c) the old side's end moved from " + proof_.text() + " to " +
                     event.position.text() + " under the fence");
  }
  promote_sent_ = true;
  return go(Step::kPromoting, action(Act::kPromote, proof_));
}

CutoverMachine::Actions CutoverMachine::on_promoted(const CutEvent& event) {
  if (!event.status) return take_back(event.status.text());
  promoted_ = event.position;
  return go(Step::kEnding, action(Act::kReadEnds, proof_));
}

CutoverMachine::Actions CutoverMachine::on_ends(const CutEvent& event) {
  if (!event.status) return take_back("(e) " + event.status.text());
  if (event.old_end != proof_) {
    return take_back("(e) the old side's end is " + event.old_end.text() + ", not " +
                     proof_.text());
  }
  if (event.new_end != proof_) {
    return take_back("(e) the new side left replication at " + event.new_end.text() + ", not " +
                     proof_.text());
  }
  return traits_.heals ? go(Step::kHealing, action(Act::kHeal)) : commit();
}

CutoverMachine::Actions CutoverMachine::on_healed(const CutEvent& event) {
  if (!event.status) return take_back("(I2b) " + event.status.text());
  // What was compared is the old side as it was proved, and nothing later.
  if (event.old_end != proof_) {
    return take_back("(e) the old side's end moved to " + event.old_end.text() +
                     " while the sides were compared");
  }
  return commit();
}

CutoverMachine::Actions CutoverMachine::commit() {
  commit_asked_ = true;
  return go(Step::kCommitting, action(Act::kWriteOwner, proof_));
}

CutoverMachine::Actions CutoverMachine::on_owner(const CutEvent& event) {
  if (event.status) {
    fence_sent_ = promote_sent_ = false;
    return go(Step::kMarking, action(Act::kMark));
  }
  // Whether the record is on the disk is not known, so neither side may be written to: only a start
  // that reads the record again can tell.
  phase_ = SlotPhase::kDoubt;
  reason_ = "the owner record could not be written (" + event.status.text() +
            "): make the state folder writable and restart the shim, which reads the record again";
  step_ = Step::kIdle;
  fence_sent_ = promote_sent_ = false;
  CutAction report = action(Act::kReport);
  report.phase = phase_;
  report.text = reason_;
  return {publish(SlotPhase::kDoubt), std::move(report)};
}

CutoverMachine::Actions CutoverMachine::committed(const CutEvent& event) {
  switch (step_) {
    case Step::kCommitting:
      return on_owner(event);
    case Step::kMarking:
      // Without its marker the new side takes no client write yet (DESIGN 6.6).
      mark_owed_ = !event.status;
      if (mark_owed_) debt_ = "marker on the new side: " + event.status.text();
      phase_ = SlotPhase::kNew;
      return go(Step::kOpening, publish(SlotPhase::kNew));
    case Step::kOpening:
      return go(Step::kReleasing, action(Act::kRelease));
    case Step::kReleasing:
      if (!event.status) debt_ = "restoring the old side's settings: " + event.status.text();
      if (!traits_.reverse_link) return finish_new();
      return go(Step::kLinking, action(Act::kLinkReverse, promoted_));
    default:  // kLinking
      link_owed_ = !event.status;
      if (link_owed_) debt_ = "reverse link: " + event.status.text();
      return finish_new();
  }
}

CutoverMachine::Actions CutoverMachine::finish_new() {
  step_ = Step::kIdle;
  CutAction report = action(Act::kReport);
  report.phase = phase_;
  report.text = "switched at " + proof_.text();
  if (mark_owed_) report.text += ", where no write is taken before the owner marker is written";
  Actions out{std::move(report)};
  if (owes()) {
    CutAction later = action(Act::kRetryLater);
    later.text = debt_;
    out.push_back(std::move(later));
  }
  return out;
}

CutoverMachine::Actions CutoverMachine::take_back(std::string reason) {
  reason_ = std::move(reason);
  return undo_next();
}

// The new side follows again before the old one takes writes: never two writable sides.
CutoverMachine::Actions CutoverMachine::undo_next() {
  if (promote_sent_ && step_ < Step::kCommitting) {
    return go(Step::kFollowingAgain, action(Act::kFollowAgain, proof_));
  }
  if (fence_sent_ && step_ < Step::kUnfencing) return go(Step::kUnfencing, action(Act::kUnfence));
  phase_ = SlotPhase::kOld;
  if (held_ && step_ < Step::kReopening) return go(Step::kReopening, publish(SlotPhase::kOld));
  if (announced_ && step_ < Step::kTidying) return go(Step::kTidying, action(Act::kRelease));
  return finish_back();
}

CutoverMachine::Actions CutoverMachine::back(const CutEvent& event) {
  if (step_ == Step::kFollowingAgain) {
    if (event.status) promote_sent_ = false;
    if (!event.status) debt_ = "new side following again: " + event.status.text();
  }
  if (step_ == Step::kUnfencing) {
    if (event.status) fence_sent_ = false;
    if (!event.status) debt_ = "lifting the old side's fence: " + event.status.text();
  }
  return undo_next();
}

CutoverMachine::Actions CutoverMachine::finish_back() {
  step_ = Step::kIdle;
  if (!owes()) debt_.clear();
  CutAction report = action(Act::kReport);
  report.phase = phase_;
  report.text = "taken back: " + reason_;
  Actions out{std::move(report)};
  if (owes()) {
    CutAction later = action(Act::kRetryLater);
    later.text = debt_;
    out.push_back(std::move(later));
  }
  return out;
}

CutoverMachine::Actions CutoverMachine::retry() {
  if (phase_ == SlotPhase::kNew || phase_ == SlotPhase::kFinal) {
    if (mark_owed_) return go(Step::kRetryingMark, action(Act::kMark));
    if (link_owed_ && phase_ == SlotPhase::kNew)
      return go(Step::kRetryingLink, action(Act::kLinkReverse, promoted_));
    return {};
  }
  if (phase_ != SlotPhase::kOld) return {};
  if (promote_sent_) return go(Step::kRetryingFollow, action(Act::kFollowAgain, proof_));
  if (fence_sent_) return go(Step::kRetryingUnfence, action(Act::kUnfence));
  return {};
}

CutoverMachine::Actions CutoverMachine::retried(const CutEvent& event) {
  const Step was = step_;
  step_ = Step::kIdle;
  if (event.status) {
    if (was == Step::kRetryingFollow) promote_sent_ = false;
    if (was == Step::kRetryingUnfence) fence_sent_ = false;
    if (was == Step::kRetryingLink) link_owed_ = false;
    if (was == Step::kRetryingMark) mark_owed_ = false;
  } else {
    debt_ = std::string(action_name(action_of(was))) + ": " + event.status.text();
  }
  // A new side that cannot be reached must not keep the old one closed.
  if (was == Step::kRetryingFollow && fence_sent_) {
    return go(Step::kRetryingUnfence, action(Act::kUnfence));
  }
  if (was == Step::kRetryingMark && event.status) {
    Actions out{publish(SlotPhase::kNew)};
    Actions more = retry();
    out.insert(out.end(), more.begin(), more.end());
    if (!more.empty()) return out;
    out.push_back(tied_up("marked: writes go on"));
    return out;
  }
  if (owes()) {
    CutAction later = action(Act::kRetryLater);
    later.text = debt_;
    return {std::move(later)};
  }
  return {tied_up(phase_ == SlotPhase::kOld ? "everything is taken back" : "linked")};
}

CutAction CutoverMachine::tied_up(const char* text) {
  debt_.clear();
  CutAction report = action(Act::kReport);
  report.phase = phase_;
  report.text = text;
  return report;
}

CutAction::Type CutoverMachine::action_of(Step step) {
  if (step == Step::kRetryingFollow) return Act::kFollowAgain;
  if (step == Step::kRetryingUnfence) return Act::kUnfence;
  return step == Step::kRetryingMark ? Act::kMark : Act::kLinkReverse;
}

const char* event_name(CutEvent::Type type) {
  switch (type) {
    case Event::kStart:
      return "start";
    case Event::kRecorded:
      return "recorded";
    case Event::kAnnounced:
      return "announced";
    case Event::kPublished:
      return "published";
    case Event::kDrained:
      return "drained";
    case Event::kFenced:
      return "fenced";
    case Event::kApplied:
      return "applied";
    case Event::kPermit:
      return "permit";
    case Event::kPermanent:
      return "permanent";
    case Event::kPromoted:
      return "promoted";
    case Event::kEnds:
      return "ends";
    case Event::kHealed:
      return "healed";
    case Event::kOwnerSynced:
      return "owner-synced";
    case Event::kMarked:
      return "marked";
    case Event::kReleased:
      return "released";
    case Event::kLinked:
      return "linked";
    case Event::kFollowing:
      return "following";
    case Event::kUnfenced:
      return "unfenced";
    case Event::kInterrupt:
      return "interrupt";
    case Event::kRetry:
      return "retry";
  }
  return "?";
}

const char* action_name(CutAction::Type type) {
  switch (type) {
    case Act::kRecordIntent:
      return "record-intent";
    case Act::kAnnounce:
      return "announce";
    case Act::kPublish:
      return "publish";
    case Act::kDrain:
      return "drain";
    case Act::kDrainReads:
      return "drain-reads";
    case Act::kFence:
      return "fence";
    case Act::kWaitApplied:
      return "wait-applied";
    case Act::kCheckPermit:
      return "check-permit";
    case Act::kFencePermanent:
      return "fence-permanent";
    case Act::kPromote:
      return "promote";
    case Act::kReadEnds:
      return "read-ends";
    case Act::kHeal:
      return "heal";
    case Act::kWriteOwner:
      return "write-owner";
    case Act::kMark:
      return "mark";
    case Act::kRelease:
      return "release";
    case Act::kLinkReverse:
      return "link-reverse";
    case Act::kFollowAgain:
      return "follow-again";
    case Act::kUnfence:
      return "unfence";
    case Act::kReport:
      return "report";
    case Act::kRetryLater:
      return "retry-later";
  }
  return "?";
}

}  // namespace sf
