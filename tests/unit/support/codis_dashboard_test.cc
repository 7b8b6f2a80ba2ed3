// The stand-in dashboard against contracts/codis 2, 4 and 5; tNN are the recorded transcripts.
#include <algorithm>
#include <fstream>
#include <future>

#include "common/resp/encoder.h"
#include "tests/support/codis/auth.h"
#include "tests/support/codis/dashboard.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/support/codis_rig.h"

using namespace sf;
using namespace sf::codis;
using Lines = std::vector<std::string>;

namespace {

constexpr int kFooSlot = 289;

class DashboardRig {
 public:
  explicit DashboardRig(DashboardOptions options = {}, int poll_ms = 20) {
    options.poll_ms = poll_ms;
    options.error_pause_ms = 100;
    dashboard = std::make_unique<Dashboard>(options, [] {});
    REQUIRE(dashboard->start().is_ok());
  }
  HttpAnswer get(const std::string& path) {
    return http("GET", dashboard->address(), "/api/topom/" + path + "/" + dashboard->xauth());
  }
  // `path` with X for the xauth.
  HttpAnswer put(std::string path, const std::string& body = "") {
    const size_t at = path.find("/X");
    REQUIRE(at != std::string::npos);
    path.replace(at, 2, "/" + dashboard->xauth());
    return http("PUT", dashboard->address(), "/api/topom/" + path, body);
  }
  void group(int id, const std::string& address) {
    REQUIRE(put(cat("group/create/X/", id)).status == 200);
    REQUIRE(put(cat("group/add/X/", id, "/", address)).status == 200);
  }
  HttpAnswer assign(int first, int last, int group_id) {
    Json body = Json::array();
    for (int i = first; i <= last; ++i) body.push_back({{"id", i}, {"group_id", group_id}});
    return put("slots/assign/X", body.dump());
  }
  Json slot(int id) { return get("stats").body["slots"][static_cast<size_t>(id)]; }
  std::string progress() { return get("stats").body["slot_action"]["progress"]["status"]; }
  bool settled(int id, int group_id) {
    return eventually([&] {
      const Json now = slot(id);
      return now["group_id"] == group_id && now["action"].empty();
    });
  }
  std::unique_ptr<Dashboard> dashboard;
};

// A dashboard, two proxies, groups 1 (a) and 2 (b), all slots in group 1.
struct Cluster {
  explicit Cluster(DashboardOptions options = {}) : rig(options) {
    rig.group(1, a.address());
    rig.group(2, b.address());
    REQUIRE(rig.put(cat("proxy/create/X/", p1.proxy.admin_address())).status == 200);
    REQUIRE(rig.put(cat("proxy/create/X/", p2.proxy.admin_address())).status == 200);
    REQUIRE(rig.assign(0, kSlots - 1, 1).status == 200);
  }
  FakeServer a;
  FakeServer b;
  ProxyRig p1;
  ProxyRig p2;
  DashboardRig rig;
};

// A proxy's admin API that writes the fills down and refuses some.
class FakeProxy {
 public:
  FakeProxy() {
    prepare_server(server_);
    server_.Get("/api/proxy/model", [](const auto&, auto& r) {
      reply_json(r, {{"token", "f00"}, {"admin_addr", ""}, {"proxy_addr", "127.0.0.1:1"}});
    });
    const auto ok = [](const httplib::Request&, httplib::Response& r) { reply_ok(r); };
    server_.Get(R"(/api/proxy/xping/([^/]+))", ok);
    server_.Get(R"(/api/proxy/stats/([^/]+))", [](const auto&, auto& r) {
      reply_json(r, {{"online", true}});
    });
    server_.Put(R"(/api/proxy/(start|sentinels)/([^/]+))", ok);
    server_.Put(R"(/api/proxy/fillslots/([^/]+))", [this](const auto& q, auto& r) {
      const auto slots = fills_from_text(q.body);
      const std::lock_guard lock(mutex_);
      if (slots.size() < kSlots) fills_.insert(fills_.end(), slots.begin(), slots.end());
      const bool bad = !slots.empty() && refuse && refuse(slots[0]);
      reply(r, bad ? Status::refused("no") : Status::ok());
    });
    port_ = *bind_http(server_, "127.0.0.1", 0);
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~FakeProxy() {
    server_.stop();
    thread_.join();
  }
  std::string address() const { return cat("127.0.0.1:", port_); }
  void refuse_if(std::function<bool(const SlotFill&)> when) {
    const std::lock_guard lock(mutex_);
    refuse = std::move(when);
  }
  // "7 locked A->B" for each slot filled: id, lock, migrate_from, backend.
  Lines fills(const std::string& a, const std::string& b) {
    const auto name = [&](const std::string& address) {
      return address == a ? "A" : (address == b ? "B" : "-");
    };
    const std::lock_guard lock(mutex_);
    Lines out;
    for (const SlotFill& one : fills_) {
      out.push_back(cat(one.id, one.locked ? " locked " : " ", name(one.migrate_from), "->",
                        name(one.backend_addr)));
    }
    return out;
  }

 private:
  httplib::Server server_;
  std::thread thread_;
  int port_ = 0;
  std::mutex mutex_;
  std::function<bool(const SlotFill&)> refuse;
  std::vector<SlotFill> fills_;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

// Every field of the sample is there, with the same type. Placeholders and maps keyed by address,
// token or INFO field are not walked into.
void check_shape(const Json& sample, const Json& got, const std::string& where) {
  CAPTURE(where);
  if (sample.is_object()) {
    REQUIRE(got.is_object());
    for (const auto& [key, value] : sample.items()) {
      if (key == "stats" || key == "config" || key == "cmd" || key == "runtime" ||
          key == "compile") {
        CHECK((got.contains(key) || key == "compile"));
        if (key != "stats" || !value.contains("online")) continue;
      }
      CAPTURE(key);
      REQUIRE(got.contains(key));
      check_shape(value, got[key], cat(where, ".", key));
    }
  } else if (sample.is_array()) {
    REQUIRE(got.is_array());
    if (!sample.empty() && sample[0].is_object()) {
      REQUIRE(!got.empty());
      if (where.find("slots") == std::string::npos) check_shape(sample[0], got[0], where);
    }
  } else {
    CHECK(std::string(sample.type_name()) == std::string(got.type_name()));
  }
}

}  // namespace

TEST_CASE("codis 4.1: the recorded xauth") {
  CHECK(dashboard_xauth("codis-demo") == "95b62887719520f17e312eaa76d28f2b");
  CHECK(make_token("p", "a:1", "a:2") == make_token("p", "a:1", "a:2"));
  CHECK(make_token("p", "a:1", "a:2").size() == 32);
}

TEST_CASE("codis 4: the recorded HTTP session, played against the stand-in") {
  FakeServer a;
  FakeServer a2;
  FakeServer b;
  ProxyOptions proxy_options;
  proxy_options.databases = 2;
  ProxyRig p1(proxy_options);
  ProxyRig p2(proxy_options);
  // Slow enough that a sync action is still pending when it is asked for again, as recorded.
  DashboardRig rig({}, 2000);
  rig.group(1, a.address());
  REQUIRE(rig.put(cat("group/add/X/1/", a2.address())).status == 200);
  rig.group(2, b.address());
  for (ProxyRig* p : {&p1, &p2}) {
    REQUIRE(rig.put(cat("proxy/create/X/", p->proxy.admin_address())).status == 200);
  }
  REQUIRE(rig.assign(0, 511, 1).status == 200);
  REQUIRE(rig.assign(512, 1023, 2).status == 200);
  const std::vector<std::pair<std::string, std::string>> names = {
      {"<XAUTH>", rig.dashboard->xauth()}, {"<WRONG-XAUTH>", "00"},
      {"<PROXY-XAUTH>", p1.proxy.xauth()}, {"<PROXY2-XAUTH>", p2.proxy.xauth()},
      {"<PROXY-TOKEN>", p1.proxy.token()}, {"<PROXY2-TOKEN>", p2.proxy.token()},
      {"127.0.0.1:7101", a.address()},     {"127.0.0.1:7111", a2.address()},
      {"127.0.0.1:7102", b.address()},     {"127.0.0.1:18101", p1.proxy.admin_address()},
      {"127.0.0.1:7998", "127.0.0.1:1"},
  };
  std::ifstream in(std::string(SF_SOURCE_DIR) + "/tests/golden/codis/http.json");
  REQUIRE(in.good());
  int played = 0;
  for (const Json& raw : Json::parse(in)) {
    std::string text = raw.dump();
    for (const auto& [from, to] : names) replace_all(text, from, to);
    const Json sample = Json::parse(text);
    const std::string name = sample["name"];
    CAPTURE(name);
    // The shutdown calls end a process, which is one for all here; 097-099 depend on them.
    if (name >= "096" || name.find("rebalance") != std::string::npos) continue;
    if (name.starts_with("060")) {
      REQUIRE(eventually([&] {
        const Json slots = rig.get("stats").body["slots"];
        return std::all_of(slots.begin(), slots.end(),
                           [](const Json& slot) { return slot["action"].empty(); });
      }));
    }
    const bool to_proxy = name.find("-proxy-") < name.find("dashboard");
    const std::string address = to_proxy ? p1.proxy.admin_address() : rig.dashboard->address();
    const Json& body = sample["request_body"];
    const HttpAnswer got =
        http(sample["method"], address, sample["path"],
             body.is_null() ? "" : (body.is_string() ? body.get<std::string>() : body.dump()));
    ++played;
    CHECK(got.status == sample["status"].get<int>());
    const Json& want = sample["response_body"];
    if (got.status == 800) {
      CHECK(got.body["Cause"] == want["Cause"]);
      CHECK(got.body["Stack"].is_null() == want["Stack"].is_null());
    } else if (got.status == 404) {
      CHECK(got.text == want.get<std::string>());
    } else if (got.status == 200) {
      // 031 is a server's own INFO.
      if (!name.starts_with("031")) check_shape(want, got.body, name);
      if (want.is_string()) CHECK(got.body == want);
    }
  }
  CHECK(played > 80);
}

TEST_CASE("dashboard t01, section 2: each server is asked INFO and CONFIG GET maxmemory") {
  FakeServer a;
  FakeServer bad;
  bad.rule({.command = "CONFIG", .reply = "*1\r\n$1\r\nx\r\n"});
  DashboardRig rig;
  rig.group(1, a.address());
  rig.group(2, bad.address());
  REQUIRE(a.wait([](const FakeServer& s) { return s.lines("CONFIG").size() >= 3; }));
  CHECK(a.lines("CONFIG")[0] == "CONFIG GET maxmemory");
  CHECK(a.lines("INFO")[0] == "INFO");
  CHECK(a.connections() <= 3);  // the probe's, and one kept
  const auto stats = [&] { return rig.get("stats").body["group"]["stats"]; };
  REQUIRE(eventually([&] { return stats().contains(bad.address()); }));
  CHECK(stats()[a.address()]["stats"]["maxmemory"] == "0");
  CHECK(stats()[a.address()]["stats"]["role"] == "master");
  CHECK_FALSE(stats()[a.address()]["stats"].contains("master_addr"));
  CHECK(stats()[bad.address()].contains("error"));
  a.rule({.command = "INFO", .reply = "$13\r\nmaster_port:0\r\n"});
  CHECK(eventually([&] {  // trap 18
    return stats()[a.address()]["stats"].value("master_addr", "") == ":0";
  }));
}

TEST_CASE("dashboard t30: group add probes SLOTSINFO") {
  FakeServer a;
  DashboardRig rig;
  REQUIRE(rig.put("group/create/X/1").status == 200);
  for (const char* reply : {"$-1\r\n", "-ERR no\r\n", "*2\r\n:1\r\n:2\r\n", "+OK\r\n",
                            "*1\r\n*3\r\n:1\r\n:2\r\n:3\r\n"}) {
    CAPTURE(printable(reply));
    a.clear_rules();
    a.rule({.command = "SLOTSINFO", .reply = reply});
    CHECK(rig.put(cat("group/add/X/1/", a.address())).status == 800);
  }
  a.clear_rules();
  a.rule({.command = "SLOTSINFO",
          .reply = "*2\r\n*2\r\n:99999\r\n:1\r\n*2\r\n$1\r\n5\r\n$1\r\n7\r\n"});
  CHECK(rig.put(cat("group/add/X/1/", a.address())).status == 200);
}

TEST_CASE("dashboard t10: a slot action, two proxies") {
  Cluster c;
  c.a.set("foo", "v");
  c.a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .reply = "*2\r\n:2\r\n:3\r\n", .times = 1});
  c.a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .reply = "*2\r\n:1\r\n:0\r\n"});
  std::string keyspace;
  resp::bulk(keyspace, "# Keyspace\r\ndb3:keys=1\r\ndb1:keys=1\r\nx:1\r\n");
  c.a.rule({.command = "INFO", .arg1 = "keyspace", .reply = keyspace, .times = 1});
  CHECK(c.rig.put(cat("slots/action/create/X/", kFooSlot, "/2")).status == 200);
  REQUIRE(c.rig.settled(kFooSlot, 2));
  const std::string call =
      cat("SLOTSMGRTTAGSLOT-ASYNC 127.0.0.1 ", c.b.port(), " 5000 200 33554432 ", kFooSlot, " 500");
  CHECK(c.a.lines("SLOTSMGRTTAGSLOT-ASYNC") == Lines{call, call, call});
  const Lines selects = c.a.lines("SELECT");
  CHECK(std::count(selects.begin(), selects.end(), "SELECT 1") == 3);  // two proxies and this
  for (ProxyRig* p : {&c.p1, &c.p2}) {
    CHECK(TestClient(p->proxy.address()).ask(cat("SLOTSMAPPING ", kFooSlot)) ==
          cat("[+289 +", c.b.address(), " + nil]"));
  }
  CHECK(c.rig.progress().empty());
}

