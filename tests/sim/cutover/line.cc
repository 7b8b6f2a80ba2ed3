#include "tests/sim/cutover/line.h"

#include <algorithm>

namespace sf::cutsim {

void Line::send(const Request& request, Reply reply) {
  if (groups_.away(on_new_)) {
    reply(Outcome::kRefused, 0);
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
  flight->value = r.value;
  context_.executed(r.client, r.key, r.id);
  const bool taken = r.write ? groups_.write(on_new_, r.client, r.key, r.value)
                             : groups_.read(on_new_, r.key, &flight->value);
  context_.say("  client ", r.client, r.write ? " writes " : " reads ", "key ", r.key, " ",
               flight->value, on_new_ ? " new" : " old", taken ? "" : " refused");
  flight->outcome = taken ? Outcome::kOk : Outcome::kRefused;
  last_back_ = std::max(last_back_, context_.now() + context_.between(100, 2'000));
  context_.after(last_back_ - context_.now(), [this, flight] { answer(flight); });
}

void Line::answer(const std::shared_ptr<Flight>& flight) {
  if (flight->gone) return;
  flights_.pop_front();
  flight->reply(flight->outcome, flight->value);
}

void Line::cut(bool server_gone) {
  std::deque<std::shared_ptr<Flight>> flights;
  flights.swap(flights_);
  for (const auto& flight : flights) {
    flight->gone = true;
    const Request r = flight->request;
    if (r.write && !flight->executed && !server_gone && context_.chance(0.8)) {
      context_.after(context_.between(500, context_.chance(0.7) ? 12'000 : 150'000), [this, r] {
        if (!groups_.write(on_new_, -1, r.key, r.value)) return;
        context_.note(Fault::kLateWrite);
        context_.say("  late write ", r.value, " of key ", r.key);
      });
    }
    flight->reply(Outcome::kUnknown, 0);
  }
}

}  // namespace sf::cutsim
