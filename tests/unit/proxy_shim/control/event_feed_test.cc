#include "proxy_shim/control/event_feed.h"

#include <doctest/doctest.h>

#include <thread>

#include "proxy_shim/control/http_tunnel.h"

using namespace sf;
using namespace std::chrono_literals;

TEST_CASE("event feed: watchers get what comes after the entry they name, in order") {
  EventFeed feed;
  CHECK(feed.newest() == 0);
  for (uint64_t n = 1; n <= 5; ++n) feed.publish(n, std::to_string(n));
  auto events = feed.after(2, 2, 0ms);
  REQUIRE(events.size() == 2);
  CHECK(events[0].json == "3");
  CHECK(events[1].number == 4);
  CHECK(feed.after(5, 10, 0ms).empty());
  CHECK(feed.newest() == 5);
}

TEST_CASE("I9: the feed is bounded, and a watcher too far back gets what there is") {
  EventFeed feed;
  for (uint64_t n = 1; n <= EventFeed::kKept + 7; ++n) feed.publish(n, "x");
  const auto events = feed.after(0, EventFeed::kKept * 2, 0ms);
  CHECK(events.size() == EventFeed::kKept);
  CHECK(events.front().number == 8);
}

TEST_CASE("event feed: a waiter is woken by an entry, and let go by the end") {
  EventFeed feed;
  std::thread publisher([&] { feed.publish(1, "one"); });
  CHECK(feed.after(0, 1, 10s).size() == 1);
  publisher.join();
  std::thread closer([&] { feed.close(); });
  CHECK(feed.after(1, 1, 10s).empty());
  closer.join();
  CHECK(feed.closed());
}

TEST_CASE("admin port: HTTP is told from RESP by the first line") {
  using Verdict = HttpTunnel::Verdict;
  CHECK(HttpTunnel::looks_like_http("GET /metrics HTTP/1.1\r\n") == Verdict::kYes);
  CHECK(HttpTunnel::looks_like_http("HEAD / HTTP/1.0\r\nHost: x\r\n\r\n") == Verdict::kYes);
  for (const char* part : {"", "G", "GET", "GET /metrics", "GET /metrics HTTP/1.1\r"}) {
    CHECK(HttpTunnel::looks_like_http(part) == Verdict::kNeedMore);
  }
  for (const char* other : {"*1\r\n$4\r\nPING\r\n", "GET key\r\n", "SHIM STATUS\r\n", "GE\r\n"}) {
    CHECK(HttpTunnel::looks_like_http(other) == Verdict::kNo);
  }
  CHECK(HttpTunnel::looks_like_http("GET " + std::string(9000, 'x')) == Verdict::kNo);
}
