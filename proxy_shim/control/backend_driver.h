// What the cutover needs from a pair of servers, one implementation a kind (DESIGN 6.3). Blocking;
// one owner thread an object (the cutover and the monitor have one each). Connections are opened by
// connect() and kept, so that a pause has no connect in it. Every call has a timeout; kTimeout
// means that the effect is unknown.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/slots/move_plan.h"
#include "common/slots/slot_set.h"
#include "proxy_shim/control/cutover_machine.h"

namespace sf {

enum class PairSide { kOld, kNew };
inline const char* side_name(PairSide side) {
  return side == PairSide::kOld ? "old" : "new";
}

// One attempt at a unit: which slots, and the epoch the servers compare.
struct CutAttempt {
  SlotSet slots;
  uint64_t epoch = 0;
};

// What one side says about one slot, now.
struct SlotReport {
  enum class Link { kNone, kUp, kDown, kCopying };
  enum class Fence { kNo, kLeased, kPermanent };
  bool master = false;
  ReplPosition at;  // master: own history and last write; replica: followed history and applied
  Link link = Link::kNone;
  Fence fence = Fence::kNo;
  std::optional<uint64_t> promoted = std::nullopt;  // new side: as BackendDriver::promoted
  bool left = false;  // new side, a master: where it left replication outside an attempt is noted
  std::optional<int64_t> lag = {};  // replica: where the difference of two `at.seq` does not say it
  std::optional<uint64_t> applied = {};  // likewise its own position, in the lag's unit
};
struct Survey {
  std::map<int, SlotReport> old_side;
  std::map<int, SlotReport> new_side;
};

// How far the new side is behind, for the forecast. `lag` is in writes (node) or bytes (others).
struct SyncState {
  bool following = false;  // replica of the old side's history, link up, no copy running
  int64_t lag = -1;        // -1: unknown
  std::string text;        // why not, if not following
  uint64_t applied = 0;    // new side's own position, in the lag's unit
  int64_t queue_ms = 0;    // until a write is applied after it was counted; the last trial's figure
};

// What a server says about itself.
struct ServerFacts {
  std::string run_id;
  bool is_master = false;
  int64_t used_memory = 0;
  int64_t maxmemory = 0;
  std::vector<std::pair<int, int64_t>> keys_by_db;
  std::vector<std::pair<int, int64_t>> keys_by_slot;  // empty where the server cannot say
};

struct Ends {
  ReplPosition old_end;
  ReplPosition new_end;
};

// A key of one of a server's databases.
struct HealKey {
  int db = 0;
  std::string key;
  auto operator<=>(const HealKey&) const = default;
};

// How far a comparison of everything is.
struct PassCursor {
  PairSide side = PairSide::kOld;
  int db = 0;
  std::string at = "0";
  bool done = false;
};

// What comparing keys of both sides came to.
struct Healing {
  int64_t compared = 0;
  std::vector<HealKey> different;
  std::vector<std::string>
      found;             // the first of them, for people: "db0 'a': TTL 0, not 1796072000"
  ReplPosition old_end;  // heal(): the old side's end, read after the last key
};

// Small texts a driver must find again after a crash: settings it changed and will restore. Synced.
class DriverNotes {
 public:
  virtual ~DriverNotes() = default;
  virtual std::optional<std::string> note(const std::string& key) const = 0;
  virtual Status put_note(const std::string& key, const std::string& value) = 0;
  virtual Status drop_note(const std::string& key) = 0;
};

class BackendDriver {
 public:
  virtual ~BackendDriver() = default;

  virtual const CutTraits& traits() const = 0;
  virtual const char* kind() const = 0;  // "node", "redis", "pika", "pika-sharding"
  virtual Status connect(int64_t timeout_ms) = 0;
  // Before an attempt and outside any pause: what makes the pause short, if anything is needed. May
  // take seconds; `timeout_ms` is of each call. Not ok: the attempt is not begun, and tried later.
  virtual Status make_ready(const SlotSet&, int64_t) { return Status::ok(); }

