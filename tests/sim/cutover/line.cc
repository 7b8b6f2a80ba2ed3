#include "tests/sim/cutover/line.h"

#include <algorithm>

namespace sf::cutsim {

void Line::send(const Request& request, Reply reply) {
  if (groups_.away(on_new_)) {
    reply(Outcome::kRefused, {});
    return;
  }
  auto flight = std::make_shared<Flight>();
  flight->request = request;
  flight->reply = std::move(reply);
  flights_.push_back(flight);
  last_there_ = std::max(last_there_, context_.now() + context_.between(100, 2'000));
  context_.after(last_there_ - context_.now(), [this, flight] { execute(flight); });
}

void Line::execute(const std::shared_ptr<Flight>& flight) {
  if (flight->gone) return;
  const Request& r = flight->request;
  flight->executed = true;
  context_.executed(r.client, r.key, r.id);
  const bool taken = groups_.run(on_new_, r, &flight->answer);
  context_.say("  client ", r.client, " ", op_name(r.op), " key ", r.key, " ", flight->answer.value,
               on_new_ ? " new" : " old", taken ? "" : " refused");
  flight->outcome = taken ? Outcome::kOk : Outcome::kRefused;
  last_back_ = std::max(last_back_, context_.now() + context_.between(100, 2'000));
  context_.after(last_back_ - context_.now(), [this, flight] { answer(flight); });
}

void Line::answer(const std::shared_ptr<Flight>& flight) {
  if (flight->gone) return;
  flights_.pop_front();
  flight->reply(flight->outcome, flight->answer);
}

// Nobody waits for it any more, and it was on its way.
void Line::execute_late(Request request) {
  request.client = -1;
  const auto execute = [this, request] {
    Answer answer;
    if (context_.in_pause()) context_.note(Fault::kLateWrite);  // the fence may refuse it
    context_.matters(Fault::kLateWrite, context_.in_pause());
    if (!groups_.run(on_new_, request, &answer)) return;
    context_.note(Fault::kLateWrite);
    context_.say("  late ", op_name(request.op), " of key ", request.key, " ", answer.value);
  };
  if (context_.chance(0.6)) return context_.after_fence(150'000, execute);
  context_.after(context_.between(500, context_.chance(0.7) ? 12'000 : 150'000), execute);
}

void Line::cut(bool server_gone) {
  std::deque<std::shared_ptr<Flight>> flights;
  flights.swap(flights_);
  for (const auto& flight : flights) {
    flight->gone = true;
    context_.matters(Fault::kBroken, flight->request.writes());
    if (flight->request.writes() && !flight->executed && !server_gone && context_.chance(0.8)) {
      execute_late(flight->request);
    }
    flight->reply(Outcome::kUnknown, {});
  }
}

}  // namespace sf::cutsim
