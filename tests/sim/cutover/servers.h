// The two groups, as far as the cutover sees them: for each unit a log, what was received and what
// is applied, a fence, a role. A node applies what it receives; a Pika applies later, on two
// first-in first-out workers, and leaving replication does not wait for them (contracts: measured
// on 3.5.5).
#pragma once

#include <array>
#include <set>
#include <vector>

#include "proxy_shim/control/cutover_machine.h"
#include "proxy_shim/control/startup.h"
#include "tests/sim/cutover/context.h"

namespace sf::cutsim {

// A client's request. `value`: what a set or a push brings, different in each.
struct Request {
  uint64_t id = 0;
  int client = 0;
  int key = 0;
  Op op = Op::kGet;
  int64_t value = 0;
  bool odd = false;  // Pika: replicated wrongly
  bool writes() const { return cutsim::writes(op); }
};

struct Answer {
  int64_t value = 0;
  std::vector<int64_t> list;  // of a range
};

struct Record {
  int key = 0;  // below 0: a fence key of apply worker -1 - key
  Op op = Op::kSet;
  int64_t value = 0;
  bool odd = false;
};

struct Values {
  std::array<int64_t, kKeys> registers{};
  std::array<std::vector<int64_t>, kSlots> lists;
  void apply(const Record& record, bool replica = false);
  // True if that changed something.
  bool run(const Request& request, Answer* answer);
  bool same(const Values& other, int key) const;
  void copy(const Values& from, int key);
};

inline constexpr size_t kNoMark = SIZE_MAX;

// One unit's data on one server.
struct Copy {
  bool master = true;
  uint64_t history = 0;     // own, or the one followed
  std::vector<Record> log;  // written, or received
  size_t applied[2] = {};   // Pika: how far each apply worker is
  Values values;
  SlotReport::Fence fence = SlotReport::Fence::kNo;
  int64_t lease_until = 0;  // by the server's clock
  int64_t lease_ends = 0;   // in truth
  uint64_t epoch = 0;       // highest seen
  uint64_t marker = 0;
  uint64_t left_history = 0;  // when it left replication, and where
  size_t left_at = 0;
  size_t mark = 0;      // node: it took no write of its own up to here, since it was fenced or left
  bool stands = false;  // node: NO ONE took it out at `mark`, and it follows from there
  bool written = false;   // by clients, since it was promoted
  uint64_t promoted = 0;  // epoch of the promote record
  bool healed = false;    // Pika: written to by the driver since it was promoted
  bool copying = false;
  int64_t link_up_at = 0;
  int64_t copied_from = 0, copied_by = 0;  // which processes made the copy
};

class Groups {
 public:
  Groups(Context& context, Kind kind, int units);

  Kind kind() const { return kind_; }
  int units() const { return static_cast<int>(old_.size()); }
  int unit_of_slot(int slot) const { return units() == 1 ? 0 : slot; }
  int unit_of_key(int key) const { return unit_of_slot(slot_of_key(key)); }
  Copy& old_side(int unit) { return old_[static_cast<size_t>(unit)]; }
  Copy& new_side(int unit) { return new_[static_cast<size_t>(unit)]; }
  Copy& side(bool on_new, int unit) { return on_new ? new_side(unit) : old_side(unit); }
  // `back`: of a way from the new side to the old one.
  Copy& left(int unit, bool back) { return side(back, unit); }
  Copy& taken(int unit, bool back) { return side(!back, unit); }
  ReplPosition end_of(const Copy& copy) const {
    return {cat("h", copy.history), static_cast<uint64_t>(copy.log.size())};
  }

  // A client's request when it reaches the server. False: refused. `client` below 0: its
  // connection is gone, nobody waits for it.
  bool run(bool on_new, const Request& request, Answer* answer);
  void append(int unit, const Record& record);  // to the old side
  bool fenced(Copy& copy);                      // writes, now
  // Of the side that takes over.
  bool applied(int unit, uint64_t end, bool back);  // by all workers
  bool following(int unit, bool back = false);      // with the link up
  bool attached(int unit, bool back = false);       // told to

  // Control. `epoch` is compared by nodes only. Empty status: done.
  Status announce(int unit, uint64_t epoch);
  Result<ReplPosition> fence(int unit, uint64_t epoch, int64_t lease_us, bool back);
  Result<ReplPosition> fence_permanent(int unit, uint64_t epoch, bool back);
  Result<ReplPosition> promote(int unit, uint64_t epoch, const ReplPosition& end, bool back);
  Status open(int unit, uint64_t epoch, bool back);  // what was promoted
  // `known`: from where is told; if not, the other side has to stand there still.
  Status follow_again(int unit, uint64_t epoch, bool known, bool back);
  Status unfence(int unit, uint64_t epoch, bool back);
  // The side that was left follows the other one from there.
  Status link_reverse(int unit, uint64_t epoch, const ReplPosition& from, bool back);
  // The side that takes over follows where it stands (the migrator's, and follow_again()).
  void follow(int unit, bool back = false);
  // Pika: keys of `keys` that differ are copied to the new side; then the old side's end. `found`:
  // how many did.
  Result<ReplPosition> heal(int unit, const std::set<int>& keys, int* found);
  std::set<int> different(int unit);  // now, by a pass over both
  void leave_by_hand(int unit, bool back);
  void copy_by_hand(int unit);  // node: SLOTSSLAVEOF ... FORCE on the new side, and it is copied
  void lose_queue();            // a killed server does
  // Pika: a full copy, whatever was there. Following when it is done.
  void copy_anew(int unit);
  bool trusted(int unit);  // neither process has changed since the copy
  SlotReport report(bool new_side, int unit);

  // Another process is the master, with the same data. Nobody is served until it is taken on.
  void fail_over(bool new_side);
  int64_t run(bool new_side) const { return run_[new_side]; }
  bool away(bool new_side) const { return away_[new_side]; }
  void taken_on(bool new_side) { away_[new_side] = false; }

  std::array<bool, kSlots> owner_is_new{};  // the truth: the owner record is on the disk

 private:
  bool write(bool on_new, const Request& request, Answer* answer);
  // A server's clock for leases: it does not jump.
  int64_t lease_clock() const;
  bool too_low(Copy& copy, uint64_t epoch);
  bool all_applied(const Copy& copy, uint64_t end) const;
  void leave(Copy& copy);
  void end_queue(Copy& copy);
  void pull_later(int unit, bool to_new = true);
  void pull(int unit, bool to_new);
  void apply_later(int unit, int worker);
  int worker_of(const Record& record) const {
    return record.key < 0 ? -1 - record.key : record.key & 1;
  }

  Context& context_;
  const Kind kind_;
  std::vector<Copy> old_, new_;
  double slow_apply_;
  bool loses_queue_ = false;
  std::vector<int> pulling_[2];  // by the side that pulls
  int64_t busy_until_[2][2] = {};
  int64_t run_[2] = {1, 1};
  bool away_[2] = {};
  uint64_t histories_ = 0;
  std::set<uint64_t> executed_;
};

}  // namespace sf::cutsim
