// One life of the shim: the real CutoverMachine, Permits and judge_slot, and in model form what
// stands around them (unit_run, cutover_runner, startup, slot_board, direction). A change of a rule
// there belongs here too.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "proxy_shim/control/cutover_machine.h"
#include "proxy_shim/control/direction.h"
#include "proxy_shim/control/hold_turns.h"
#include "proxy_shim/control/permits.h"
#include "proxy_shim/control/state_store.h"
#include "tests/sim/cutover/worker.h"

namespace sf::cutsim {

inline constexpr int kWorkers = 2;       // one a proxy
inline constexpr int kPermitSpeed = 20;  // a permit's 10 s are half a second here

// What the shim measures permits with: time that only goes forward.
class PermitClock : public Clock {
 public:
  explicit PermitClock(const Context& context) : context_(context) {}
  int64_t wall_ms() const override { return context_.wall_ms(); }
  int64_t mono_us() const override;

 private:
  const Context& context_;
};

// Keys of one unit that may differ (DESIGN 6.4).
struct HealList {
  bool complete = false;  // since a pass over both sides that the shim has seen every write after
  std::set<int> keys;
};

// The state folder: outlives the process. What is put here is on the disk.
struct Folder {
  uint64_t epoch = 0;
  std::vector<SlotRecord> records;  // by unit
  std::vector<HealList> heal;       // by unit, with a clean stop only
};

class Shim {
 public:
  // `strangers`: somebody but the shim is connected to the old side.
  // `begins`, `holds`, `links`: an attempt does.
  Shim(Context& context, Groups& groups, Folder& folder, std::function<bool()> strangers,
       std::function<void(bool back)> begins, std::function<void()> holds,
       std::function<void()> links);

  // Trusts nothing, takes back what has no owner record, opens. False: does not serve.
  bool start();
  void kill();
  bool serving() const { return serving_; }
  void take(int proxy, const Request& request, Reply reply);

  void permit(const SlotSet& slots);
  void interrupt(const std::string& why);  // of the running attempts
  // The plan is read again: another control takes over as if the shim had been started, while
  // clients are served.
  void reload();
  void order_again();  // a second CUTOVER of each unit
  // ROLLBACK: switched units go back. Refused without a permit, and where there is no way back.
  Status roll_back(int unit);
  bool going_back(int unit) const { return at(unit).back_ordered; }
  bool on_the_way_back(int unit) const { return at(unit).back; }  // the attempt, now or last
  void set_auto(int unit, bool on) { at(unit).automatic = on; }
  void abort();  // of everything
  // Pika: a pass over both sides found these keys different. Only what is written from here on is
  // known, so it has to begin after every proxy was attached.
  void passed(int unit, const std::set<int>& different);
  void forget_pass(int unit);
  bool needs_pass(int unit) const;
  void cut(int worker, bool new_side, bool server_gone);
  enum class Reason { kIdentity, kMarker };
  void stop_writes(bool new_side, Reason reason, bool stopped);
  void stop_writes_unmarked();
  SlotPhase phase(int unit) const { return phase(at(unit)); }  // NEW: the plan's new side, always
  bool attempting(int unit) const { return machine(unit).busy(); }
  bool idle(int unit) const { return !machine(unit).busy() && !machine(unit).owes(); }
  bool past_the_permit() const;  // nobody is asked any more who else writes to the old side
  bool make_final(int unit);     // I7: refused unless the new side owns it, and keeps it

 private:
  struct Unit {
    int number = 0;
    SlotSet slots;
    std::unique_ptr<CutoverMachine> machine;  // of the last attempt
    bool back = false;  // whose OLD is the new side then: everything it says is turned
    bool automatic = true;
    bool back_ordered = false;
    int tries = 0;  // of what was ordered
    std::deque<CutAction> todo;
    uint64_t attempt = 0;
    uint64_t undo = 0;
    int64_t hold_start = 0;
    int64_t deadline = 0;
    int64_t not_before = 0;
    int64_t back_off = 20'000;
    int64_t runs[2] = {};
    size_t end_before = 0;  // Pika: before the fence keys
    std::string interrupt;
    bool permitted = false;
    bool prepared = false;  // has a place among those in flight
    int64_t ready = 0;
    uint64_t publication = 0;  // number of the last
  };
  using Effect = std::function<void(CutEvent*)>;
  using Fine = std::function<void()>;

  Unit& at(int unit) { return units_[static_cast<size_t>(unit)]; }
  const Unit& at(int unit) const { return units_[static_cast<size_t>(unit)]; }
  const CutoverMachine& machine(int unit) const { return *at(unit).machine; }
  static SlotPhase phase(const Unit& u) { return turned(u.machine->phase(), u.back); }
  void each_slot(const Unit& u, const std::function<void(int)>& what) const;
  // From now on only while this life lasts.
  void later(int64_t us, Fine what);
  void tick();
  bool may_begin(Unit& u, bool back);
  void begin(Unit& u, bool back);
  void try_back(Unit& u);
  void leave_turn(Unit& u);
  void let_go(Unit& u);
  void drive(Unit& u);
  void step(Unit& u, const CutEvent& event);
  void perform(Unit& u, const CutAction& action);
  void call(Unit& u, CutEvent::Type type, int64_t timeout_us, Effect effect);
  void note(const Unit& u, const CutEvent& event);
  int64_t limit(const Unit& u, int64_t most_us) const;
  bool over(const Unit& u) const;
  void hold_in_turn(Unit& u);
  void publish(Unit& u, SlotPhase phase);
  void take_over();
  bool judge_all();
  void drain(Unit& u, bool reads);
  void wait_applied(Unit& u, uint64_t end);
  void fence(Unit& u);
  void fence_by_keys(Unit& u);
  void check_permit(Unit& u);
  void switch_over(Unit& u, const CutAction& action);
  void tie_up(Unit& u, const CutAction& action);
  void heal(Unit& u);
  void write_owner(Unit& u);
  void check_equal(const Unit& u);
  void go_back(Unit& u, const CutAction& action);
  bool changed(const Unit& u, bool new_side) const;
  void settle(Unit& u, const SlotVerdict& verdict);

  Context& context_;
  Groups& groups_;
  Folder& folder_;
  const std::function<bool()> strangers_;
  const std::function<void(bool)> begins_;
  const std::function<void()> holds_, links_;
  const CutTraits traits_;
  const PermitClock permit_clock_;
  std::unique_ptr<Permits> permits_;
  int64_t permit_given_ = 0;
  std::vector<Unit> units_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  HoldTurns turns_;
  uint64_t reserved_ = 0;  // highest epoch handed out
  bool serving_ = false;
  bool reloading_ = false;
  bool stopped_[2][2] = {};  // side, reason
};

}  // namespace sf::cutsim
