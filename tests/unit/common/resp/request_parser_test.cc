#include "common/resp/request_parser.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"

using namespace sf;

namespace {

// Everything a stream of bytes says: its requests, and the error that ended it.
struct Heard {
  std::vector<std::vector<std::string>> requests;
  std::vector<std::string> raws;
  std::string error;
  size_t left = 0;  // bytes of an unfinished request
  bool operator==(const Heard&) const = default;
};

// Feeds `bytes` in the given pieces, keeping unconsumed bytes as a connection does; each call gets
// a fresh copy so that a view into an old buffer would be caught by the sanitizer.
Heard feed(const std::vector<std::string>& pieces, RequestLimits limits = {}) {
  Heard heard;
  RequestParser parser(limits);
  std::string buffer;
  for (const auto& piece : pieces) {
    buffer += piece;
    while (true) {
      const std::string now = buffer;
      Request request;
      const auto outcome = parser.parse(now, &request);
      if (outcome == RequestParser::Outcome::kError) {
        heard.error = parser.error();
        return heard;
      }
      if (outcome == RequestParser::Outcome::kRequest) {
        REQUIRE_FALSE(request.argv.empty());
        heard.requests.emplace_back(request.argv.begin(), request.argv.end());
        heard.raws.emplace_back(request.raw);
        REQUIRE(now.substr(0, parser.consumed()).ends_with(request.raw));
      }
      buffer.erase(0, parser.consumed());
      if (outcome == RequestParser::Outcome::kNeedMore) break;
    }
  }
  heard.left = buffer.size();
  return heard;
}

Heard feed_whole(const std::string& bytes, RequestLimits limits = {}) {
  return feed({bytes}, limits);
}

using Args = std::vector<std::string>;

void check_error(const std::string& bytes, const std::string& error, RequestLimits limits = {}) {
  CAPTURE(printable(bytes));
  CHECK(feed_whole(bytes, limits).error == error);
  std::vector<std::string> single;
  for (const char c : bytes) single.emplace_back(1, c);
  CHECK(feed(single, limits).error == error);
}

const char* const kGet = "*2\r\n$3\r\nget\r\n$3\r\nkey\r\n";

}  // namespace

TEST_CASE("request: golden bytes") {
  const Heard heard =
      feed_whole(std::string("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\n\0\r\n", 30));
  REQUIRE(heard.requests.size() == 1);
  CHECK(heard.requests[0] == Args{"SET", "k", std::string("a\r\n\0", 4)});
  CHECK(heard.raws[0].size() == 30);
  CHECK(heard.left == 0);
  CHECK(feed_whole("*2\r\n$4\r\nPING\r\n$0\r\n\r\n").requests[0] == Args{"PING", ""});
}

TEST_CASE("P01: empty and null arrays and empty lines between commands are skipped") {
  for (const std::string before : {"*0\r\n", "*-1\r\n", "\r\n\r\n", "\n", "   \r\n", "*-77\r\n"}) {
    CAPTURE(printable(before));
    const Heard heard = feed_whole(before + kGet);
    REQUIRE(heard.requests.size() == 1);
    CHECK(heard.requests[0] == Args{"get", "key"});
    CHECK(heard.raws[0] == kGet);
    CHECK(feed_whole(before).left == 0);
  }
}

TEST_CASE("P02: inline requests end with LF or CRLF, quotes and escapes as Redis has them") {
  CHECK(feed_whole("PING\n").requests == std::vector<Args>{{"PING"}});
  CHECK(feed_whole("SET foo \"a b\\x41\"\nGET foo\r\n").requests ==
        std::vector<Args>{{"SET", "foo", "a bA"}, {"GET", "foo"}});
  CHECK(feed_whole("   PING   \r\n").requests == std::vector<Args>{{"PING"}});
  CHECK(feed_whole("SET q 'it\\'s'\r\n").requests == std::vector<Args>{{"SET", "q", "it's"}});
  CHECK(feed_whole("a \"\\n\\r\\t\\b\\a\\q\\xzz\\\"\" ''\r\n").requests ==
        std::vector<Args>{{"a", "\n\r\t\b\aqxzz\"", ""}});
  CHECK(feed_whole("AUTH \"x y\"\r\n").requests == std::vector<Args>{{"AUTH", "x y"}});
  Request request;
  RequestParser parser;
  REQUIRE(parser.parse("  get k\r\nnext", &request) == RequestParser::Outcome::kRequest);
  CHECK(request.is_inline);
  CHECK(request.raw == "  get k\r\n");
}

TEST_CASE("P02: a multibulk header with LF only is an error") {
  check_error("*1\n$4\nPING\n", "invalid multibulk length");
  check_error("*1\r\n$4\nPING\r\n", "invalid bulk length");
}

