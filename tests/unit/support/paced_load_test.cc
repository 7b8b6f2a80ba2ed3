#include "tests/support/load/paced_load.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <string>

#include "tests/support/bench/child.h"
#include "tests/support/redis_process.h"

namespace sf::load {
namespace {

TEST_CASE("paced load: windows of one name are one window, and every request is answered in one") {
  const RedisProcess redis;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string script = "mark a\nmark b\nmark a\n";
  REQUIRE(::write(ends[1], script.data(), script.size()) == static_cast<ssize_t>(script.size()));
  PacedOptions options;
  options.ports = {redis.port()};
  options.pipeline = 4;
  options.rate = 4000;
  options.duration_us = 200'000;
  options.keys = {"k1", "k2"};
  options.control_fd = ends[0];
  const auto result = run_paced(options);
  ::close(ends[0]);
  ::close(ends[1]);
  REQUIRE(result);
  REQUIRE(result->windows.size() == 3);
  CHECK(result->windows[0].name == "start");
  CHECK(result->windows[1].name == "a");
  CHECK(result->windows[2].name == "b");
  int64_t answered = 0;
  for (const PacedWindow& window : result->windows) {
    CHECK(window.errors == 0);
    CHECK(window.p50_us <= window.p99_us);
    CHECK(window.p99_us <= window.max_us);
    answered += window.answered;
  }
  CHECK(answered > 0);
  CHECK(answered % options.pipeline == 0);
  CHECK(*bench::ask(redis.port(), "EXISTS k1 k2") == ":2\r\n");
}

TEST_CASE("paced load: error replies are counted and the first are kept") {
  const RedisProcess redis;
  REQUIRE(bench::ask(redis.port(), "LPUSH list x"));
  PacedOptions options;
  options.ports = {redis.port()};
  options.connections = 1;
  options.rate = 1000;
  options.duration_us = 50'000;
  options.command = "get";
  options.keys = {"list"};
  const auto result = run_paced(options);
  REQUIRE(result);
  CHECK(result->windows[0].errors == result->windows[0].answered);
  REQUIRE(!result->error_texts.empty());
  CHECK(result->error_texts[0].find("WRONGTYPE") != std::string::npos);
}

TEST_CASE("paced load: nobody at the port is said") {
  PacedOptions options;
  options.ports = {free_port()};
  options.rate = 10;
  options.keys = {"k"};
  CHECK(!run_paced(options));
}

}  // namespace
}  // namespace sf::load
