// One worker of the shim, with the connection of one proxy: routes by phase, holds, answers in
// order, counts what is in flight (proxy_shim/data in model form).
#pragma once

#include <array>
#include <deque>
#include <memory>

#include "proxy_shim/data/route_table.h"
#include "tests/sim/cutover/line.h"

namespace sf::cutsim {

class Worker {
 public:
  // `note`: of a key whose write may come out otherwise on the new side, before it is sent.
  Worker(Context& context, Groups& groups, std::function<void(int key)> note);

  void take(const Request& request, Reply reply);
  // Lets go what is held, if it may go. `back`: held on its way back, the new side owns it.
  void set_phase(int slot, SlotPhase phase, bool back = false);
  void stop_writes(bool new_side, bool stopped) { stopped_[new_side] = stopped; }
  void cut(bool new_side, bool server_gone);
  void end();  // the process is gone: every request is answered by the broken connection

  // To one of the sides.
  int writes_in_flight(int slot, bool to_new) const { return writes_[to_new][at(slot)]; }
  int reads_in_flight(int slot, bool to_new) const { return reads_[to_new][at(slot)]; }
  int unanswered(int slot, bool to_new) const { return unanswered_[to_new][at(slot)]; }
  void forget_unanswered(int slot, bool to_new) { unanswered_[to_new][at(slot)] = 0; }

 private:
  struct Pending {
    Request request;
    Reply reply;
    bool held = false;
    bool done = false;
    Outcome outcome = Outcome::kRefused;
    Answer answer;
  };
  static size_t at(int slot) { return static_cast<size_t>(slot); }
  void route(const std::shared_ptr<Pending>& pending);
  bool must_hold(const Request& request) const;
  void send(const std::shared_ptr<Pending>& pending, bool on_new);
  void finish(const std::shared_ptr<Pending>& pending, Outcome outcome, const Answer& answer);

  Context& context_;
  const std::function<void(int)> note_;
  std::array<SlotPhase, kSlots> phase_{};
  std::array<bool, kSlots> back_{};
  std::array<int, kSlots> held_{};
  std::array<int, kSlots> writes_[2]{}, reads_[2]{}, unanswered_[2]{};  // by side
  bool stopped_[2] = {};
  bool ended_ = false;
  std::deque<std::shared_ptr<Pending>> queue_;  // in the order of the requests
  Line old_line_, new_line_;
};

}  // namespace sf::cutsim