TEST_CASE("dashboard t11: the sync method") {
  DashboardOptions options;
  options.semi_async = false;
  Cluster c(options);
  CHECK(c.rig.put(cat("slots/action/create/X/", kFooSlot, "/2")).status == 200);
  REQUIRE(c.rig.settled(kFooSlot, 2));
  CHECK(c.a.lines("SLOTSMGRTTAGSLOT") ==
        Lines{cat("SLOTSMGRTTAGSLOT 127.0.0.1 ", c.b.port(), " 30000 ", kFooSlot)});
}

TEST_CASE("dashboard T01 t14: [x 0] ends a slot after one call, whatever is still there") {
  Cluster c;
  c.a.set("foo", "left behind");
  for (const char* reply : {"*2\r\n:0\r\n:0\r\n", "*2\r\n$1\r\n5\r\n$1\r\n0\r\n",
                            "*2\r\n:-1\r\n:0\r\n", "*2\r\n$-1\r\n$-1\r\n"}) {
    CAPTURE(printable(reply));
    c.a.clear_rules();
    c.a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .reply = reply});
    c.a.forget();
    REQUIRE(c.rig.put(cat("slots/action/create/X/", kFooSlot, "/2")).status == 200);
    REQUIRE(c.rig.settled(kFooSlot, 2));
    CHECK(c.a.lines("SLOTSMGRTTAGSLOT-ASYNC").size() == 1);
    CHECK(TestClient(c.p1.proxy.address()).ask("GET foo") == "nil");
    REQUIRE(c.rig.assign(kFooSlot, kFooSlot, 1).status == 200);
  }
}

