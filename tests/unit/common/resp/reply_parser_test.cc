#include "common/resp/reply_parser.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"

using namespace sf;
using Outcome = ReplyParser::Outcome;

namespace {

struct Heard {
  std::vector<std::string> replies;
  std::string error;
  size_t left = 0;
  bool operator==(const Heard&) const = default;
};

Heard feed(const std::vector<std::string>& pieces, ReplyLimits limits = {}) {
  Heard heard;
  ReplyParser parser(limits);
  std::string buffer;
  for (const auto& piece : pieces) {
    buffer += piece;
    while (!buffer.empty()) {
      const std::string now = buffer;
      const Outcome outcome = parser.parse(now);
      if (outcome == Outcome::kError) {
        heard.error = parser.error();
        return heard;
      }
      if (outcome == Outcome::kNeedMore) break;
      heard.replies.push_back(now.substr(0, parser.size()));
      buffer.erase(0, parser.size());
    }
  }
  heard.left = buffer.size();
  return heard;
}

const std::vector<std::string> kReplies = {
    "+OK\r\n",
    "-ERR no\r\n",
    ":-12\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "$0\r\n\r\n",
    "$5\r\na\r\nbc\r\n",
    "*0\r\n",
    "*2\r\n$1\r\na\r\n*3\r\n:1\r\n*0\r\n*1\r\n*-1\r\n",
    "*2\r\n*1\r\n+x\r\n$12\r\n0123456789ab\r\n",
};

std::string joined() {
  std::string all;
  for (const auto& reply : kReplies) all += reply;
  return all;
}

}  // namespace

TEST_CASE("reply: every split of a stream frames the same") {
  const std::string all = joined();
  const Heard want{kReplies, "", 0};
  CHECK(feed({all}) == want);
  for (size_t i = 0; i <= all.size(); ++i) {
    CHECK(feed({all.substr(0, i), all.substr(i)}) == want);
  }
  std::vector<std::string> single;
  for (const char c : all) single.emplace_back(1, c);
  CHECK(feed(single) == want);
}

TEST_CASE("reply: a big one may be passed on in pieces by drop_prefix") {
  std::string reply;
  resp::array(reply, 3);
  resp::bulk(reply, std::string(1000, 'a'));
  resp::bulk(reply, std::string(1000, 'b'));
  resp::integer(reply, 7);
  for (const size_t piece : {1U, 2U, 3U, 7U, 100U, 1003U}) {
    ReplyParser parser;
    std::string buffer;
    std::string passed;
    for (size_t i = 0; i < reply.size(); i += piece) {
      buffer += reply.substr(i, piece);
      const Outcome outcome = parser.parse(buffer);
      if (outcome == Outcome::kNeedMore) {
        const size_t n = parser.scanned();
        passed += buffer.substr(0, n);
        buffer.erase(0, n);
        parser.drop_prefix(n);
        CHECK(buffer.size() < 40);
      } else {
        REQUIRE(outcome == Outcome::kReply);
        passed += buffer.substr(0, parser.size());
      }
    }
    CHECK(passed == reply);
  }
}

TEST_CASE("reply: what is no RESP2 is an error (contracts/codis 1.4)") {
  for (const char* bytes :
       {"_\r\n",        "%1\r\n",      "#t\r\n",    ",1.5\r\n",   "(1\r\n",     ">1\r\n",
        "~1\r\n",       "OK\r\n",      "+OK\n",     ":1\n",       "$-2\r\n",    "$x\r\n",
        "*-2\r\n",      "*x\r\n",      "$1\r\nabc", "$1\r\na\nb", "$1\r\na\rb", "$536870913\r\n",
        "*1048577\r\n", "*1\r\n_\r\n", "$1\n",      "$\r\n"}) {
    CAPTURE(printable(bytes));
    CHECK_FALSE(feed({bytes}).error.empty());
    std::vector<std::string> single;
    for (const char* c = bytes; *c != '\0'; ++c) single.emplace_back(1, *c);
    CHECK_FALSE(feed(single).error.empty());
  }
}

TEST_CASE("reply: limits") {
  const ReplyLimits limits{
      .bulk_bytes_max = 5, .elements_max = 3, .depth_max = 2, .line_bytes_max = 10};
  CHECK(feed({"$6\r\n"}, limits).error == "bulk too long");
  CHECK(feed({"*4\r\n"}, limits).error == "array too long");
  CHECK(feed({"*1\r\n*1\r\n*1\r\n"}, limits).error == "arrays nested too deep");
  CHECK(feed({"+01234567890123"}, limits).error == "line too long");
  CHECK(feed({"+012345678\r\n"}, limits).error.empty());
  CHECK(feed({"$" + std::string(40, '1')}, limits).error == "line too long");
}

TEST_CASE("reply: random garbage never crashes, and splits alike") {
  Random random(77);
  const std::string letters = "+-:$*\r\n0123ab";
  const ReplyLimits limits{
      .bulk_bytes_max = 50, .elements_max = 10, .depth_max = 3, .line_bytes_max = 20};
  for (int round = 0; round < 30000; ++round) {
    std::string bytes;
    if (round % 2 == 0) {
      bytes = joined();
      bytes[random.below(bytes.size())] = letters[random.below(letters.size())];
    } else {
      const size_t size = random.below(40);
      for (size_t i = 0; i < size; ++i) bytes += letters[random.below(letters.size())];
    }
    const size_t cut = random.below(bytes.size() + 1);
    CAPTURE(printable(bytes, 400));
    const Heard want = feed({bytes}, limits);
    Heard got = feed({bytes.substr(0, cut), bytes.substr(cut)}, limits);
    REQUIRE(got == want);
    for (const auto& reply : want.replies) (void)decode_reply(reply).is_ok();
  }
}

TEST_CASE("reply: the tree form") {
  const auto tree = decode_reply("*4\r\n$1\r\na\r\n:-3\r\n*2\r\n+OK\r\n-ERR x\r\n$-1\r\n");
  REQUIRE(tree.is_ok());
  REQUIRE(tree->elements.size() == 4);
  CHECK(tree->elements[0].text == "a");
  CHECK(tree->elements[1].integer == -3);
  CHECK(tree->elements[2].elements[0].is_ok());
  CHECK(tree->elements[2].elements[1].is_error());
  CHECK(tree->elements[2].elements[1].text == "ERR x");
  CHECK(tree->elements[3].type == Reply::Type::kNil);
  CHECK(decode_reply("$-1\r\n")->type == Reply::Type::kNil);
  CHECK(decode_reply("*-1\r\n")->type == Reply::Type::kNil);
  CHECK(decode_reply("*0\r\n")->type == Reply::Type::kArray);
  CHECK_FALSE(decode_reply(":x\r\n").is_ok());
  CHECK_FALSE(decode_reply("+OK\r\n+OK\r\n").is_ok());
  CHECK_FALSE(decode_reply("+OK").is_ok());
  CHECK_FALSE(decode_reply("").is_ok());
}
