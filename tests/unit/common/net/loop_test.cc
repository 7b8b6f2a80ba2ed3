// One list of promises of common/net/loop.h, checked on every implementation.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "tests/unit/common/net/loop_world.h"

namespace sf {
namespace {

template <class Fn>
void on_every_world(Fn fn) {
  for (auto& world : all_worlds()) {
    INFO(world->name());
    fn(*world);
  }
}

void echo(Peer& peer) {
  peer.data = [&peer](std::string_view unread) {
    peer.stream->write(unread);
    return unread.size();
  };
}

std::string pattern(size_t size, uint64_t seed) {
  Random random(seed);
  std::string out(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t word = random.next();
    out.replace(i, 8, reinterpret_cast<const char*>(&word), 8);
  }
  return out;
}

TEST_CASE("loop: what was written before the connection stands is echoed") {
  on_every_world([](LoopWorld& world) {
    Server server(world.loop(), echo);
    Peer client;
    std::string got;
    bool connected = false;
    client.connected = [&] { connected = true; };
    client.data = [&](std::string_view unread) {
      got.append(unread);
      if (got == "hello world") world.loop().stop();
      return unread.size();
    };
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.stream->write("hello ");
    client.stream->output().append("world");
    CHECK(client.stream->unsent_bytes() == 11);
    CHECK_FALSE(connected);
    REQUIRE(world.run());
    CHECK(connected);
    CHECK(client.stream->bytes_out() == 11);
    CHECK(client.stream->bytes_in() == 11);
    CHECK(client.stream->unsent_bytes() == 0);
    CHECK(client.stream->peer() == server.peers[0]->stream->local());
    CHECK(client.stream->local() == server.peers[0]->stream->peer());
  });
}

TEST_CASE(
    "loop: a stream closed by another's handler, with bytes of its own to read, hears nothing") {
  on_every_world([](LoopWorld& world) {
    std::set<const Peer*> heard;
    Server* all = nullptr;
    Server server(world.loop(), [&](Peer& peer) {
      // As CLIENT KILL does: whoever is first in the turn closes the others, whose bytes are there.
      peer.data = [&](std::string_view unread) {
        heard.insert(&peer);
        for (auto& other : all->peers) {
          if (other.get() != &peer) other->stream->close_after_flush();
        }
        return unread.size();
      };
      if (all->peers.size() == 8) world.loop().stop();
    });
    all = &server;
    std::vector<Peer> clients(8);
    int closed = 0;
    for (Peer& client : clients) {
      client.closed = [&](const Status&) {
        if (++closed == 7) world.loop().stop();
      };
      client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    }
    REQUIRE(world.run());
    for (Peer& client : clients) client.stream->write("kill the others");
    REQUIRE(world.run());
    CHECK(heard.size() == 1);
    CHECK(closed == 7);
  });
}

TEST_CASE("loop: a host name is resolved") {
  on_every_world([](LoopWorld& world) {
    Server server(world.loop(), {});
    Peer client;
    client.connected = [&] { world.loop().stop(); };
    client.stream = world.loop().connect("localhost", server.port(), 5'000'000, &client);
    REQUIRE(world.run());
    CHECK(client.closed_calls == 0);
  });
}

TEST_CASE("loop: 64 MiB arrive whole and in order, through marks") {
  on_every_world([](LoopWorld& world) {
    const std::string block = pattern(1 << 20, 7);
    const int blocks = 64;
    size_t received = 0;
    bool same = true;
    Server server(world.loop(), [&](Peer& peer) {
      peer.data = [&](std::string_view unread) {
        // Whole 4 KiB pieces only, to exercise what is left over.
        const size_t take = unread.size() / 4096 * 4096;
        for (size_t i = 0; i < take; i += 4096) {
          same &=
              unread.substr(i, 4096) == std::string_view(block).substr(received % (1 << 20), 4096);
          received += 4096;
        }
        if (received == size_t{blocks} << 20) world.loop().stop();
        return take;
      };
    });
    Peer client;
    int sent = 0;
    size_t most_unsent = 0;
    const auto pump = [&] {
      while (sent < blocks && client.stream->unsent_bytes() <= (2 << 20)) {
        client.stream->write(block);
        ++sent;
        most_unsent = std::max(most_unsent, client.stream->unsent_bytes());
      }
    };
    client.connected = pump;
    client.drained = pump;
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.stream->set_marks(1 << 20, 2 << 20);
    REQUIRE(world.run());
    CHECK(same);
    CHECK(sent == blocks);
    CHECK(most_unsent <= (3 << 20));
  });
}

TEST_CASE("loop: unread bytes are presented again, longer, in one piece up to 8 MiB") {
  on_every_world([](LoopWorld& world) {
    const std::string value = pattern(8 << 20, 9);
    size_t last = 0;
    bool grows = true;
    bool same = false;
    Server server(world.loop(), [&](Peer& peer) {
      peer.data = [&](std::string_view unread) -> size_t {
        grows &= unread.size() > last;
        last = unread.size();
        if (unread.size() < value.size()) return 0;
        same = unread == value;
        world.loop().stop();
        return unread.size();
      };
    });
    Peer client;
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.stream->write(value);
    REQUIRE(world.run());
    CHECK(grows);
    CHECK(same);
  });
}

TEST_CASE("loop (I9): a paused reader bounds what its peer can send") {
  on_every_world([](LoopWorld& world) {
    const std::string block(1 << 20, 'x');
    Server server(world.loop(), [&](Peer& peer) { peer.stream->pause_reading(); });
    Peer client;
    int64_t sent = 0;
    const auto pump = [&] {
      while (client.stream->unsent_bytes() <= (1 << 20)) {
        client.stream->write(block);
        sent += 1 << 20;
      }
    };
    client.connected = pump;
    client.drained = pump;
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    world.loop().call_after(300'000, [&] { world.loop().stop(); });
    REQUIRE(world.run());
    const int64_t stuck_at = sent;
    CHECK(stuck_at < (64 << 20));
    CHECK(server.peers[0]->stream->bytes_in() == 0);

    server.peers[0]->stream->resume_reading();
    server.peers[0]->data = [&](std::string_view unread) {
      if (sent > 3 * stuck_at) world.loop().stop();
      return unread.size();
    };
    REQUIRE(world.run());
  });
}

TEST_CASE("loop: pause in on_data keeps what is unread, resume presents it without new bytes") {
  on_every_world([](LoopWorld& world) {
    std::vector<std::string> seen;
    Server server(world.loop(), [&](Peer& peer) {
      peer.data = [&](std::string_view unread) -> size_t {
        seen.emplace_back(unread);
        if (unread.size() < 6) return 0;
        if (unread == "abcdef") {
          peer.stream->pause_reading();
          world.loop().call_after(20'000, [&] { peer.stream->resume_reading(); });
          return 2;
        }
        world.loop().stop();
        return unread.size();
      };
    });
    server.peers.reserve(1);
    Peer client;
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.connected = [&] {
      client.stream->write("abcdef");
      world.loop().call_after(60'000, [&] { client.stream->write("gh"); });
    };
    REQUIRE(world.run());
    bool presented_rest = false;
    for (const std::string& s : seen) presented_rest |= s == "cdef";
    CHECK(presented_rest);
    CHECK(seen.back() == "cdefgh");
  });
}

TEST_CASE("loop: the peer's close is told once, after its last bytes; own close is not told") {
  on_every_world([](LoopWorld& world) {
    std::string got;
    Server server(world.loop(), [&](Peer& peer) {
      peer.data = [&](std::string_view unread) {
        got.append(unread);
        return unread.size();
      };
      peer.closed = [&](const Status&) { world.loop().stop(); };
    });
    Peer client;
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.stream->write("last words");
    client.stream->close_after_flush();
    REQUIRE(world.run());
    CHECK(got == "last words");
    CHECK(server.peers[0]->closed_calls == 1);
    CHECK_FALSE(server.peers[0]->why.is_ok());
    CHECK(client.closed_calls == 0);
    server.peers[0]->stream->write("into nothing");
    server.peers[0]->stream.reset();
  });
}

TEST_CASE("loop: close_after_flush delivers the last reply although requests lie unread") {
  on_every_world([](LoopWorld& world) {
    const std::string reply(4 << 20, 'r');
    Server server(world.loop(), [&](Peer& peer) {
      peer.data = [&](std::string_view) -> size_t {
        peer.stream->write(reply);
        peer.stream->close_after_flush();
        peer.stream.reset();
        return 0;
      };
    });
    Peer client;
    std::string got;
    client.data = [&](std::string_view unread) {
      got.append(unread);
      return unread.size();
    };
    client.closed = [&](const Status&) { world.loop().stop(); };
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.stream->write(std::string(1 << 20, 'q'));
    REQUIRE(world.run());
    CHECK(got == reply);
    CHECK(server.peers[0]->closed_calls == 0);
  });
}

TEST_CASE("loop: a stream may be destroyed in on_connected, on_data, on_drained and on_closed") {
  on_every_world([](LoopWorld& world) {
    Server server(world.loop(), echo);
    Peer a;
    Peer b;
    Peer c;
    int left = 3;
    const auto done = [&] {
      if (--left == 0) world.loop().call_after(10'000, [&] { world.loop().stop(); });
    };
    a.connected = [&] {
      a.stream->write("x");
      a.stream.reset();
      done();
    };
    b.data = [&](std::string_view unread) {
      b.stream.reset();
      done();
      return unread.size();
    };
    c.drained = [&] {
      c.stream.reset();
      done();
    };
    a.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &a);
    b.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &b);
    c.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &c);
    b.stream->write("hello");
    c.stream->set_marks(10, 20);
    c.stream->write(std::string(1000, 'c'));
    REQUIRE(world.run());
    CHECK(a.closed_calls + b.closed_calls + c.closed_calls == 0);
    for (auto& peer : server.peers) peer->stream.reset();
  });
}

TEST_CASE("loop: a handler that destroys another stream and itself in on_closed is safe") {
  on_every_world([](LoopWorld& world) {
    std::vector<std::unique_ptr<Peer>> clients;
    Server server(world.loop(), {});
    server.peers.reserve(4);
    for (int i = 0; i < 4; ++i) {
      clients.push_back(std::make_unique<Peer>());
      clients.back()->closed = [&](const Status&) {
        world.loop().stop();
        clients.clear();  // this function, too: nothing may follow
      };
      clients.back()->stream =
          world.loop().connect("127.0.0.1", server.port(), 5'000'000, clients.back().get());
    }
    world.loop().call_after(50'000, [&] { server.peers.clear(); });
    REQUIRE(world.run());
    CHECK(clients.empty());
  });
}

TEST_CASE("loop: connect refused is told in a later turn, with the address") {
  on_every_world([](LoopWorld& world) {
    int port = 0;
    {
      Server server(world.loop(), {});
      port = server.port();
    }
    Peer client;
    client.closed = [&](const Status&) { world.loop().stop(); };
    client.stream = world.loop().connect("127.0.0.1", port, 5'000'000, &client);
    CHECK(client.closed_calls == 0);
    client.stream->write("lost");
    REQUIRE(world.run());
    CHECK(client.closed_calls == 1);
    CHECK(client.why.code() == Code::kUnavailable);
    CHECK(client.why.text().find("127.0.0.1:" + std::to_string(port)) != std::string::npos);
  });
}

TEST_CASE("loop: connect to a host that never answers times out") {
  on_every_world([](LoopWorld& world) {
    Peer client;
    const int64_t begin = world.loop().now_us();
    client.closed = [&](const Status&) { world.loop().stop(); };
    client.stream = world.loop().connect("192.0.2.1", 9, 100'000, &client);
    REQUIRE(world.run());
    CHECK(client.closed_calls == 1);
    // A machine without a route may say so at once.
    if (client.why.code() == Code::kTimeout) CHECK(world.loop().now_us() - begin >= 100'000);
  });
}

TEST_CASE("loop: a port in use is refused in one sentence that names it") {
  on_every_world([](LoopWorld& world) {
    Server server(world.loop(), {});
    auto again = world.second().listen("127.0.0.1", server.port(), [](auto) {});
    REQUIRE_FALSE(again.is_ok());
    CHECK(again.status().text().find("127.0.0.1:" + std::to_string(server.port())) !=
          std::string::npos);
    const int port = server.port();
    server.listener.reset();
    CHECK(world.loop().listen("127.0.0.1", port, [](auto) {}).is_ok());
  });
}

TEST_CASE("loop: a listener may be destroyed in its own call") {
  on_every_world([](LoopWorld& world) {
    std::unique_ptr<Listener> listener;
    auto made = world.loop().listen("127.0.0.1", 0, [&](std::unique_ptr<AcceptedSocket>) {
      listener.reset();
      world.loop().stop();
    });
    REQUIRE(made.is_ok());
    listener = std::move(*made);
    Peer client;
    client.stream = world.loop().connect("127.0.0.1", listener->port(), 5'000'000, &client);
    REQUIRE(world.run());
    CHECK(listener == nullptr);
  });
}

TEST_CASE("loop: timers run in order of time, then of creation, and can be cancelled") {
  on_every_world([](LoopWorld& world) {
    std::string order;
    Loop& loop = world.loop();
    const int64_t begin = loop.now_us();
    loop.call_after(30'000, [&] { order += 'd'; });
    loop.call_after(10'000, [&] { order += 'a'; });
    const TimerId gone = loop.call_after(15'000, [&] { order += 'X'; });
    TimerId later = 0;
    loop.call_after(20'000, [&] {
      order += 'b';
      loop.cancel(later);
      loop.call_after(0, [&] { order += 'c'; });
    });
    later = loop.call_after(40'000, [&] { order += 'Y'; });
    loop.call_after(60'000, [&] {
      order += 'e';
      loop.stop();
    });
    loop.cancel(gone);
    loop.cancel(gone);
    loop.cancel(987654321);
    loop.cancel(0);
    REQUIRE(world.run());
    CHECK(order == "abcde");
    CHECK(loop.now_us() - begin >= 60'000);
    CHECK(loop.wall_ms() > 1'600'000'000'000);
  });
}

TEST_CASE("loop: deferred functions run at the turn's end, before output is sent") {
  on_every_world([](LoopWorld& world) {
    Server server(world.loop(), echo);
    Peer client;
    std::string order;
    client.connected = [&] {
      world.loop().defer([&] {
        order += '2';
        client.stream->write("two");
        world.loop().defer([&] {
          order += '3';
          client.stream->write("three");
        });
      });
      order += '1';
      client.stream->write("one");
      CHECK(client.stream->bytes_out() == 0);
    };
    std::string got;
    client.data = [&](std::string_view unread) {
      got = std::string(unread);
      if (got.size() == 11) world.loop().stop();
      return size_t{0};
    };
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    REQUIRE(world.run());
    CHECK(order == "123");
    CHECK(got == "onetwothree");
  });
}

TEST_CASE("loop: posts of four threads run each in its order") {
  on_every_world([](LoopWorld& world) {
    constexpr int kPosts = 5000;
    std::vector<int> next(4, 0);
    int total = 0;
    bool ordered = true;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kPosts; ++i) {
          world.loop().post([&, t, i] {
            ordered &= next[t]++ == i;
            if (++total == 4 * kPosts) world.loop().stop();
          });
        }
      });
    }
    // The simulated loop takes posts of other threads, too, but does not wait for them.
    if (std::string_view(world.name()) != "uv") {
      for (auto& thread : threads) thread.join();
    }
    REQUIRE(world.run());
    for (auto& thread : threads) {
      if (thread.joinable()) thread.join();
    }
    CHECK(ordered);
    CHECK(total == 4 * kPosts);
  });
}

TEST_CASE("loop: an accepted socket is adopted on another loop") {
  on_every_world([](LoopWorld& world) {
    Loop& home = world.loop();
    Loop& other = world.second();
    auto session = std::make_shared<Peer>();
    std::unique_ptr<Listener> listener;
    auto made = home.listen("127.0.0.1", 0, [&](std::unique_ptr<AcceptedSocket> socket) {
      auto box = std::make_shared<std::unique_ptr<AcceptedSocket>>(std::move(socket));
      other.post([&other, session, box] {
        session->stream = other.adopt(std::move(*box), session.get());
        session->data = [s = session.get()](std::string_view unread) {
          s->stream->write(unread);
          return unread.size();
        };
      });
    });
    REQUIRE(made.is_ok());
    listener = std::move(*made);
    Peer client;
    client.data = [&](std::string_view unread) {
      if (unread == "ping") {
        other.post([&] {
          session->stream.reset();
          home.post([&] { home.stop(); });
        });
      }
      return unread == "ping" ? unread.size() : 0;
    };
    client.stream = home.connect("127.0.0.1", listener->port(), 5'000'000, &client);
    client.stream->write("ping");
    REQUIRE(world.run());
    CHECK(session->stream == nullptr);
  });
}

TEST_CASE("loop: an accepted socket nobody adopts is closed") {
  on_every_world([](LoopWorld& world) {
    auto made = world.loop().listen("127.0.0.1", 0, [](std::unique_ptr<AcceptedSocket>) {});
    REQUIRE(made.is_ok());
    Peer client;
    client.closed = [&](const Status&) { world.loop().stop(); };
    client.stream = world.loop().connect("127.0.0.1", (*made)->port(), 5'000'000, &client);
    REQUIRE(world.run());
    CHECK(client.closed_calls == 1);
  });
}

TEST_CASE("loop: on_drained comes once a crossing of both marks") {
  on_every_world([](LoopWorld& world) {
    Server server(world.loop(), {});
    Peer client;
    int drained = 0;
    client.drained = [&] {
      if (++drained == 3) world.loop().call_after(20'000, [&] { world.loop().stop(); });
      if (drained < 3) client.stream->write(std::string(5000, 'a'));
    };
    client.connected = [&] { client.stream->write(std::string(5000, 'a')); };
    client.stream = world.loop().connect("127.0.0.1", server.port(), 5'000'000, &client);
    client.stream->set_marks(1000, 4000);
    client.stream->write(std::string(3000, 'b'));
    REQUIRE(world.run());
    CHECK(drained == 3);
  });
}

}  // namespace
}  // namespace sf
