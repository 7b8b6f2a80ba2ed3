// The switch of one cut unit, as a pure state machine: events in, actions out, no clock, no I/O
// (DESIGN 6.2, I2, I3). The runner performs the actions in order and feeds each one's outcome back;
// the golden scripts in tests/golden/cutover show every walk.
//
//   OLD -> HOLD -> BARRIER -> PROMOTE -> NEW          the walk
//   any of them before the owner record -> OLD        taken back: error, bound, overflow, abort,
//   permit owner record neither written nor refused -> DOUBT
//
// Every answer carries the epoch of the attempt it belongs to; answers of earlier attempts are
// ignored, as are answers nobody waits for. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proxy_shim/data/route_table.h"

namespace sf {

// A place in a server's history of writes: the history (replication) id and the last write in it.
struct ReplPosition {
  std::string history;
  uint64_t seq = 0;
  bool operator==(const ReplPosition&) const = default;
  std::string text() const { return history + ":" + std::to_string(seq); }
};

// What the kind of server gives and needs (DESIGN 6.3).
struct CutTraits {
  bool end_fenced = true;  // a fence or a pause makes the old end final, unanswered writes included
  bool reverse_link = true;  // the old side can follow the new one from the switch position
  bool exact_end = true;     // the end moves by client writes only, not by the server's own chatter
  bool holds_stay = false;  // one end for the whole server: slots that stay are held too until then
  bool permanent_fence = true;  // the old side can be closed for writes for good
  bool heals = false;  // replicates unfaithfully: what may differ is compared and put right (I2b)
  bool loses_timed = false;  // ... and a write that sets a TTL (SETEX) too (Pika 4.0)
};

struct CutEvent {
  enum class Type {
    kStart,        // epoch; accepted in OLD only, with nothing owed
    kRecorded,     // the intent is in the audit log, synced
    kAnnounced,    // both sides know the epoch
    kPublished,    // every worker acts by the phase asked for
    kDrained,      // no write in flight; `unanswered`
    kFenced,       // `position`: the old side's end, final while the lease or pause lives
    kApplied,      // `yes`: the new side has applied it; not yes: not in the time given
    kPermit,       // `yes`: still valid, and nobody else can write to the old side
    kPermanent,    // `position`: the old side's end, asked again when the fence was made permanent
    kPromoted,     // `position`: the new side's own position where it left replication
    kEnds,         // `old_end`, `new_end`: read with everything held
    kHealed,       // both sides hold the same; `old_end`: read after the last key
    kOwnerSynced,  // status ok: the commit point is passed
    kMarked,       // the marker stands on the new side
    kReleased,     // what was set on the servers for the pause is restored
    kLinked,       // the old side follows the new one
    kFollowing,    // take back: the new side follows again
    kUnfenced,     // take back: the old side takes writes again
    kInterrupt,    // `text`: bound reached, held too much, aborted, permit lost, backend changed
    kRetry,        // time to try again what could not be undone, marked or linked
  };
  Type type = Type::kStart;
  uint64_t epoch = 0;
  Status status;
  bool yes = false;
  int64_t unanswered = 0;
  ReplPosition position;
  ReplPosition old_end;
  ReplPosition new_end;
  std::string text;
};

struct CutAction {
  enum class Type {
    kRecordIntent,  // audit entry with the epoch, synced, before anything else -> kRecorded
    kAnnounce,      // EPOCH on both sides, outside the pause -> kAnnounced
    kPublish,       // `phase` to every worker -> kPublished
    kDrain,         // writes -> kDrained
    kDrainReads,   // whatever is in flight to the old side, which is about to refuse it -> kDrained
    kFence,        // leased fence or pause, then the end -> kFenced
    kWaitApplied,  // `position` -> kApplied
    kCheckPermit,  // -> kPermit
    kFencePermanent,  // -> kPermanent
    kPromote,   // the new side leaves replication at `position`; persisted, read back -> kPromoted
    kReadEnds,  // -> kEnds
    kHeal,      // every key of the heal list compared, copied where different -> kHealed
    kWriteOwner,   // the synced owner record -> kOwnerSynced
    kMark,         // -> kMarked
    kRelease,      // -> kReleased
    kLinkReverse,  // old side follows the new one from `position` -> kLinked
    kFollowAgain,  // new side follows the old one from `position` (empty: find out) -> kFollowing
    kUnfence,      // -> kUnfenced
    kReport,       // the attempt is over: `text` says how, `phase` where
    kRetryLater,   // call back with kRetry: `text` says what is left undone
  };
  Type type = Type::kReport;
  SlotPhase phase = SlotPhase::kOld;
  ReplPosition position;
  std::string text;
};

class CutoverMachine {
 public:
  // `phase`: kOld, kNew, kFinal or kDoubt, as the store has it.
  CutoverMachine(CutTraits traits, SlotPhase phase) : traits_(traits), phase_(phase) {}

