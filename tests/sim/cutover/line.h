// A connection to one of the servers with requests pipelined on it, answered in order. When it
// breaks, whatever is on it is answered with an error at once, and a write may still execute later.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "tests/sim/cutover/servers.h"

namespace sf::cutsim {

enum class Outcome { kOk, kUnknown, kRefused };  // kRefused: certainly not executed
using Reply = std::function<void(Outcome, const Answer& answer)>;

class Line {
 public:
  Line(Context& context, Groups& groups, bool on_new)
      : context_(context), groups_(groups), on_new_(on_new) {}

  void send(const Request& request, Reply reply);
  // `server_gone`: nothing on it executes any more.
  void cut(bool server_gone);
  bool busy() const { return !flights_.empty(); }

 private:
  struct Flight {
    Request request;
    Reply reply;
    bool executed = false;
    bool gone = false;
    Outcome outcome = Outcome::kRefused;
    Answer answer;
  };
  void execute(const std::shared_ptr<Flight>& flight);
  void execute_late(Request request);
  void answer(const std::shared_ptr<Flight>& flight);

  Context& context_;
  Groups& groups_;
  const bool on_new_;
  std::deque<std::shared_ptr<Flight>> flights_;
  int64_t last_there_ = 0;
  int64_t last_back_ = 0;
};

}  // namespace sf::cutsim
