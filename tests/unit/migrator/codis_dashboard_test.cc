// Against answers recorded from the real programs (tests/golden/codis/http).
#include "migrator/codis_dashboard.h"

#include <doctest/doctest.h>
#include <httplib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "migrator/proxy_readback.h"

namespace sf {
namespace {

using Json = nlohmann::json;

Json sample(const std::string& number) {
  for (const auto& entry :
       std::filesystem::directory_iterator(SF_SOURCE_DIR "/tests/golden/codis/http")) {
    if (!entry.path().filename().string().starts_with(number)) continue;
    std::ifstream file(entry.path());
    return Json::parse(file);
  }
  FAIL("no sample " << number);
  return {};
}

// The samples leave out the middle of long lists; here it is filled with copies of the first entry.
Json unfold(const Json& rows) {
  Json all = Json::array();
  for (int id = 0; id < 1024; ++id) {
    Json row = id == 1023 ? rows.back() : rows.front();
    row["id"] = id;
    all.push_back(row);
  }
  return all;
}

Json stats_body() {
  Json body = sample("009")["response_body"];
  body["slots"] = unfold(body["slots"]);
  return body;
}

// Answers from a table of path to (status, body).
class FakeHttp {
 public:
  FakeHttp() {
    const auto answer = [this](const httplib::Request& request, httplib::Response& response) {
      requests.push_back(request.method + " " + request.path +
                         (request.body.empty() ? "" : " " + request.body));
      const auto found = table.find(request.path);
      response.status = found == table.end() ? 404 : found->second.first;
      response.set_content(found == table.end() ? "404 page not found" : found->second.second,
                           "application/json");
    };
    server_.Get(".*", answer);
    server_.Put(".*", answer);
    port = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();  // stop() before that is lost
  }
  ~FakeHttp() {
    server_.stop();
    thread_.join();
  }
  HostPort address() const { return {"127.0.0.1", port}; }

  std::map<std::string, std::pair<int, std::string>> table;
  std::vector<std::string> requests;
  int port = 0;

