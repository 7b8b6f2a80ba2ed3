// What only the simulated network can do: replay, kill, partition, break.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/strings.h"
#include "common/net/sim_loop.h"
#include "tests/unit/common/net/loop_world.h"

namespace sf {
namespace {

// A server process that echoes, a client process that talks to it; everything told to either in
// order.
struct Conversation {
  explicit Conversation(uint64_t seed, double break_chance = 0)
      : network(SimOptions{.seed = seed, .break_chance = break_chance}),
        client_loop(network.make_loop("client")),
        server_loop(network.make_loop("server")) {
    serve();
    client.connected = [this] { say("connected"); };
    client.data = [this](std::string_view unread) {
      say(cat("client read ", unread.size()));
      got += unread.size();
      return unread.size();
    };
    client.closed = [this](const Status& why) { say(cat("client closed: ", why.text())); };
    dial();
  }

  void serve() {
    server = std::make_unique<Server>(*server_loop, [this](Peer& peer) {
      peer.data = [this, &peer](std::string_view unread) {
        say(cat("server read ", unread.size()));
        peer.stream->write(unread);
        return unread.size();
      };
      peer.closed = [this](const Status& why) { say(cat("server closed: ", why.text())); };
    });
  }
  void dial() {
    client.stream = client_loop->connect("127.0.0.1", server->port(), 2'000'000, &client);
  }
  void say(const std::string& what) { history += cat(network.now_us(), " ", what, "\n"); }
  bool heard(size_t bytes) {
    return network.run_until([&] { return got >= bytes; }, 10'000'000);
  }

  SimNetwork network;
  std::unique_ptr<Loop> client_loop;
  std::unique_ptr<Loop> server_loop;
  std::unique_ptr<Server> server;
  Peer client;
  std::string history;
  size_t got = 0;
};

TEST_CASE("sim: one seed is one history, another seed another") {
  const auto history = [](uint64_t seed) {
    Conversation c(seed, 0.001);
    c.client.stream->write(std::string(2 << 20, 'x'));
    c.network.run_until([&] { return c.got == 2 << 20; }, 10'000'000);
    return c.history;
  };
  CHECK(history(5) == history(5));
  CHECK(history(5) != history(6));
}

TEST_CASE(
    "sim (I10): a killed process says nothing more; its peers learn it, and a new one can start") {
  Conversation c(3);
  c.client.stream->write("hello");
  REQUIRE(c.heard(5));
  bool ran = false;
  c.server_loop->call_after(1000, [&] { ran = true; });
  c.server_loop->post([&] { ran = true; });
  c.network.kill("server");
  c.client.stream->write("anyone?");
  c.network.run_for(100'000);
  CHECK_FALSE(ran);
  CHECK(c.got == 5);
  CHECK(c.client.closed_calls == 1);
  CHECK(c.server->peers[0]->closed_calls == 0);
  c.dial();
  c.network.run_for(100'000);
  CHECK(c.client.closed_calls == 2);  // refused

  c.server.reset();
  c.server_loop = c.network.make_loop("server");
  c.serve();
  c.dial();
  c.client.stream->write("again");
  CHECK(c.heard(10));
}

TEST_CASE("sim: a partition delays, keeps order and loses nothing") {
  Conversation c(9);
  c.client.stream->write("a");
  REQUIRE(c.heard(1));
  c.network.partition("client", "server");
  std::string sent;
  for (int i = 0; i < 50; ++i) {
    c.client.stream->write(std::string(100, static_cast<char>('a' + i % 26)));
    sent += std::string(100, static_cast<char>('a' + i % 26));
    c.network.run_for(1000);
  }
  CHECK(c.got == 1);
  std::string received;
  c.client.data = [&](std::string_view unread) {
    received.append(unread);
    return unread.size();
  };
  c.network.heal("client", "server");
  c.client.stream->write("z");
  c.network.run_until([&] { return received.size() == sent.size() + 1; }, 5'000'000);
  CHECK(received == sent + "z");
  CHECK(c.client.closed_calls == 0);
}

TEST_CASE("sim: connecting through a partition times out, or succeeds after it heals") {
  Conversation c(4);
  REQUIRE(c.network.run_until([&] { return !c.history.empty(); }, 1'000'000));
  c.network.partition("server", "client");
  c.dial();
  c.network.run_for(3'000'000);
  CHECK(c.client.closed_calls == 1);
  CHECK(c.client.why.code() == Code::kTimeout);
  c.dial();
  c.network.run_for(1'000'000);
  c.network.heal("client", "server");
  c.client.stream->write("through");
  CHECK(c.heard(7));
}

TEST_CASE("sim: broken connections lose what is under way and both sides learn it") {
  Conversation c(8);
  c.client.stream->write("x");
  REQUIRE(c.heard(1));
  c.client.stream->write(std::string(1000, 'y'));
  c.network.step();
  c.network.break_connections("client", "server");
  c.network.run_for(100'000);
  CHECK(c.client.closed_calls == 1);
  CHECK(c.server->peers[0]->closed_calls == 1);
}

TEST_CASE("sim: time passes only as told, and the wall clock can jump for one process") {
  SimNetwork network(SimOptions{});
  auto a = network.make_loop("a");
  auto b = network.make_loop("b");
  CHECK(network.now_us() == 0);
  network.run_for(5000);
  CHECK(a->now_us() == 5000);
  network.jump_wall_ms("a", -60'000);
  CHECK(b->wall_ms() - a->wall_ms() == 60'000);
  CHECK_FALSE(network.step());
  CHECK_FALSE(network.run_until([] { return false; }, 1000));
}

TEST_CASE("sim: hosts have ports of their own") {
  SimNetwork network(SimOptions{});
  auto a = network.make_loop("a");
  auto b = network.make_loop("b");
  auto one = a->listen("10.0.0.1", 6379, [](auto) {});
  auto two = b->listen("10.0.0.2", 6379, [](auto) {});
  REQUIRE(one.is_ok());
  REQUIRE(two.is_ok());
  CHECK_FALSE(b->listen("0.0.0.0", 6379, [](auto) {}).is_ok());
  Peer peer;
  peer.stream = a->connect("10.0.0.2", 6380, 1'000'000, &peer);
  network.run_for(100'000);
  CHECK(peer.why.code() == Code::kUnavailable);
}

}  // namespace
}  // namespace sf
