// What a server's errors mean to a step: "not now", or "not like this".
#include "migrator/peer.h"

#include <doctest/doctest.h>

#include <atomic>

#include "tests/support/fake_server.h"

namespace sf {
namespace {

TEST_CASE("a server that is loading its data is waited for, greeted or asked") {
  std::atomic<bool> loads{true};
  std::atomic<bool> greets{false};
  FakeServer server;
  server.set_rule([&](const Words& words) {
    const bool greeting = words[0] == "CLIENT";
    if (greeting && greets) return FakeAction{FakeAction::Kind::kReply, "+OK\r\n"};
    if (!loads) return FakeAction{};
    return FakeAction{FakeAction::Kind::kReply,
                      "-LOADING Redis is loading the dataset in memory\r\n"};
  });
  PeerOptions options{"new server", {"127.0.0.1", server.port()}, ""};
  options.greetings = {{"CLIENT", "SETNAME", "slotferry-run"}};
  Peer peer(options);
  CHECK(peer.expect({"INFO"}).status().code() == Code::kUnavailable);
  greets = true;
  const Status asked = peer.expect({"GET", "k"}).status();
  CHECK(asked.code() == Code::kUnavailable);
  CHECK(asked.text().find("is loading its data") != std::string::npos);
  loads = false;
  CHECK(peer.expect({"SET", "k", "v"}).is_ok());
}

}  // namespace
}  // namespace sf
