#include "common/slots/move_plan.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace sf {
namespace {

using Json = nlohmann::ordered_json;

// A plan with every key (docs/CONFIG.md).
Json sample() {
  return Json::parse(
      R"({ "plan": "g3-g4-901-1023", "dashboard": "127.0.0.1:18080", "product": "codis-demo",
    "product_auth": "", "slots": "901-1023", "source_group": 3, "target_group": 4, "shim_group": 9, "stay": "801-900",
    "old": {"master": "127.0.0.1:7001", "servers": ["127.0.0.1:7001","127.0.0.1:7002"], "password": "", "kind": "node"},
    "new": {"master": "127.0.0.1:7003", "servers": ["127.0.0.1:7003","127.0.0.1:7004"], "password": "pw", "kind": "node"},
    "shim": {"address": "127.0.0.1:7100", "admin": "127.0.0.1:7101", "admin_password": ""},
    "unit": "slot", "max_pause_ms": 500, "hold_share_percent": 5, "handback": "assign", "soak_seconds": 5,
    "ask": ["cutover"], "verify": true, "cleanup": false })");
}

// The error of the sample with one change; "" if it is taken.
std::string error_of(const std::function<void(Json&)>& change) {
  Json json = sample();
  change(json);
  const auto plan = MovePlan::parse(json.dump());
  return plan ? "" : plan.status().text();
}

}  // namespace

TEST_CASE("plan: the documented example is read, and written as it was") {
  const auto plan = MovePlan::parse(sample().dump());
  REQUIRE(plan.is_ok());
  CHECK(plan->id == "g3-g4-901-1023");
  CHECK(plan->slots == SlotSet::range(901, 1023));
  CHECK(plan->stay == SlotSet::range(801, 900));
  CHECK(plan->new_side.servers.size() == 2);
  CHECK(plan->new_side.password == "pw");
  CHECK(plan->shim.admin.port == 7101);
  CHECK(plan->ask == std::vector<std::string>{"cutover"});
  CHECK(plan->attached_slots() == plan->slots);
  CHECK(Json::parse(plan->to_json()) == sample());
}

TEST_CASE("plan: kind redis attaches the whole group and hands back by slot-action") {
  Json json = sample();
  json["old"]["kind"] = json["new"]["kind"] = "redis";
  json.erase("unit");
  json.erase("handback");
  const auto plan = MovePlan::parse(json.dump());
  REQUIRE(plan.is_ok());
  CHECK(plan->unit == CutUnit::kPlan);
  CHECK(plan->handback == HandbackWay::kSlotAction);
  CHECK(plan->attached_slots() == SlotSet::range(801, 1023));
}

TEST_CASE("plan: reads and guard are kept, and wrong words for them refused") {
  auto plan = MovePlan::parse(sample().dump());
  REQUIRE(plan.is_ok());
  CHECK(plan->to_json().find("reads") == std::string::npos);
  plan->reads = "compare";
  plan->compare_percent = 20;
  plan->guard = "pika-3.5";
  const auto again = MovePlan::parse(plan->to_json());
  REQUIRE(again.is_ok());
  CHECK(again->reads == "compare");
  CHECK(again->compare_percent == 20);
  CHECK(again->guard == "pika-3.5");
  CHECK(error_of([](Json& j) { j["reads"] = "both"; }).find("reads") != std::string::npos);
  CHECK(error_of([](Json& j) { j["compare_percent"] = 101; }).find("compare_percent") !=
        std::string::npos);
  CHECK(error_of([](Json& j) { j["guard"] = "on"; }).find("guard") != std::string::npos);
}