TEST_CASE("P04: bad lengths") {
  check_error("*2\r\n$3\r\nGET\r\n$-1\r\n", "invalid bulk length");
  check_error("*9223372036854775808\r\n", "invalid multibulk length");
  check_error("*2147483647\r\n", "invalid multibulk length");
  check_error("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$2147483648\r\n", "invalid bulk length");
  check_error("*2\r\n$3\r\nGET\r\n+x\r\n", "expected '$', got '+'");
  check_error("*abc\r\n", "invalid multibulk length");
  check_error("*\r\n", "invalid multibulk length");
  check_error("*+1\r\n", "invalid multibulk length");
  check_error("*01\r\n", "invalid multibulk length");
  check_error("*1\r\n$\r\n", "invalid bulk length");
  check_error("*1\r\n$ 4\r\n", "invalid bulk length");
  check_error("*1\r\n$4\r\nPINGxx", "expected CRLF after the argument");
}

TEST_CASE("P04: a request before the bad one is still answered") {
  const Heard heard = feed_whole(std::string(kGet) + "*abc\r\n");
  CHECK(heard.requests.size() == 1);
  CHECK(heard.error == "invalid multibulk length");
}

TEST_CASE("P05: unbalanced quotes") {
  check_error("set \"\"\"k\"\"\" v\r\n", "unbalanced quotes in request");
  check_error("set \"k v\r\n", "unbalanced quotes in request");
  check_error("set 'k v\r\n", "unbalanced quotes in request");
  check_error("set 'k'v\r\n", "unbalanced quotes in request");
}

TEST_CASE("request: limits end a request as soon as they are passed, not when it is complete") {
  const RequestLimits limits{
      .args_max = 4, .bulk_bytes_max = 10, .inline_bytes_max = 32, .request_bytes_max = 60};
  check_error("*5\r\n", "invalid multibulk length", limits);
  check_error("*1\r\n$11\r\n", "invalid bulk length", limits);
  check_error(std::string(33, 'a'), "too big inline request", limits);
  check_error(std::string(40, 'a') + "\r\n", "too big inline request", limits);
  check_error("*" + std::string(33, '1'), "too big mbulk count string", limits);
  check_error("*1\r\n$" + std::string(33, '1'), "too big bulk count string", limits);
  std::string big = "*4\r\n";
  for (int i = 0; i < 4; ++i) resp::bulk(big, "0123456789");
  check_error(big, "too big request", limits);
  CHECK(feed_whole("*1\r\n$10\r\n0123456789\r\n", limits).requests.size() == 1);
}

TEST_CASE("request: a huge announced count costs no memory") {
  RequestParser parser;
  Request request;
  CHECK(parser.parse("*1048576\r\n$536870912\r\nabc", &request) ==
        RequestParser::Outcome::kNeedMore);
  CHECK(parser.expected_bytes() == 10 + 12 + 536870912 + 2);
  CHECK(request.argv.capacity() == 0);
}

TEST_CASE("request: every split of a stream says the same") {
  std::string corpus = "\r\n*0\r\nPING\n*-1\r\n  \r\n";
  corpus += resp::request({"SET", "key", std::string(300, 'v')});
  corpus += "set 'a b' \"c\\x00d\"\r\n";
  corpus += resp::request({"MGET", "", "a", std::string_view("\r\n$3\r\n", 6), "*1"});
  corpus += resp::request({"ECHO", "0123456789"});
  const Heard want = feed_whole(corpus);
  REQUIRE(want.requests.size() == 5);
  for (size_t i = 0; i <= corpus.size(); ++i) {
    CHECK(feed({corpus.substr(0, i), corpus.substr(i)}) == want);
    for (size_t j = i; j <= corpus.size(); j += 7) {
      CHECK(feed({corpus.substr(0, i), corpus.substr(i, j - i), corpus.substr(j)}) == want);
    }
  }
  std::vector<std::string> single;
  for (const char c : corpus) single.emplace_back(1, c);
  CHECK(feed(single) == want);
}

TEST_CASE("request: random garbage and damaged requests never crash, and split alike") {
  Random random(20240607);
  const std::string letters = "*$\r\n0123-\"'\\x aPING+:";
  const RequestLimits limits{
      .args_max = 100, .bulk_bytes_max = 200, .inline_bytes_max = 100, .request_bytes_max = 1000};
  for (int round = 0; round < 20000; ++round) {
    std::string bytes;
    const bool damaged = round % 2 == 0;
    if (damaged) {
      for (int i = 0; i < 4; ++i) bytes += resp::request({"SET", "k", std::string(i * 20, 'z')});
      for (int i = 0; i < 2; ++i) {
        bytes[random.below(bytes.size())] = letters[random.below(letters.size())];
      }
    } else {
      const size_t size = random.below(60);
      for (size_t i = 0; i < size; ++i) bytes += letters[random.below(letters.size())];
    }
    const Heard want = feed_whole(bytes, limits);
    const size_t cut = random.below(bytes.size() + 1);
    CAPTURE(printable(bytes, 400));
    Heard got = feed({bytes.substr(0, cut), bytes.substr(cut)}, limits);
    REQUIRE(got == want);
  }
}

TEST_CASE("P07: a long pipeline in one buffer") {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += "*1\r\n$4\r\nPING\r\n";
  const Heard heard = feed_whole(bytes);
  CHECK(heard.requests.size() == 1000);
  CHECK(heard.left == 0);
}
