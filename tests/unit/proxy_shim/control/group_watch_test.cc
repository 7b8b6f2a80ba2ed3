#include "proxy_shim/control/group_watch.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/support/temp_dir.h"
#include "tests/unit/proxy_shim/control/fakes.h"

using namespace sf;

namespace {
std::string stats(const std::vector<std::pair<int, std::vector<std::string>>>& groups) {
  nlohmann::json models = nlohmann::json::array();
  for (const auto& [id, servers] : groups) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& server : servers) rows.push_back({{"server", server}});
    models.push_back({{"id", id}, {"servers", rows}});
  }
  return nlohmann::json{{"group", {{"models", models}}}}.dump();
}
}  // namespace

TEST_CASE("group watch: the first server of a group, and what cannot be told is not guessed") {
  const std::string good = stats({{3, {"a:1", "b:2"}}, {4, {}}});
  CHECK(GroupWatch::first_server(good, 3) == "a:1");
  CHECK(GroupWatch::first_server(good, 4) == "");
  CHECK_FALSE(GroupWatch::first_server(good, 5).has_value());
  for (const char* bad : {"", "null", "[]", "{", "{\"group\":{}}", "{\"group\":{\"models\":7}}",
                          "{\"group\":{\"models\":[{\"id\":3}]}}",
                          "{\"group\":{\"models\":[{\"id\":\"3\",\"servers\":[]}]}}",
                          "{\"group\":{\"models\":[{\"id\":3,\"servers\":[{\"server\":1}]}]}}"}) {
    CAPTURE(std::string(bad));
    CHECK_FALSE(GroupWatch::first_server(bad, 3).has_value());
  }
}

TEST_CASE("I1 group watch: another first server stops that side's writes until it is ours again") {
  TempDir dir;
  const MovePlan plan = test_plan();
  SystemClock clock;
  auto store = StateStore::open(dir.path(), plan, true, &clock);
  REQUIRE(store.is_ok());
  SlotBoard board(plan);
  std::vector<std::string> told;
  GroupWatch watch(
      plan, &board, store->get(), [&](const std::string& why) { told.push_back(why); }, Log());
  const std::string ours_old = plan.old_side.master.text();
  const std::string ours_new = plan.new_side.master.text();
  const auto say = [&](const std::string& old_first, const std::string& new_first) {
    watch.judge(stats({{plan.source_group, {old_first}}, {plan.target_group, {new_first}}}));
  };
  say(ours_old, ours_new);
  CHECK_FALSE(board.writes_stopped(PairSide::kOld));
  say("10.9.9.9:1", ours_new);
  CHECK(board.writes_stopped(PairSide::kOld));
  CHECK_FALSE(board.writes_stopped(PairSide::kNew));
  say("10.9.9.9:1", ours_new);
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("10.9.9.9:1") != std::string::npos);
  CHECK(told[0].find("SHIM RELOAD") != std::string::npos);
  watch.judge("nonsense");
  watch.judge(stats({{plan.source_group, {}}}));
  CHECK(board.writes_stopped(PairSide::kOld));
  say("10.9.9.8:1", ours_new);
  CHECK(told.size() == 2);
  say(ours_old, "10.9.9.9:2");
  CHECK_FALSE(board.writes_stopped(PairSide::kOld));
  CHECK(board.writes_stopped(PairSide::kNew));
}