  // Both sides learn the epoch and refuse lower ones from now on, where the kind has epochs.
  // Refused if they know a higher one.
  virtual Status raise_epoch(const CutAttempt& attempt, int64_t timeout_ms) = 0;
  // Before the pause: both sides learn the epoch; settings the pause needs are made.
  virtual Status announce(const CutAttempt& attempt, int64_t timeout_ms) = 0;
  // I2 (c). Final for `lease_ms` at least, unless the server restarts.
  virtual Result<ReplPosition> fence(const CutAttempt& attempt, int64_t lease_ms,
                                     int64_t timeout_ms) = 0;
  // I2 (d). False: not within the time.
  virtual Result<bool> wait_applied(const CutAttempt& attempt, const ReplPosition& end,
                                    int64_t timeout_ms) = 0;
  // Kinds without a fence of their own: nobody but us, replicas and onlookers is connected to the
  // old side.
  virtual Status check_writers(int64_t timeout_ms) = 0;
  // Kinds whose end is not fenced: no connection that may still carry a write nobody waits for is
  // left on the old side. Every one that was open before the call is looked for.
  virtual Status check_orphans(int64_t timeout_ms) { return check_writers(timeout_ms); }
  virtual Result<ReplPosition> fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) = 0;
  // Leaves replication at `end`, persisted and read back. The answer is the new side's own
  // position.
  virtual Result<ReplPosition> promote(const CutAttempt& attempt, const ReplPosition& end,
                                       int64_t timeout_ms) = 0;
  // I2 (e). Valid only while what fence() set is known to hold; an error otherwise.
  virtual Result<Ends> read_ends(const CutAttempt& attempt, const ReplPosition& end,
                                 int64_t timeout_ms) = 0;
  // I2b, for kinds whose traits say so. Everything is held and the new side is writable: `keys` are
  // compared, what is different or missing on the new side is copied there, what is not on the old
  // side is deleted there, and read back. kTimeout and other errors: it may be written to in part.
  virtual Result<Healing> heal(const CutAttempt&, const std::vector<HealKey>&, int64_t) {
    return Status::refused(cat("servers of kind ", kind(), " are not healed"));
  }
  // Reads only. `settled_first`: what was answered before the call is applied when it compares.
  virtual Result<Healing> compare(const SlotSet&, const std::vector<HealKey>&, bool, int64_t) {
    return Status::refused(cat("servers of kind ", kind(), " are not compared"));
  }
  // Can it say which keys it holds? If so, the next page of those in the plan's slots.
  virtual bool lists_keys() const { return false; }
  virtual Result<std::vector<HealKey>> next_keys(PassCursor*, int64_t) {
    return Status::refused(cat("servers of kind ", kind(), " are not compared"));
  }
  // Names of the faults a trial found that healing puts right, and the processes it was made with.
  virtual std::string healable_faults() const { return {}; }
  virtual std::string pair() const { return {}; }
  // The marker (DESIGN 6.6): after the owner record, before the first client write. Opens a new side
  // that was closed when it was left, and has stayed so.
  virtual Status mark(const CutAttempt& attempt, int64_t timeout_ms) = 0;
  // The epoch of the marker on the new side, 0 if there is none or the promote record is the
  // marker.
  virtual Result<uint64_t> marker(int64_t timeout_ms) = 0;
  // The epoch of each slot's promote by this plan on the new side, 0 if there is none. Empty: this
  // kind keeps no such record (it has marker()).
  virtual Result<std::map<int, uint64_t>> promoted(const SlotSet&, int64_t) {
    return std::map<int, uint64_t>();
  }
  // As marker(), of each of `slots`; kinds with one marker for the whole server say it for all.
  virtual Result<std::map<int, uint64_t>> markers(const SlotSet& slots, int64_t timeout_ms);
  // Restores what announce() and fence() set and neither unfence() nor the permanent fence governs.
  virtual Status release(const CutAttempt& attempt, int64_t timeout_ms) = 0;
  virtual Status link_reverse(const CutAttempt& attempt, const ReplPosition& from,
                              int64_t timeout_ms) = 0;

  // Taking back. Idempotent; an ok is verified by asking.
  virtual Status follow_again(const CutAttempt& attempt, const ReplPosition& from,
                              int64_t timeout_ms) = 0;
  virtual Status unfence(const CutAttempt& attempt, int64_t timeout_ms) = 0;

  virtual Result<Survey> survey(const SlotSet& slots, int64_t timeout_ms) = 0;
  virtual SyncState sync_state(const SlotSet& slots, int64_t timeout_ms) = 0;
  virtual Result<ServerFacts> facts(PairSide side, int64_t timeout_ms) = 0;
  // Lag larger than this says that the bound will be missed.
  virtual int64_t lag_limit() const = 0;
  virtual bool lag_in_bytes() const { return true; }
  // Attempts at different slots may run side by side and in either direction, each with a driver of
  // its own (ADR 0019, 0020), where no call and no proof of one touches what another one sets: such
  // a driver of the same kind, not connected before its first call. Null: not of this kind.
  virtual std::unique_ptr<BackendDriver> another(const MovePlan&, const std::string&) const {
    return nullptr;
  }
};

// Asks both servers what they are and makes the driver for that kind. Refused, with a sentence, if
// they differ from each other or from the plan, or are of a kind nobody here can prove anything
// about. `name` is the connections' name on the servers. `notes` and `clock` outlive the driver.
Result<std::unique_ptr<BackendDriver>> make_driver(const MovePlan& plan, DriverNotes* notes,
                                                   const Clock* clock, const std::string& name,
                                                   int64_t timeout_ms);

}  // namespace sf