 private:
  httplib::Server server_;
  std::thread thread_;
};

constexpr const char* kXauth = "95b62887719520f17e312eaa76d28f2b";  // of codis-demo, recorded

}  // namespace

TEST_CASE("dashboard: the recorded xauth of product codis-demo") {
  CHECK(CodisDashboard::dashboard_xauth("codis-demo") == kXauth);
  CHECK(CodisDashboard::proxy_xauth("codis-demo", "", "t").size() == 32);
}

TEST_CASE("dashboard: recorded stats are read") {
  const auto topology = parse_topology(stats_body().dump());
  REQUIRE_MESSAGE(topology.is_ok(), topology.status().text());
  CHECK(topology->slots_of(1).size() == 1023);
  CHECK(topology->slots_of(2) == SlotSet::of(1023));
  CHECK(topology->group(1)->servers ==
        std::vector<std::string>{"127.0.0.1:7101", "127.0.0.1:7111"});
  CHECK_FALSE(topology->group(1)->promoting);
  CHECK(topology->group(3) == nullptr);
  CHECK(topology->group_with("127.0.0.1:7102")->id == 2);
  REQUIRE(topology->proxies.size() == 2);
  CHECK(topology->proxies[0].online);
  CHECK(topology->proxies[1].admin_addr == "127.0.0.1:18102");
  CHECK_FALSE(topology->actions_disabled);
}

TEST_CASE("dashboard: pending actions are seen") {
  Json body = stats_body();
  body["slots"][7]["action"] = Json::parse(R"({"index": 4, "state": "pending", "target_id": 2})");
  body["slot_action"]["disabled"] = true;
  const auto topology = parse_topology(body.dump());
  REQUIRE(topology.is_ok());
  CHECK(topology->slots[7].action_state == "pending");
  CHECK(topology->slots[7].action_target == 2);
  CHECK(topology->actions_disabled);
}

TEST_CASE("dashboard: something else than a dashboard is told apart") {
  for (const char* body : {"", "{}", "[]", "null", "<html>", R"({"slots": 5})"}) {
    CHECK(parse_topology(body).status().code() == Code::kCorrupt);
    CHECK(parse_proxy_slots(body).status().code() == Code::kCorrupt);
  }
  CHECK(parse_proxy_slots(R"([{"id": 5000}])").status().code() == Code::kCorrupt);
}

TEST_CASE("dashboard: answers of every kind become the right error") {
  FakeHttp http;
  CodisDashboard dashboard(http.address(), "codis-demo", "");
  const std::string path = cat("/api/topom/xping/", kXauth);
  http.table[path] = {200, "\"OK\""};
  CHECK(dashboard.ping().is_ok());
  http.table[path] = {800, sample("008")["response_body"].dump()};
  CHECK(dashboard.ping().code() == Code::kInvalid);
  CHECK(dashboard.ping().text().find("product name") != std::string::npos);
  http.table.clear();
  CHECK(dashboard.ping().code() == Code::kCorrupt);
  http.table[cat("/api/topom/group/create/", kXauth, "/3")] = {
      800, sample("017")["response_body"].dump()};
  const Status exists = dashboard.create_group(3);
  CHECK(exists.code() == Code::kRefused);
  CHECK(exists.text().find("group-[3] already exists") != std::string::npos);
}

TEST_CASE("dashboard: unreachable is told with the address") {
  int port = 0;
  {
    FakeHttp gone;
    port = gone.port;
  }
  CodisDashboard dashboard({"127.0.0.1", port}, "codis-demo", "");
  const Status status = dashboard.ping();
  CHECK(status.code() == Code::kUnavailable);
  CHECK(status.text().find(cat("the dashboard 127.0.0.1:", port, " cannot be reached")) == 0);
}

TEST_CASE("dashboard: assign sends the recorded body") {
  FakeHttp http;
  CodisDashboard dashboard(http.address(), "codis-demo", "");
  http.table[cat("/api/topom/slots/assign/", kXauth)] = {200, "\"OK\""};
  SlotSet slots = SlotSet::of(10);
  slots.add(11);
  CHECK(dashboard.assign(slots, 1).is_ok());
  const std::string& request = http.requests.back();
  const Json body = Json::parse(request.substr(request.find('[')));
  Json recorded = sample("061")["request_body"];
  for (Json& row : recorded) row.erase("action");
  CHECK(body == recorded);
}

TEST_CASE("readback: T05 M12 a proxy that strays, migrates, locks or does not answer is found") {
  FakeHttp http;
  CodisDashboard dashboard(http.address(), "codis-demo", "");
  Json model = sample("081")["response_body"];
  model["token"] = "tok";
  const std::string path =
      cat("/api/proxy/slots/", CodisDashboard::proxy_xauth("codis-demo", "", "tok"));
  Json slots = unfold(sample("086")["response_body"]);
  http.table["/api/proxy/model"] = {200, model.dump()};
  http.table[path] = {200, slots.dump()};
  CodisTopology topology;
  topology.slots.resize(1024);
  const auto expected = expect_slots(SlotSet::range(5, 9), "127.0.0.1:7102");
  CHECK_FALSE(read_back_proxies(dashboard, topology, expected).is_ok());  // nobody registered
  topology.proxies.push_back({"tok", http.address().text(), "", true});
  const auto fine = read_back_proxies(dashboard, topology, expected);
  REQUIRE_MESSAGE(fine.is_ok(), fine.status().text());
  CHECK(fine->ok());
  CHECK(fine->proxies == 1);
  const std::pair<const char*, Json> faults[] = {
      {"backend_addr", "127.0.0.1:7999"}, {"migrate_from", "127.0.0.1:7101"}, {"locked", true}};
  for (const auto& [name, value] : faults) {
    Json wrong = slots;
    wrong[6][name] = value;
    http.table[path] = {200, wrong.dump()};
    const auto found = read_back_proxies(dashboard, topology, expected);
    REQUIRE(found.is_ok());
    CHECK(found->wrong == SlotSet::of(6));
    CHECK(found->text.find("maps slot 6") != std::string::npos);
  }
  model["token"] = "another";
  http.table["/api/proxy/model"] = {200, model.dump()};
  CHECK(read_back_proxies(dashboard, topology, expected).status().code() == Code::kUnavailable);
}

}  // namespace sf
