// Scripts in tests/golden/runbook: what a run does, event by event. Written again with
// SF_WRITE_GOLDEN=1.
#include "migrator/runbook.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace sf {
namespace {

MovePlan plan_of(ServerKind kind) {
  MovePlan plan;
  plan.id = "g3-g4";
  plan.dashboard = {"h", 1};
  plan.product = "p";
  plan.slots = SlotSet::range(901, 1023);
  plan.stay = SlotSet::range(801, 900);
  plan.source_group = 3;
  plan.target_group = 4;
  plan.shim_group = 9;
  plan.old_side = {{"o", 1}, {{"o", 1}}, "", kind};
  plan.new_side = {{"n", 1}, {{"n", 1}}, "", kind};
  plan.shim = {{"s", 1}, {"s", 2}, ""};
  if (kind == ServerKind::kRedis) {
    plan.unit = CutUnit::kPlan;
    plan.handback = HandbackWay::kSlotAction;
  }
  return plan;
}

std::string show(const Runbook::Action& action) {
  using Kind = Runbook::Action::Kind;
  switch (action.kind) {
    case Kind::kRun:
      return cat("  -> run ", step_text(action.step));
    case Kind::kWait:
      return cat("  -> wait: ", action.text);
    case Kind::kAsk:
      return cat("  -> ask: ", action.text);
    case Kind::kHalt:
      return cat("  -> halt", action.failed ? " failed: " : ": ", action.text);
    case Kind::kFinish:
      break;
  }
  return "  -> finish";
}

// One script: settings lines "key value", an empty line, then events with an optional text behind.
std::string play(const std::string& script) {
  std::istringstream in(script);
  std::string out;
  std::string line;
  MovePlan plan = plan_of(ServerKind::kNode);
  RunbookOptions options;
  std::set<std::string> done;
  while (std::getline(in, line) && !line.empty()) {
    out += line + "\n";
    if (line.starts_with("#")) continue;
    const size_t blank = line.find(' ');
    const std::string key = line.substr(0, blank);
    const std::string value = blank == std::string::npos ? "" : line.substr(blank + 1);
    if (key == "kind") plan = plan_of(*parse_kind(value));
    if (key == "cleanup") plan.cleanup = value == "yes";
    if (key == "verify") plan.verify = value == "yes";
    if (key == "ask") options.ask.insert(*parse_phase(value));
    if (key == "yes") options.yes = true;
    if (key == "tries") options.tries = static_cast<int>(*parse_int64(value));
    if (key == "only") options.only.push_back(*parse_phase(value));
    if (key == "until") {
      options.has_until = true;
      options.until = *parse_phase(value);
    }
    if (key == "done") done.insert(value);
  }
  out += "\n";
  Runbook runbook(plan, options, done);
  using Kind = Runbook::Event::Kind;
  const std::map<std::string, Kind> kinds = {{"start", Kind::kStart}, {"done", Kind::kDone},
                                             {"retry", Kind::kRetry}, {"failed", Kind::kFailed},
                                             {"yes", Kind::kYes},     {"no", Kind::kNo},
                                             {"stop", Kind::kStop}};
  while (std::getline(in, line)) {
    if (line.starts_with("  ->") || line.empty()) continue;
    const size_t blank = line.find(' ');
    const auto kind = kinds.find(line.substr(0, blank));
    REQUIRE_MESSAGE(kind != kinds.end(), line);
    out += line + "\n";
    const std::string text = blank == std::string::npos ? "" : line.substr(blank + 1);
    out += show(runbook.step({kind->second, text})) + "\n";
  }
  return out;
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("runbook: golden scripts (M19 M25 M29)") {
  int scripts = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(SF_SOURCE_DIR "/tests/golden/runbook")) {
    if (entry.path().extension() != ".txt") continue;
    const std::string expected = read_text(entry.path());
    const std::string actual = play(expected);
    if (std::getenv("SF_WRITE_GOLDEN") != nullptr) std::ofstream(entry.path()) << actual;
    INFO(entry.path().filename().string());
    CHECK(actual == read_text(entry.path()));
    ++scripts;
  }
  CHECK(scripts >= 8);
}

TEST_CASE("runbook: every phase but cleanup is in every plan, verify before the cut for redis") {
  const auto node = Runbook::steps_of(plan_of(ServerKind::kNode));
  const auto redis = Runbook::steps_of(plan_of(ServerKind::kRedis));
  const auto at = [](const std::vector<Step>& steps, Step step) {
    return std::find(steps.begin(), steps.end(), step) - steps.begin();
  };
  CHECK(at(node, Step::kCutOver) < at(node, Step::kVerify));
  CHECK(at(node, Step::kVerify) < at(node, Step::kFinal));
  CHECK(at(redis, Step::kVerify) < at(redis, Step::kCutOver));
  CHECK(at(node, Step::kDeleteCopies) == static_cast<long>(node.size()));
  CHECK(node.back() == Step::kRemoveShim);
}

TEST_CASE("runbook: I11 cleanup asks unless the operator gave the word") {
  MovePlan plan = plan_of(ServerKind::kNode);
  plan.cleanup = true;
  RunbookOptions options;
  options.ask = {Phase::kCleanup};
  std::set<std::string> done;
  for (const Step step : Runbook::steps_of(plan)) {
    if (phase_of(step) < Phase::kCleanup) done.insert(std::string(step_text(step)));
  }
  Runbook asks(plan, options, done);
  CHECK(asks.step({}).kind == Runbook::Action::Kind::kAsk);
  CHECK(asks.step({Runbook::Event::Kind::kNo, {}}).kind == Runbook::Action::Kind::kHalt);
  options.yes = true;
  Runbook told(plan, options, done);
  CHECK(told.step({}).kind == Runbook::Action::Kind::kRun);
}

}  // namespace sf