TEST_CASE("plan: M24 bad input is refused with the key's name") {
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(error_of([](Json& j) { j["slots"] = "901-1024"; }),
            "slots: slots '901-1024': 1024 is outside 0-1023"));
  CHECK(has(error_of([](Json& j) { j["slots"] = "1023-901"; }), "reversed"));
  CHECK(has(error_of([](Json& j) { j["slots"] = "a-b"; }), "not a slot number"));
  CHECK(has(error_of([](Json& j) { j["slots"] = "901,901"; }), "twice"));
  CHECK(has(error_of([](Json& j) { j["slots"] = ""; }), "no slots given"));
  CHECK(has(error_of([](Json& j) { j["stay"] = "900-901"; }), "stay: names a slot that moves"));
  CHECK(has(error_of([](Json& j) { j["dashboard"] = "127.0.0.1"; }),
            "dashboard: '127.0.0.1' is no host:port"));
  CHECK(has(error_of([](Json& j) { j["dashboard"] = "h:70000"; }), "no host:port"));
  CHECK(has(error_of([](Json& j) { j["source_group"] = 4; }), "same group"));
  CHECK(has(error_of([](Json& j) { j["shim_group"] = 10000; }), "shim_group: must be 1 to 9999"));
  CHECK(has(error_of([](Json& j) { j["source_group"] = -3; }), "whole number"));
  CHECK(has(error_of([](Json& j) { j["source_group"] = 1e40; }), "whole number"));
  CHECK(has(error_of([](Json& j) { j["source_group"] = "3"; }), "whole number"));
  CHECK(has(error_of([](Json& j) { j["plan"] = "a b"; }), "plan key plan: must be 1 to 64"));
  CHECK(has(error_of([](Json& j) { j["plan"] = std::string(65, 'x'); }), "1 to 64"));
  CHECK(has(error_of([](Json& j) { j.erase("old"); }), "old: is missing"));
  CHECK(has(error_of([](Json& j) { j["old"].erase("kind"); }), "old.kind: is missing"));
  CHECK(has(error_of([](Json& j) { j["old"]["kind"] = "ssdb"; }), "'ssdb' is no kind"));
  CHECK(
      has(error_of([](Json& j) { j["new"]["kind"] = "redis"; }), "both sides must be of one kind"));
  CHECK(has(error_of([](Json& j) { j["old"]["servers"] = {"127.0.0.1:7009"}; }),
            "does not name the master"));
  CHECK(has(error_of([](Json& j) { j["old"]["servers"] = Json::array(); }), "old.servers"));
  CHECK(has(error_of([](Json& j) {
              j["new"]["master"] = "127.0.0.1:7001";
              j["new"]["servers"] = {"127.0.0.1:7001"};
            }),
            "server of the old side too"));
  CHECK(has(error_of([](Json& j) { j["shim"]["address"] = "127.0.0.1:7001"; }), "its own port"));
  CHECK(has(error_of([](Json& j) { j["shim"]["admin"] = "127.0.0.1:7100"; }), "shim.admin"));
  CHECK(has(error_of([](Json& j) { j["unit"] = "plan"; }), "unit: must be slot"));
  CHECK(has(error_of([](Json& j) { j["handback"] = "never"; }), "handback"));
  CHECK(has(error_of([](Json& j) { j["max_pause_ms"] = 0; }), "max_pause_ms: must be 1 to 60000"));
  CHECK(has(error_of([](Json& j) { j["hold_share_percent"] = 101; }), "hold_share_percent"));
  CHECK(has(error_of([](Json& j) { j["units_in_flight"] = 9; }), "units_in_flight"));
  CHECK(has(error_of([](Json& j) { j["ask"] = {"lunch"}; }), "'lunch' is no phase"));
  CHECK(has(error_of([](Json& j) { j["verify"] = "yes"; }), "verify: must be true or false"));
  CHECK(has(error_of([](Json& j) { j["sooak_seconds"] = 1; }), "sooak_seconds: is not a key"));
  CHECK(has(MovePlan::parse("{").status().text(), "not valid JSON"));
  CHECK(has(MovePlan::parse("[]").status().text(), "must be a JSON object"));
  CHECK(has(MovePlan::parse("").status().text(), "not valid JSON"));
  CHECK(has(MovePlan::load("/nonexistent/plan.json").status().text(),
            "/nonexistent/plan.json: cannot be read"));
}

}  // namespace sf
