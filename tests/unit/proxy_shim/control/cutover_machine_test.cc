// Runs the golden scripts of tests/golden/cutover against the machine, and checks the rules that no
// script can show: from every step an interrupt leads back, and nothing does after the owner
// record.
#include "proxy_shim/control/cutover_machine.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "common/base/strings.h"
#include "proxy_shim/control/direction.h"

namespace sf {
namespace {

using Fields = std::map<std::string, std::string>;

ReplPosition position_of(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  return {text.substr(0, colon), parse_uint64(text.substr(colon + 1)).value_or(0)};
}

// "drained unanswered=1 ok='no answer'" to its parts.
Fields fields_of(const std::string& line, std::string* name) {
  Fields out;
  size_t at = line.find(' ');
  *name = line.substr(0, at);
  while (at != std::string::npos && at < line.size()) {
    const size_t start = line.find_first_not_of(' ', at);
    if (start == std::string::npos) break;
    const size_t equals = line.find('=', start);
    REQUIRE(equals != std::string::npos);
    size_t end;
    std::string value;
    if (equals + 1 < line.size() && line[equals + 1] == '\'') {
      end = line.find('\'', equals + 2);
      REQUIRE(end != std::string::npos);
      value = line.substr(equals + 2, end - equals - 2);
      ++end;
    } else {
      end = std::min(line.find(' ', equals), line.size());
      value = line.substr(equals + 1, end - equals - 1);
    }
    out[line.substr(start, equals - start)] = value;
    at = end;
  }
  return out;
}

CutEvent event_of(const std::string& line, uint64_t epoch) {
  std::string name;
  Fields fields = fields_of(line, &name);
  CutEvent event;
  bool known = false;
  for (int t = 0; t <= static_cast<int>(CutEvent::Type::kRetry); ++t) {
    if (name == event_name(static_cast<CutEvent::Type>(t))) {
      event.type = static_cast<CutEvent::Type>(t);
      known = true;
    }
  }
  REQUIRE_MESSAGE(known, "unknown event " << name);
  event.epoch = fields.count("epoch") ? parse_uint64(fields["epoch"]).value_or(0) : epoch;
  if (fields.count("failed")) event.status = Status::unavailable(fields["failed"]);
  event.yes = !fields.count("yes") || fields["yes"] == "1";
  event.unanswered = fields.count("unanswered") ? parse_int64(fields["unanswered"]).value_or(0) : 0;
  event.position = position_of(fields["at"]);
  event.old_end = position_of(fields["old"]);
  event.new_end = position_of(fields["new"]);
  event.text = fields["text"];
  return event;
}

std::string shown(const CutAction& action, bool back) {
  std::string out = action_name(action.type);
  if (action.type == CutAction::Type::kPublish)
    out += cat(" ", phase_name(turned(action.phase, back)));
  if (!action.position.history.empty()) out += " at=" + action.position.text();
  if (!action.text.empty()) out += ": " + action.text;
  return out;
}

// `direction back`: phases are shown as the shim names them, the machine sees the sides exchanged.
std::string run_script(const std::string& script) {
  CutTraits traits;
  bool back = false;
  auto machine = std::make_unique<CutoverMachine>(traits, SlotPhase::kOld);
  std::istringstream in(script);
  std::string line, out;
  while (std::getline(in, line)) {
    if (line.empty() || line[0] == '#') {
      out += line + "\n";
    } else if (line.starts_with("traits ")) {
      out += line + "\n";
      std::string name;
      Fields fields = fields_of(line, &name);
      traits.end_fenced = fields["end_fenced"] != "0";
      traits.reverse_link = fields["reverse_link"] != "0";
      traits.heals = fields["heals"] == "1";
      machine = std::make_unique<CutoverMachine>(traits, SlotPhase::kOld);
    } else if (line == "direction back") {
      out += line + "\n";
      back = true;
    } else if (line.starts_with("> ")) {
      out += line + "\n";
      const CutEvent event = event_of(line.substr(2), machine->epoch());
      for (const CutAction& action : machine->step(event)) {
        out += "  " + shown(action, back) + "\n";
      }
      out += cat("  = ", phase_name(turned(machine->phase(), back)),
                 machine->owes() && !machine->busy() ? ", owes" : "", "\n");
    }
  }
  return out;
}

TEST_CASE("I2 I3: golden scripts of the cutover machine") {
  const std::filesystem::path folder =
      std::filesystem::path(SF_SOURCE_DIR) / "tests" / "golden" / "cutover";
  int scripts = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    ++scripts;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::string got = run_script(text);
    if (std::getenv("SF_GOLDEN_UPDATE") != nullptr) {
      std::ofstream(entry.path()) << got;
    } else {
      CHECK_MESSAGE(got == text, entry.path().filename().string() << " now reads\n" << got);
    }
  }
  CHECK(scripts >= 8);
}

// The answers of an undisturbed walk, in order.
std::vector<CutEvent> good_walk(uint64_t epoch) {
  std::vector<CutEvent> out;
  for (const char* line :
       {"start", "recorded", "announced", "published", "drained", "fenced at=h:9", "applied",
        "permit", "published", "drained", "permanent at=h:9", "promoted at=n:1",
        "ends old=h:9 new=h:9", "owner-synced", "marked", "published", "released", "linked"}) {
    out.push_back(event_of(line, epoch));
  }
  return out;
}

std::vector<CutEvent> healing_walk(uint64_t epoch) {
  std::vector<CutEvent> out = good_walk(epoch);
  out.insert(out.begin() + 13, event_of("healed old=h:9", epoch));
  return out;
}

// Answers whatever the machine asks for with success until it is idle; counts what it asked.
std::map<CutAction::Type, int> settle(CutoverMachine& machine, std::vector<CutAction> actions) {
  std::map<CutAction::Type, int> asked;
  for (int turn = 0; turn < 50 && !actions.empty(); ++turn) {
    std::vector<CutAction> next;
    for (const CutAction& action : actions) {
      ++asked[action.type];
      CutEvent answer;
      answer.epoch = machine.epoch();
      answer.yes = true;
      switch (action.type) {
        case CutAction::Type::kPublish:
          answer.type = CutEvent::Type::kPublished;
          break;
        case CutAction::Type::kFollowAgain:
          answer.type = CutEvent::Type::kFollowing;
          break;
        case CutAction::Type::kUnfence:
          answer.type = CutEvent::Type::kUnfenced;
          break;
        case CutAction::Type::kRelease:
          answer.type = CutEvent::Type::kReleased;
          break;
        default:
          continue;
      }
      for (const CutAction& more : machine.step(answer)) next.push_back(more);
    }
    actions = std::move(next);
  }
  return asked;
}

TEST_CASE("I3: an interrupt at each step before the owner record leads back to OLD") {
  for (size_t stop = 1; stop <= 13; ++stop) {
    CutTraits traits;
    traits.heals = stop == 13;  // then it is healing
    CutoverMachine machine(traits, SlotPhase::kOld);
    const std::vector<CutEvent> walk = good_walk(1);
    std::map<CutAction::Type, int> done;
    for (size_t i = 0; i < stop; ++i) {
      for (const CutAction& action : machine.step(walk[i])) ++done[action.type];
    }
    CutEvent interrupt = event_of("interrupt text='bound reached'", 1);
    auto undone = settle(machine, machine.step(interrupt));
    CAPTURE(stop);
    CHECK(machine.phase() == SlotPhase::kOld);
    CHECK(!machine.busy());
    CHECK(!machine.owes());
    CHECK(undone[CutAction::Type::kUnfence] == done[CutAction::Type::kFence]);
    CHECK(undone[CutAction::Type::kFollowAgain] == done[CutAction::Type::kPromote]);
    CHECK((undone[CutAction::Type::kPublish] > 0) == (done[CutAction::Type::kPublish] > 0));
  }
}

TEST_CASE("I3: once the owner record is asked for, nothing is taken back") {
  for (size_t stop = 13; stop <= 18; ++stop) {
    CutoverMachine machine({}, SlotPhase::kOld);
    const std::vector<CutEvent> walk = good_walk(1);
    for (size_t i = 0; i < 13; ++i) (void)machine.step(walk[i]);
    CHECK(machine.committed());
    CHECK(machine.step(event_of("interrupt text='bound reached'", 1)).empty());
    for (size_t i = 13; i < stop; ++i) (void)machine.step(walk[i]);
    CHECK(machine.step(event_of("interrupt text='abort'", 1)).empty());
    for (size_t i = stop; i < walk.size(); ++i) (void)machine.step(walk[i]);
    CHECK(machine.phase() == SlotPhase::kNew);
    CHECK(!machine.busy());
  }
}

TEST_CASE(
    "I2b: servers that replicate unfaithfully are healed before the owner record, not after") {
  CutTraits traits;
  traits.heals = true;
  CutoverMachine machine(traits, SlotPhase::kOld);
  std::map<CutAction::Type, size_t> asked_at;
  const std::vector<CutEvent> walk = healing_walk(1);
  for (size_t i = 0; i < walk.size(); ++i) {
    for (const CutAction& action : machine.step(walk[i])) asked_at[action.type] = i + 1;
  }
  CHECK(machine.phase() == SlotPhase::kNew);
  CHECK(asked_at[CutAction::Type::kHeal] > asked_at[CutAction::Type::kPromote]);
  CHECK(asked_at[CutAction::Type::kHeal] < asked_at[CutAction::Type::kWriteOwner]);
}

TEST_CASE("I10: answers of an earlier attempt, and answers nobody waits for, change nothing") {
  CutoverMachine machine({}, SlotPhase::kOld);
  (void)machine.step(event_of("start", 1));
  (void)machine.step(event_of("interrupt text=abort", 1));
  CHECK(machine.phase() == SlotPhase::kOld);
  (void)machine.step(event_of("start", 2));
  CHECK(machine.step(event_of("recorded", 1)).empty());
  CHECK(machine.step(event_of("owner-synced", 2)).empty());
  CHECK(machine.step(event_of("start", 3)).empty());
  CHECK(!machine.step(event_of("recorded", 2)).empty());
}

}  // namespace
}  // namespace sf
