// One life of the shim: the real CutoverMachine, Permits and judge_slot, and in model form what
// stands around them (unit_run, cutover_runner, startup, slot_board). A change of a rule there
// belongs here too.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "proxy_shim/control/cutover_machine.h"
#include "proxy_shim/control/permits.h"
#include "proxy_shim/control/state_store.h"
#include "tests/sim/cutover/worker.h"

namespace sf::cutsim {

inline constexpr int kWorkers = 2;  // one a proxy

// The state folder: outlives the process. What is put here is on the disk.
struct Folder {
  uint64_t epoch = 0;
  std::vector<SlotRecord> records;  // by unit
};

class Shim {
 public:
  // `strangers`: somebody but the shim is connected to the old side.
  // `begins`: an attempt does.
  Shim(Context& context, Groups& groups, Folder& folder, std::function<bool()> strangers,
       std::function<void()> begins);

  // Trusts nothing, takes back what has no owner record, opens. False: does not serve.
  bool start();
  void kill();
  bool serving() const { return serving_; }
  void take(int proxy, const Request& request, Reply reply);

  void permit(const SlotSet& slots);
  void interrupt(const std::string& why);  // of the running attempt
  void cut(int worker, bool new_side, bool server_gone);
  enum class Reason { kIdentity, kMarker };
  void stop_writes(bool new_side, Reason reason, bool stopped);
  SlotPhase phase(int unit) const { return machine(unit).phase(); }
  bool idle(int unit) const { return !machine(unit).busy() && !machine(unit).owes(); }
  bool past_the_permit() const;  // nobody is asked any more who else writes to the old side
  bool make_final(int unit);     // I7: refused unless the new side owns it

 private:
  struct Unit {
    int number = 0;
    SlotSet slots;
    std::unique_ptr<CutoverMachine> machine;
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
  };
  using Effect = std::function<void(CutEvent*)>;
  using Fine = std::function<void()>;

  const CutoverMachine& machine(int unit) const {
    return *units_[static_cast<size_t>(unit)].machine;
  }
  void each_slot(const Unit& u, const std::function<void(int)>& what) const;
  // From now on only while this life lasts.
  void later(int64_t us, Fine what);
  void tick();
  void begin(Unit& u);
  void drive(Unit& u);
  void step(Unit& u, const CutEvent& event);
  void perform(Unit& u, const CutAction& action);
  void call(Unit& u, CutEvent::Type type, int64_t timeout_us, Effect effect);
  int64_t limit(const Unit& u, int64_t most_us) const;
  bool over(const Unit& u) const;
  void publish(Unit& u, SlotPhase phase);
  void drain(Unit& u, bool reads);
  void wait_applied(Unit& u, uint64_t end);
  void fence(Unit& u);
  void fence_by_keys(Unit& u);
  void check_permit(Unit& u);
  void switch_over(Unit& u, const CutAction& action);
  void write_owner(Unit& u);
  void go_back(Unit& u, const CutAction& action);
  bool changed(const Unit& u, bool new_side) const;
  void settle(Unit& u, const SlotVerdict& verdict);

  Context& context_;
  Groups& groups_;
  Folder& folder_;
  const std::function<bool()> strangers_;
  const std::function<void()> begins_;
  const CutTraits traits_;
  Permits permits_;
  int64_t permit_given_ = 0;
  std::vector<Unit> units_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool serving_ = false;
  bool stopped_[2][2] = {};  // side, reason
  uint64_t publications_ = 0;
};

}  // namespace sf::cutsim