TEST_CASE("dashboard t14: errors are shown and tried again; the slot stays migrating") {
  Cluster c;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"-ERR please open slotmigrate and reload slot\r\n",
       "ERR please open slotmigrate and reload slot"},
      {"*3\r\n:0\r\n:0\r\n:0\r\n", "invalid response = [0 0 0]"},
      {"+OK\r\n", "invalid response = OK"},
      {"*-1\r\n", "invalid response = <nil>"},
  };
  for (const auto& [reply, text] : cases) {
    CAPTURE(text);
    c.a.clear_rules();
    c.a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .reply = reply});
    c.a.forget();
    REQUIRE(c.rig.put("slots/action/create/X/7/2").status == 200);
    const std::string want = cat("[ERROR] Slot[0007]: ", text);
    CHECK(eventually([&] { return c.rig.progress() == want; }));
    CHECK(c.a.wait(
        [](const FakeServer& s) { return s.lines("SLOTSMGRTTAGSLOT-ASYNC").size() >= 2; }));
    CHECK(c.rig.slot(7)["action"]["state"] == "migrating");
    c.a.clear_rules();
    REQUIRE(c.rig.settled(7, 2));
    CHECK(c.rig.progress().empty());
    REQUIRE(c.rig.assign(7, 7, 1).status == 200);
  }
  SUBCASE("a negative rest is not the end; assign over it drops the migration (t19)") {
    c.a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .reply = "*2\r\n:0\r\n:-1\r\n", .delay_ms = 5});
    REQUIRE(c.rig.put("slots/action/create/X/7/2").status == 200);
    CHECK(eventually([&] { return c.rig.progress() == "[OK] Slot[0007]@DB[0]=-1"; }));
    REQUIRE(c.rig.assign(7, 7, 1).status == 200);
    CHECK(eventually([&] {
      return c.rig.progress() == "[ERROR] Slot[0007]: slot-[7] action state is invalid";
    }));
    CHECK(c.rig.slot(7)["group_id"] == 1);
  }
}

