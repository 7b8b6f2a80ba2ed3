// Bytes of clients: the request parser alone, and the data plane with slots in every phase.
#include <optional>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/resp/command_catalog.h"
#include "common/resp/request_parser.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

const std::vector<std::string> kNames = {"GET",
                                         "SET",
                                         "MGET",
                                         "MSET",
                                         "DEL",
                                         "UNLINK",
                                         "EXISTS",
                                         "TOUCH",
                                         "EVAL",
                                         "XREAD",
                                         "SORT",
                                         "nosuch",
                                         "PING",
                                         "INFO",
                                         "MULTI",
                                         "EXEC",
                                         "WATCH",
                                         "UNWATCH",
                                         "DISCARD",
                                         "AUTH",
                                         "HELLO",
                                         "SELECT",
                                         "CONFIG",
                                         "BLPOP",
                                         "INCR",
                                         "PFCOUNT",
                                         "QUIT",
                                         "SLOTSINFO",
                                         "SCAN",
                                         "SETRANGE",
                                         "ZADD",
                                         "GETRANGE",
                                         "SLOTSSCAN",
                                         "SLOTSMGRT-EXEC-WRAPPER",
                                         "CLIENT",
                                         "COMMAND",
                                         "SLOTSMGRTTAGSLOT",
                                         "ZUNIONSTORE",
                                         "XGROUP",
                                         "SLOTSMGRTTAGONE"};

std::vector<std::string> words() {
  std::vector<std::string> out{"{t}a", "{t}b", "GET", "SET",   "BLOCK", "STREAMS", "KEYS",
                               "EX",   "{",    "{}x", "a{b}c", "2",     "INFO",    "LIST"};
  for (int slot = 0; slot < 1024; slot += 64) out.push_back(key_in(slot));
  return out;
}

// What a parser makes of bytes that come in the pieces `cuts` say: requests, and how it ended.
std::string parsed(const std::string& bytes, const std::vector<size_t>& cuts) {
  RequestParser parser;
  Request request;
  std::string out;
  size_t used = 0;
  for (const size_t cut : cuts) {
    for (;;) {
      const std::string_view unread = std::string_view(bytes).substr(used, cut - used);
      const auto outcome = parser.parse(unread, &request);
      if (outcome == RequestParser::Outcome::kError) return out + "error " + parser.error();
      SF_CHECK(parser.consumed() <= unread.size());
      if (outcome == RequestParser::Outcome::kRequest) {
        SF_CHECK(!request.argv.empty() && parser.consumed() > 0);
        out += cat(request.raw.size(), ":");
        for (const auto word : request.argv) out += cat(word.size(), ",", word, ";");
        std::vector<int> positions;
        const CommandSpec* spec = find_command(request.argv[0]);
        if (spec != nullptr && spec->arity_ok(request.argv.size()) &&
            key_positions(*spec, request.argv, &positions)) {
          for (const int at : positions) {
            SF_CHECK(at > 0 && at < static_cast<int>(request.argv.size()));
          }
        }
      }
      used += parser.consumed();
      if (outcome == RequestParser::Outcome::kNeedMore) break;
    }
  }
  return out;
}

class Target {
 public:
  Target() {
    shim_.set(SlotSet::range(0, 200), SlotPhase::kNew);
    shim_.set(SlotSet::range(201, 300), SlotPhase::kFinal);
    shim_.set(SlotSet::range(301, 350), SlotPhase::kDoubt);
    shim_.set(SlotSet::range(351, 400), SlotPhase::kOutside);
    shim_.publish();
  }
  ~Target() {
    shim_.publish(SlotSet::range(401, 600), SlotPhase::kOld);
    SF_CHECK(eventually([&] { return shim_.plane->stats().clients == 0; }));
    SF_CHECK(eventually([&] { return shim_.plane->stats().inflight == 0; }));
    SF_CHECK(shim_.plane->stats().held_now == 0);
  }

  void operator()(Random& random) {
    std::string bytes;
    for (uint64_t i = 1 + random.below(12); i > 0; --i) {
      bytes += fuzz::some_request(random, kNames, words_);
    }
    if (random.below(4) != 0) fuzz::spoil(random, bytes, 5);
    SF_CHECK(parsed(bytes, {bytes.size()}) == parsed(bytes, fuzz::some_cuts(random, bytes.size())));
    if (++runs_ % 8 != 0) return;
    if (random.below(10) == 0) {
      const auto phase = random.below(2) == 0 ? SlotPhase::kHold : SlotPhase::kPromote;
      shim_.publish(SlotSet::range(401, 600), random.below(2) == 0 ? SlotPhase::kOld : phase);
    }
    TestClient client = shim_.client();
    size_t sent = 0;
    for (const size_t cut : fuzz::some_cuts(random, bytes.size())) {
      client.send_raw(std::string_view(bytes).substr(sent, cut - sent));
      sent = cut;
    }
    if (runs_ % 64 == 0) SF_CHECK(shim_.ask({"SET", quiet_key_, "v"}) == "+OK");
  }

 private:
  ShimFixture shim_;
  const std::vector<std::string> words_ = words();
  const std::string quiet_key_ = key_in(700, 3);
  uint64_t runs_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Target target;
  return fuzz::run("client-bytes-fuzz", argc, argv, [&](Random& random) { target(random); });
}