  std::vector<CutAction> step(const CutEvent& event);

  // What an earlier life of the shim, or a start-up that could not reach a server, left to be done:
  // kRetry does it. In kOld: the new side must follow again, the old one be unfenced; in kNew:
  // marker, reverse link from the position `promoted`.
  struct Debts {
    bool follow = false, unfence = false, mark = false, link = false;
    ReplPosition promoted;
    std::string why;
  };
  void owe(const Debts& debts, uint64_t epoch);
  // Handed back: a reverse link would only be in the way of the cleanup.
  void forgive_link() { link_owed_ = false; }

  SlotPhase phase() const { return phase_; }
  uint64_t epoch() const { return epoch_; }
  bool busy() const { return step_ != Step::kIdle; }
  // The owner record is being written or is written: nothing is taken back any more.
  bool committed() const { return commit_asked_; }
  const ReplPosition& proof() const { return proof_; }        // the old side's end, in its history
  const ReplPosition& promoted() const { return promoted_; }  // the new side's own position there
  const std::string& reason() const { return reason_; }       // why the last attempt was taken back
  const std::string& debt() const { return debt_; }           // what is left undone; "" if nothing
  // Something is to be tried again (kRetry). In OLD no attempt starts before it is done.
  bool owes() const { return fence_sent_ || promote_sent_ || mark_owed_ || link_owed_; }
  bool mark_owed() const { return mark_owed_; }  // no client write may reach the new side yet

 private:
  enum class Step {
    kIdle,
    kRecording,
    kAnnouncing,
    kHolding,
    kDraining,
    kFencing,
    kApplying,
    kPermitting,
    kReadHolding,
    kReadDraining,
    kSealing,
    kPromoting,
    kEnding,
    kHealing,
    kCommitting,
    kMarking,
    kOpening,
    kReleasing,
    kLinking,
    kFollowingAgain,
    kUnfencing,
    kReopening,
    kTidying,
    kRetryingFollow,
    kRetryingUnfence,
    kRetryingMark,
    kRetryingLink,
  };
  using Actions = std::vector<CutAction>;

  Actions start(const CutEvent& event);
  Actions forward(const CutEvent& event);    // up to the owner record
  Actions committed(const CutEvent& event);  // after it
  Actions back(const CutEvent& event);       // taking back
  Actions retried(const CutEvent& event);
  Actions retry();
  Actions on_drained(const CutEvent& event);
  Actions on_permanent(const CutEvent& event);
  Actions on_promoted(const CutEvent& event);
  Actions on_ends(const CutEvent& event);
  Actions on_healed(const CutEvent& event);
  Actions commit();
  Actions on_owner(const CutEvent& event);
  Actions take_back(std::string reason);
  Actions undo_next();
  Actions finish_back();
  Actions finish_new();
  CutAction tied_up(const char* text);  // nothing is owed any more
  Actions go(Step step, CutAction action);
  static CutEvent::Type answer_of(Step step);
  static CutAction::Type action_of(Step step);  // of the kRetrying steps

  CutTraits traits_;
  SlotPhase phase_;
  Step step_ = Step::kIdle;
  uint64_t epoch_ = 0;
  ReplPosition proof_;
  ReplPosition promoted_;
  std::string reason_;
  std::string debt_;
  bool held_ = false;          // a hold was published: OLD must be
  bool announced_ = false;     // something was set on the servers: it must be released
  bool fence_sent_ = false;    // the old side may be fenced
  bool promote_sent_ = false;  // the new side may have left replication
  bool mark_owed_ = false;
  bool link_owed_ = false;
  bool commit_asked_ = false;
};

const char* event_name(CutEvent::Type type);    // "fenced"
const char* action_name(CutAction::Type type);  // "fence"

}  // namespace sf