TEST_CASE("dashboard 5.1: one slot per group at a time; disabled starts nothing") {
  Cluster c;
  REQUIRE(c.rig.put("slots/action/disabled/X/1").status == 200);
  REQUIRE(c.rig.put("slots/action/create-range/X/10/14/2").status == 200);
  c.a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .delay_ms = 30});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(c.a.lines("SLOTSMGRTTAGSLOT-ASYNC").empty());
  REQUIRE(c.rig.put("slots/action/disabled/X/0").status == 200);
  CHECK(eventually([&] {
    int migrating = 0;
    int left = 0;
    const Json slots = c.rig.get("stats").body["slots"];
    for (const Json& slot : slots) {
      const std::string state = slot["action"].value("state", "");
      migrating += state == "migrating" ? 1 : 0;
      left += state.empty() ? 0 : 1;
    }
    CHECK(migrating <= 1);
    return left == 0;
  }));
  CHECK(c.a.lines("SLOTSMGRTTAGSLOT-ASYNC").size() == 5);
}

TEST_CASE("dashboard t16: slots-assign is not atomic across proxies") {
  Cluster c;
  c.a.rule({.command = "GET", .arg1 = "foo", .delay_ms = 600, .times = 1});
  auto slow = std::async(std::launch::async,
                         [&] { return TestClient(c.p2.proxy.address()).ask("GET foo"); });
  REQUIRE(c.a.wait([](const FakeServer& s) { return s.lines("GET").size() == 1; }));
  auto assigned =
      std::async(std::launch::async, [&] { return c.rig.assign(kFooSlot, kFooSlot, 2).status; });
  TestClient first(c.p1.proxy.address());
  CHECK(eventually([&] {
    return first.ask(cat("SLOTSMAPPING ", kFooSlot)).find(c.b.address()) != std::string::npos;
  }));
  CHECK(first.ask("SET foo 1") == "+OK");
  CHECK(c.b.get("foo") == "1");  // while the other proxy is not switched yet
  CHECK(assigned.wait_for(std::chrono::milliseconds(0)) == std::future_status::timeout);
  CHECK(assigned.get() == 200);
  CHECK(slow.get() == "nil");
  CHECK(c.rig.get("stats").body["group"]["models"][1]["out_of_sync"] == true);
  CHECK(c.rig.put("group/resync/X/2").status == 200);
  CHECK(c.rig.get("stats").body["group"]["models"][1]["out_of_sync"] == false);
}

