// One seed: two groups, a shim that may die, two proxies (and one nobody knows of), clients, the
// dashboard with the migrator's permit loop, an operator, and faults. run() is the busy part; then
// the faults stop and everything must be switched, handed back and readable within bounded virtual
// time.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "tests/sim/cutover/list_check.h"
#include "tests/sim/cutover/register_check.h"
#include "tests/sim/cutover/shim.h"
#include "tests/sim/sim_main.h"

namespace sf::cutsim {

class World {
 public:
  World(uint64_t seed, const SimOptions& options);
  void run();
  const std::array<bool, kFaults>& had() const { return context_.had(); }
  const std::array<bool, kFaults>& mattered() const { return context_.mattered(); }
  uint64_t events() const { return context_.events(); }

 private:
  enum class To { kOld, kShim, kNew };
  struct Proxy {
    int number = 0;
    bool registered = true;
    std::array<To, kSlots> to{};      // as it acts
    std::array<To, kSlots> wanted{};  // changed when nothing of the slot is under way
    std::array<int, kSlots> under_way{};
    std::array<Fault, kSlots> because{};  // not through the shim
    std::deque<std::pair<Request, Reply>> waiting;
    std::deque<uint64_t> asked;  // the shim, in order
    int64_t last_there = 0;
    std::unique_ptr<Line> old_line, new_line;
  };
  struct Client {
    int number = 0;
    int proxy = 0;
    int under_way = 0;
  };

  // clients and proxies
  void issue(Client& client);
  Request next_request(const Client& client, bool reader);
  void called(const Request& request, uint64_t stamp);
  void answered(const Request& request, uint64_t called, Outcome outcome, const Answer& answer);
  void forward(Proxy& proxy, const Request& request, Reply reply);
  void forward_to_shim(Proxy& proxy, const Request& request, Reply reply);
  void remap(Proxy& proxy, int slot, To to);
  void try_remap(Proxy& proxy);
  bool strangers() const;
  // dashboard, migrator, operator
  void migrate();
  void by_hand();
  void leave_by_hand();
  void pass(int unit);
  void operate();
  void order_back(int unit);
  void decide(int unit);
  void release(int unit);
  void hand_back();
  bool mapped(int slot, To to) const;  // on every proxy the dashboard knows
  // the shim's life, and faults
  void start_shim();
  void kill_shim();
  void fault();
  void soon(int64_t us, void (World::*what)());
  void attempt_begins(bool back);
  void hold_begins();
  void link_begins();
  void call_off();
  void cutover_twice();
  void reload();
  void fail_old() { fail_over(false); }
  void fail_new() { fail_over(true); }
  void cut_worker();
  std::unique_ptr<Shim> new_shim();
  void fail_over(bool new_side);
  void watch();
  // the end
  void settle();
  void read_all();

  Context context_;
  const Kind kind_;
  Groups groups_;
  Folder folder_;
  std::optional<Folder> older_;
  std::unique_ptr<Shim> shim_;
  std::vector<std::unique_ptr<Shim>> dead_;
  std::vector<Proxy> proxies_;
  std::vector<Client> clients_;
  std::array<RegisterCheck, kKeys> registers_;  // by key
  std::array<ListCheck, kSlots> lists_;
  // What an operator wants with a unit that may go back. While the migrator is stopped for it,
  // nobody hands it back nor switches it again.
  struct Wish {
    int64_t soak_until = 0;  // not handed back before; 0: not switched yet
    bool migrator_stopped = false;
    bool wants_old = false;  // at the end
    bool released = false;   // to the old group, for good
    int looks = 0;
  };
  std::vector<Wish> wishes_;  // by unit
  std::vector<bool> final_;   // by unit
  int64_t next_value_ = 1;
  uint64_t next_request_ = 1;
  int64_t think_us_ = 3'000;
  bool busy_ = true;
  bool ended_ = false;
  int64_t read_think_us_ = 0;
  double write_share_ = 0.4;
  double odd_share_ = 0;
  int64_t migrator_back_ = 0;
  int64_t soak_us_ = 0;
  std::vector<int64_t> passing_since_;  // by unit; 0: no pass is under way
  bool peaceful_ = false;               // no fault in this seed: nobody may see an error
  double fault_rate_ = 0;
  std::vector<int> owing_looks_;  // by unit: since the shim owes what it does not get done
  int64_t doubt_since_ = 0;
  int doubts_ = 0;  // that a start did not end
};

}  // namespace sf::cutsim
