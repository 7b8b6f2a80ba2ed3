#include "migrator/command_line.h"

#include <doctest/doctest.h>

namespace sf {
namespace {

std::string error_of(std::vector<std::string> words) {
  const auto line = parse_command_line(words);
  return line ? "" : line.status().text();
}

std::vector<std::string> plan_words(const std::string& flag = "", const std::string& value = "") {
  std::vector<std::string> words = {"plan",           "--dashboard",    "127.0.0.1:18080",
                                    "--product",      "codis-demo",     "--slots",
                                    "901-1023",       "--to",           "4",
                                    "--shim",         "127.0.0.1:7100", "--shim-admin",
                                    "127.0.0.1:7101", "--out",          "plan.json"};
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == flag) {
      words[i + 1] = value;
      return words;
    }
  }
  if (!flag.empty()) words.insert(words.end(), {flag, value});
  return words;
}

}  // namespace

TEST_CASE("command line: a plan request") {
  const auto line = parse_command_line(plan_words("--ask", "cutover,handback"));
  REQUIRE(line.is_ok());
  CHECK(line->command == Command::kPlan);
  CHECK(line->request.slots == SlotSet::range(901, 1023));
  CHECK(line->request.target_group == 4);
  CHECK(line->request.shim_group == 9);
  CHECK(line->request.ask == std::vector<std::string>{"cutover", "handback"});
  CHECK(line->out_path == "plan.json");
}

TEST_CASE("command line: a run, and where its state is kept") {
  const auto line = parse_command_line({"run", "p.json", "--yes", "--json", "--until", "attach"});
  REQUIRE(line.is_ok());
  CHECK(line->command == Command::kRun);
  CHECK(line->state_dir == "p.json.state");
  CHECK(line->yes);
  CHECK(line->json);
  CHECK(line->until == Phase::kAttach);
  const auto cut = parse_command_line({"cutover", "p.json", "901-910", "--dir", "/x"});
  REQUIRE(cut.is_ok());
  CHECK(cut->slots == SlotSet::range(901, 910));
  CHECK(cut->state_dir == "/x");
}

TEST_CASE("command line: M24 wrong input is one sentence naming the word") {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(error_of({}), "no command given"));
  CHECK(has(error_of({"fly"}), "'fly' is no command"));
  CHECK(has(error_of({"run"}), "the plan file is missing"));
  CHECK(has(error_of({"run", "a", "b"}), "'b' is one word too many"));
  CHECK(has(error_of({"run", "a", "--fast"}), "--fast"));
  CHECK(has(error_of({"run", "a", "--until", "lunch"}), "--until: 'lunch' is no phase"));
  CHECK(has(error_of({"cutover", "a", "5-3"}), "reversed"));
  CHECK(has(error_of({"preflight", "a", "--yes"}), "--yes"));
  CHECK(has(error_of({"plan"}), "--dashboard is missing"));
  CHECK(has(error_of(plan_words("--slots", "0-1024")), "1024 is outside 0-1023"));
  CHECK(has(error_of(plan_words("--slots", "5-3")), "reversed"));
  CHECK(has(error_of(plan_words("--slots", "a-b")), "not a slot number"));
  CHECK(has(error_of(plan_words("--slots", "5,5")), "twice"));
  CHECK(has(error_of(plan_words("--to", "0")), "--to '0' must be a number from 1 to 9999"));
  CHECK(has(error_of(plan_words("--to", "four")), "--to 'four'"));
  CHECK(has(error_of(plan_words("--shim", "nowhere")), "--shim 'nowhere' is no host:port"));
  CHECK(has(error_of(plan_words("--dashboard", "h:0")), "--dashboard 'h:0'"));
  CHECK(has(error_of(plan_words("--ask", "lunch")), "--ask: 'lunch' is no phase"));
  CHECK(has(error_of(plan_words("--soak", "-1")), "--soak '-1'"));
  CHECK(has(error_of(plan_words("--sho", "1")), "--sho"));
}

}  // namespace sf