TEST_CASE("dashboard 5.2: a proxy that refuses: 800, but model and the others are switched") {
  Cluster c;
  FakeProxy third;
  REQUIRE(c.rig.put(cat("proxy/create/X/", third.address())).status == 200);
  third.refuse_if([](const SlotFill&) { return true; });
  const HttpAnswer got = c.rig.assign(5, 5, 2);
  CHECK(got.status == 800);
  CHECK(got.body["Cause"] == "proxy-[f00] resync slots failed");
  CHECK(c.rig.slot(5)["group_id"] == 2);
  CHECK(TestClient(c.p1.proxy.address()).ask("SLOTSMAPPING 5") ==
        cat("[+5 +", c.b.address(), " + nil]"));
  CHECK(c.rig.put("proxy/remove/X/f00/0").body["Cause"] == "proxy-[f00] shutdown failed");
  CHECK(c.rig.put("proxy/remove/X/f00/1").status == 200);
  CHECK(c.rig.put("proxy/remove/X/f00/1").body["Cause"] == "proxy-[f00] doesn't exist");
}

TEST_CASE("dashboard 5.1 t23: what a proxy that refuses does to a slot action") {
  Cluster c;
  FakeProxy third;
  REQUIRE(c.rig.put(cat("proxy/create/X/", third.address())).status == 200);
  const auto seen = [&] { return third.fills(c.a.address(), c.b.address()); };
  SUBCASE("the lock: rolled back everywhere, tried again, the slot keeps working") {
    third.refuse_if([](const SlotFill& slot) { return slot.locked; });
    REQUIRE(c.rig.put("slots/action/create/X/289/2").status == 200);
    CHECK(eventually([&] { return seen().size() >= 4; }));
    const Lines fills = seen();
    CHECK(fills[0] == "289 locked A->B");
    CHECK(fills[1] == "289 -->A");
    CHECK(fills[2] == "289 locked A->B");
    CHECK(TestClient(c.p1.proxy.address()).ask("SET foo 1") == "+OK");
    CHECK(c.rig.progress().empty());
  }
  SUBCASE("the unlock: no way back; it stays locked there until it succeeds") {
    third.refuse_if([](const SlotFill& slot) { return !slot.locked; });
    REQUIRE(c.rig.put("slots/action/create/X/289/2").status == 200);
    CHECK(eventually([&] { return seen().size() >= 3; }));
    const Lines fills = seen();
    CHECK(fills[0] == "289 locked A->B");
    CHECK(fills[1] == "289 A->B");
    CHECK(fills[2] == "289 A->B");
    CHECK(c.rig.slot(289)["action"]["state"] == "prepared");
    CHECK(c.a.lines("SLOTSMGRTTAGSLOT-ASYNC").empty());
    third.refuse_if(nullptr);
    REQUIRE(c.rig.settled(289, 2));
    CHECK(seen().back() == "289 -->B");
  }
}

