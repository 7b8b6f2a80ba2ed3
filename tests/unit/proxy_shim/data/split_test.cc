#include <doctest/doctest.h>

#include "common/base/strings.h"
#include "proxy_shim/data/fanout.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {
struct TwoOwners : ShimFixture {
  TwoOwners() { publish(SlotSet::of(5), SlotPhase::kNew); }
  const std::string o1 = key_in(4, 0), o2 = key_in(4, 1), n1 = key_in(5, 0), n2 = key_in(5, 1);
};
}  // namespace

TEST_CASE("X13: MGET, MSET, DEL, EXISTS over two owners are split, and joined in order") {
  TwoOwners shim;
  CHECK(shim.ask({"MSET", shim.n1, "1", shim.o1, "2", shim.n2, "3"}) == "+OK");
  CHECK(shim.old_server.value(0, shim.o1) == "2");
  CHECK(shim.new_server.value(0, shim.n1) == "1");
  CHECK(shim.ask({"MGET", shim.n1, shim.o1, shim.o2, shim.n2, shim.n1}) ==
        "[\"1\" \"2\" nil \"3\" \"1\"]");
  CHECK(shim.ask({"EXISTS", shim.n1, shim.o1, shim.o2, shim.n1}) == ":3");
  CHECK(shim.ask({"DEL", shim.o1, shim.o2, shim.n1, shim.n2}) == ":3");
  CHECK(shim.ask({"MGET", shim.o1, shim.n1}) == "[nil nil]");
}

TEST_CASE("keys of one owner travel in one piece, as they came") {
  TwoOwners shim;
  CHECK(shim.ask({"mGET", shim.o1, key_in(3), shim.o2}) == "[nil nil nil]");
  CHECK(shim.old_server.requests().back() == Words{"mGET", shim.o1, key_in(3), shim.o2});
  CHECK(shim.new_server.requests().empty());
}

TEST_CASE("X13: other commands with two owners are refused before anything is sent") {
  TwoOwners shim;
  for (const char* command : {"SUNIONSTORE", "SINTER", "RENAME", "PFMERGE"}) {
    const std::string text = shim.ask({command, shim.n1, shim.o1});
    CAPTURE(text);
    CHECK(text.starts_with("-CROSSSLOT"));
    CHECK(text.find(cat("slot 5 is at ", shim.new_server.address())) != std::string::npos);
    CHECK(text.find(cat("slot 4 at ", shim.old_server.address())) != std::string::npos);
  }
  CHECK(shim.old_server.requests().empty());
  CHECK(shim.new_server.requests().empty());
}

TEST_CASE("a key outside the plan refuses the whole command") {
  TwoOwners shim;
  shim.publish(SlotSet::of(9), SlotPhase::kOutside);
  CHECK(shim.ask({"MSET", shim.o1, "1", key_in(9), "2"}).starts_with("-ERR slot 9 is not behind"));
  CHECK(shim.old_server.requests().empty());
}

TEST_CASE("MSET with an odd number of words is an error, not half a command") {
  TwoOwners shim;
  const std::string text = shim.ask({"MSET", shim.o1, "1", shim.n1});
  CHECK(text.starts_with("-ERR"));
  CHECK(shim.old_server.value(0, shim.o1).empty());
}

TEST_CASE("an error of one part is the error of the whole command") {
  TwoOwners shim;
  shim.new_server.set_rule([](const Words&) {
    return FakeAction{FakeAction::Kind::kReply, "-LOADING not yet\r\n"};
  });
  CHECK(shim.ask({"MGET", shim.o1, shim.n1}) == "-LOADING not yet");
  CHECK(shim.ask({"DEL", shim.o1, shim.n1}) == "-LOADING not yet");
  CHECK(shim.ask({"MSET", shim.o1, "1", shim.n1, "2"}) == "-LOADING not yet");
}

TEST_CASE("a part of the wrong shape is an error") {
  TwoOwners shim;
  shim.new_server.set_rule([](const Words&) {
    return FakeAction{FakeAction::Kind::kReply, "*2\r\n:1\r\n:2\r\n"};
  });
  CHECK(shim.ask({"MGET", shim.o1, shim.n1}).find("another number of elements") !=
        std::string::npos);
  CHECK(shim.ask({"DEL", shim.o1, shim.n1}).find("did not answer with a number") !=
        std::string::npos);
}

TEST_CASE("numbers that no server of keys answers with are not added up beyond what fits") {
  Pending whole;
  const std::vector<std::string_view> argv{"DEL", "a", "b"};
  const std::vector<int> positions{1, 2};
  const std::vector<Side> sides{Side::kOld, Side::kNew};
  Fanout fanout(&whole, *find_command("DEL"), argv, positions, sides);
  fanout.add_reply(0, ":9223372036854775807\r\n");
  fanout.add_reply(1, ":1\r\n");
  std::string out;
  fanout.joined(out);
  CHECK(out.starts_with("-ERR"));
}

TEST_CASE("X17: one server down fails the split command and nothing else") {
  TwoOwners shim;
  shim.new_server.set_rule([](const Words&) { return FakeAction{FakeAction::Kind::kBreak, ""}; });
  TestClient c = shim.client();
  c.send({"MSET", shim.o1, "1", shim.n1, "2"});
  c.send({"GET", shim.o1});
  CHECK(c.read().is_error());
  CHECK(reply_text(c.read()) == "\"1\"");
}

TEST_CASE("the client of a split command may leave before its parts are answered") {
  TwoOwners shim;
  shim.new_server.set_rule([](const Words& request) {
    return FakeAction{request[0] == "DEL" ? FakeAction::Kind::kWait : FakeAction::Kind::kUsual, ""};
  });
  {
    TestClient c = shim.client();
    c.send({"DEL", shim.o1, shim.n1});
    REQUIRE(shim.new_server.wait_for("DEL", 1));
  }
  CHECK(eventually([&] { return shim.plane->stats().clients == 0; }));
  shim.new_server.release();
  CHECK(shim.ask({"MGET", shim.o1, shim.n1}) == "[nil nil]");
  CHECK(eventually([&] { return shim.plane->stats().inflight == 0; }));
}
