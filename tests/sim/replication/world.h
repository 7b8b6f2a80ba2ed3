// One seed: five nodes, clients, an operator, faults, and a schedule that picks what happens next.
//
//   0, 1  masters     2  follows slots of both, owns the others     3  full replica of 2
//   4     full replica of 0, and whatever the operator makes of them
//
// run() is the busy part, then the faults stop and everything must be in step again within bounded
// virtual time. A broken promise is thrown as Violation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/replication/context.h"
#include "tests/sim/replication/node.h"
#include "tests/sim/sim_main.h"

namespace sf::sim {

class World {
 public:
  World(uint64_t seed, const SimOptions& options);
  void run();
  const std::array<bool, kFaults>& had() const { return context_.had; }
  uint64_t events() const { return events_; }

 private:
  // What can happen next; `node` and `thing` say where.
  struct Task {
    enum class Kind {
      kDial,
      kUp,
      kDown,
      kUpEnd,
      kDownEnd,
      kMatch,
      kGoDown,
      kRetry,
      kRunStore,
      kTellStored,
      kFsync,
      kTellSynced,
      kWake,
      kRead,
      kGive,
      kExport,
    } kind;
    int node = 0;
    Conn* conn = nullptr;
    Link* link = nullptr;
    Feed* feed = nullptr;
  };
  struct Move {
    enum class Phase { kFollowing, kFence, kWait, kPermanent, kReverse, kTakeBack } phase;
    int from = 0;
    int to = 0;
    SlotSet slots;
    uint64_t epoch = 0;
    Pos end;
    std::optional<Pos> own;             // set by the promote
    std::array<Pos, kSlots> applied{};  // before it
    int64_t deadline = 0;
  };

  Node& node(int id) { return *nodes_[static_cast<size_t>(id)]; }
  int any_node() { return static_cast<int>(context_.random.below(kNodes)); }
  SlotSet any_slots(double chance);
  bool chance(double p) { return context_.random.chance(p); }

  // the schedule
  void begin();
  void event();
  bool run_task();
  void collect();
  void collect_node(Node& n);
  void collect_conn(Conn& conn);
  void run(const Task& task);
  void pass_time(int64_t us);
  void tick_all();
  void deliver_up(Conn& conn);
  void deliver_down(Conn& conn);
  void show(const Conn& conn, const char* way, std::string_view bytes) const;
  void drop_dead_conns();
  void check();
  void check_claims(Node& n);
  // clients
  void client();
  std::vector<Op> change(Node& n, int slot);
  // faults
  void fault();
  void drop_conn();
  void stall_conn(bool long_enough_to_end);
  void lose_message();
  void crash();
  void restart();
  void purge();
  void take_room();
  // the operator
  void operate();
  bool would_loop(int id, int master, const SlotSet& slots);
  void add_slots();
  void drop_slots();
  void fail_over();
  void repoint();
  void begin_move();
  void go_on_moving();
  void promote(Move& move);
  void check_moved(const Move& move);
  bool take_back(Move& move);
  // the end
  void heal();
  void settle();
  std::string out_of_step();
  void compare();

  Context context_;
  int wanted_events_;
  uint64_t events_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Task> tasks_;
  int64_t next_tick_ = 0;
  uint64_t next_value_ = 1;
  uint64_t next_epoch_ = 1;
  std::optional<Move> move_;
  std::array<SlotSet, kNodes> held_;  // clients wait for the move
  std::array<bool, kFaults> allowed_{};
  double fault_rate_ = 0;
  double operator_rate_ = 0;
  double client_rate_ = 0;
  bool quiet_ = false;
};

}  // namespace sf::sim