TEST_CASE("dashboard t32 t33: promote switches even if the new master refuses everything") {
  FakeServer a;
  FakeServer a2;
  DashboardOptions options;
  options.product_auth = "pw123";
  ProxyOptions proxy_options;
  proxy_options.product_auth = "pw123";
  ProxyRig p(proxy_options);
  DashboardRig rig(options);
  rig.group(1, a.address());
  REQUIRE(rig.put(cat("group/add/X/1/", a2.address())).status == 200);
  REQUIRE(rig.put(cat("proxy/create/X/", p.proxy.admin_address())).status == 200);
  REQUIRE(rig.assign(0, kSlots - 1, 1).status == 200);
  SUBCASE("as it should be") {}
  SUBCASE("refused") {
    a2.rule({.command = "SLAVEOF", .reply = "-ERR no\r\n"});
  }
  a2.forget();
  CHECK(rig.put(cat("group/promote/X/1/", a2.address())).status == 200);
  CHECK(a2.lines("MULTI").size() == 1);
  CHECK(a2.lines("SLAVEOF") == Lines{"SLAVEOF NO ONE"});
  const Lines config = a2.lines("CONFIG");
  CHECK(std::count(config.begin(), config.end(), "CONFIG SET masterauth pw123") == 1);
  CHECK(std::count(config.begin(), config.end(), "CONFIG REWRITE") == 1);
  CHECK(a2.lines("CLIENT") == Lines{"CLIENT KILL TYPE normal"});
  CHECK(TestClient(p.proxy.address()).ask("SET foo 1") == "+OK");
  CHECK(a2.get("foo") == "1");
  CHECK(rig.get("stats").body["group"]["models"][0]["servers"][0]["server"] == a2.address());
}

