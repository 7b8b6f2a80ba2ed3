#include "proxy_shim/control/cutover_answers.h"

#include <doctest/doctest.h>

#include <future>

namespace sf {
namespace {

using Results = std::vector<UnitResult>;

struct Asked {
  std::promise<Results> told;
  CutoverAnswers::Done done() {
    return [this](Results r) { told.set_value(std::move(r)); };
  }
  Results wait() { return told.get_future().get(); }
};

const std::vector<SlotSet> kTwo = {SlotSet::of(901), SlotSet::of(902)};

TEST_CASE("SHIM CUTOVER is answered when all its units are decided, in the order of the slots") {
  SystemClock clock;
  CutoverAnswers answers(&clock, 60'000, [](const SlotSet&) { return SlotPhase::kOld; });
  answers.start();
  Asked asked;
  const uint64_t id = answers.ask(kTwo, asked.done());
  answers.tried(id, kTwo[0], 1, "no link");
  answers.decide(id, {kTwo[1], SlotPhase::kNew, 1, 2, "switched"});
  answers.decide(id, {kTwo[0], SlotPhase::kOld, 3, 4, "taken back"});
  const Results results = asked.wait();
  REQUIRE(results.size() == 2);
  CHECK(results[0].text == "taken back");
  CHECK(results[1].phase == SlotPhase::kNew);
  answers.decide(id, {kTwo[0], SlotPhase::kNew, 0, 0, "late"});  // nobody's
}

TEST_CASE("SHIM CUTOVER is answered in its time, with what is decided and what is not") {
  SystemClock clock;
  CutoverAnswers answers(&clock, 50, [](const SlotSet&) { return SlotPhase::kHold; });
  answers.start();
  Asked asked;
  const std::vector<SlotSet> units = {SlotSet::of(901), SlotSet::of(902), SlotSet::of(903)};
  const uint64_t id = answers.ask(units, asked.done());
  answers.decide(id, {units[0], SlotPhase::kNew, 7, 0, "switched"});
  answers.tried(id, units[1], 3, "no link");
  const Results results = asked.wait();
  CHECK(results[0].phase == SlotPhase::kNew);
  CHECK(results[1].phase == SlotPhase::kHold);
  CHECK(results[1].text == "still trying, 3 attempts, see SHIM STATUS; last: no link");
  CHECK(results[2].text == "still in the queue, see SHIM STATUS");
  answers.decide(id, {units[1], SlotPhase::kNew, 0, 0, ""});
}

TEST_CASE("who is left when the answers stop is answered at once") {
  SystemClock clock;
  CutoverAnswers answers(&clock, 60'000, [](const SlotSet&) { return SlotPhase::kOld; });
  answers.start();
  Asked asked;
  answers.ask(kTwo, asked.done());
  answers.stop();
  CHECK(asked.wait().size() == 2);
}

}  // namespace
}  // namespace sf