TEST_CASE("dashboard t31: the sync action") {
  FakeServer a;
  FakeServer a2;
  DashboardRig rig;
  rig.group(1, a.address());
  REQUIRE(rig.put(cat("group/add/X/1/", a2.address())).status == 200);
  REQUIRE(rig.put(cat("group/action/create/X/", a2.address())).status == 200);
  const auto state = [&] {
    const Json server = rig.get("stats").body["group"]["models"][0]["servers"][1];
    return server["action"].value("state", "");
  };
  CHECK(eventually([&] { return state() == "synced"; }));
  CHECK(a2.lines("SLAVEOF") == Lines{cat("SLAVEOF 127.0.0.1 ", a.port())});
  a2.rule({.command = "EXEC", .reply = "*-1\r\n"});
  REQUIRE(rig.put(cat("group/action/create/X/", a2.address())).status == 200);
  CHECK(eventually([&] { return state() == "synced_failed"; }));
}

TEST_CASE("dashboard t21: a restarted dashboard goes on with the migration; so does a new proxy") {
  TempDir folder;
  DashboardOptions options;
  options.state_file = folder.sub("state.json");
  FakeServer a;
  FakeServer b;
  auto p = std::make_unique<ProxyRig>();
  {
    DashboardRig rig(options);
    rig.group(1, a.address());
    rig.group(2, b.address());
    REQUIRE(rig.put(cat("proxy/create/X/", p->proxy.admin_address())).status == 200);
    REQUIRE(rig.assign(0, kSlots - 1, 1).status == 200);
    a.rule({.command = "SLOTSMGRTTAGSLOT-ASYNC", .reply = "*2\r\n:0\r\n:1\r\n", .delay_ms = 20});
    REQUIRE(rig.put("slots/action/create/X/7/2").status == 200);
    CHECK(eventually([&] { return rig.slot(7)["action"].value("state", "") == "migrating"; }));
  }
  const std::string mapping = TestClient(p->proxy.address()).ask("SLOTSMAPPING 7");
  CHECK(mapping == cat("[+7 +", b.address(), " +", a.address(), " nil]"));
  a.clear_rules();
  DashboardRig rig(options);
  REQUIRE(rig.settled(7, 2));
  CHECK(rig.slot(8)["group_id"] == 1);
  CHECK(rig.get("stats").body["proxy"]["models"].size() == 1);

  ProxyOptions same;
  same.port = parse_host_port(p->proxy.address())->port;
  same.admin_port = parse_host_port(p->proxy.admin_address())->port;
  const std::string token = p->proxy.token();
  p.reset();
  Proxy again(same, [] {});
  REQUIRE(again.start().is_ok());
  CHECK(again.token() == token);
  CHECK(TestClient(again.address()).ask("SET foo 1") == "+OK");  // waits until it is online
}

TEST_CASE("dashboard: bad state files are refused with their name") {
  TempDir folder;
  DashboardOptions options;
  options.state_file = folder.sub("state.json");
  std::ofstream(options.state_file) << "{\"groups\": 5";
  Dashboard dashboard(options, [] {});
  const Status started = dashboard.start();
  CHECK_FALSE(started.is_ok());
  CHECK(started.text().find(options.state_file) == 0);
}
