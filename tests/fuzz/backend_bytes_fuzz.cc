// Bytes of the servers behind: the reply parser alone, joined parts, and the data plane.
#include <array>
#include <mutex>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/resp/reply_parser.h"
#include "proxy_shim/data/fanout.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

// The sizes of the replies found in bytes that come in pieces, and how it ended.
std::string framed(const std::string& bytes, const std::vector<size_t>& cuts) {
  ReplyParser parser;
  std::string out;
  size_t used = 0;
  for (const size_t cut : cuts) {
    while (used < cut) {
      const std::string_view unread = std::string_view(bytes).substr(used, cut - used);
      const auto outcome = parser.parse(unread);
      if (outcome == ReplyParser::Outcome::kError) return out + "error";
      if (outcome == ReplyParser::Outcome::kNeedMore) {
        SF_CHECK(parser.scanned() <= unread.size());
        break;
      }
      SF_CHECK(parser.size() > 0 && parser.size() <= unread.size());
      // Numbers are not looked at to find the end: only the tree form refuses wrong ones.
      static_cast<void>(decode_reply(unread.substr(0, parser.size())));
      out += cat(parser.size(), " ");
      used += parser.size();
    }
  }
  return out;
}

bool is_one_reply(const std::string& bytes) {
  ReplyParser parser;
  return parser.parse(bytes) == ReplyParser::Outcome::kReply && parser.size() == bytes.size();
}

void join(Random& random) {
  static const char* const names[] = {"MGET", "DEL", "MSET"};
  const std::string name = names[random.below(3)];
  std::vector<std::string_view> argv{name};
  std::vector<int> positions;
  std::vector<Side> sides;
  const size_t step = name == "MSET" ? 2 : 1;
  for (size_t i = 0; i < 2 + random.below(5); ++i) {
    positions.push_back(static_cast<int>(argv.size()));
    sides.push_back(i == 0 ? Side::kOld : i == 1 ? Side::kNew : static_cast<Side>(random.below(2)));
    for (size_t k = 0; k < step; ++k) argv.push_back("x");
  }
  Pending whole;
  Fanout fanout(&whole, *find_command(name), argv, positions, sides);
  for (size_t part = 0; part < Fanout::kParts; ++part) {
    std::string reply = fuzz::some_reply(random, 2);
    fuzz::spoil(random, reply, 2);
    if (!is_one_reply(reply)) reply = fuzz::some_reply(random, 1);
    fanout.add_reply(part, reply);
  }
  std::string joined;
  fanout.joined(joined);
  SF_CHECK(is_one_reply(joined));
}

class Target {
 public:
  Target() {
    shim_.publish(SlotSet::range(0, 500), SlotPhase::kNew);
    for (FakeServer* server : {&shim_.old_server, &shim_.new_server}) {
      server->set_rule([this](const Words& request) { return answer(request); });
    }
  }
  ~Target() {
    for (FakeServer* server : {&shim_.old_server, &shim_.new_server}) server->set_rule({});
    SF_CHECK(eventually([&] { return shim_.plane->stats().inflight == 0; }));
  }

  void operator()(Random& random) {
    std::string bytes;
    for (uint64_t i = 1 + random.below(5); i > 0; --i) bytes += fuzz::some_reply(random, 3);
    if (random.below(4) != 0) fuzz::spoil(random, bytes, 4);
    SF_CHECK(framed(bytes, {bytes.size()}) == framed(bytes, fuzz::some_cuts(random, bytes.size())));
    join(random);
    if (++runs_ % 16 != 0) return;
    {
      const std::lock_guard lock(mutex_);
      bytes_ = bytes;
      is_kept_open_ = random.below(2) == 0;
    }
    TestClient client = shim_.client();
    client.send({"GET", cat("a", runs_)});
    client.send({"MGET", cat("a", runs_), cat("b", runs_), cat("c", runs_)});
    client.send({"DEL", cat("a", runs_), cat("b", runs_)});
    SF_CHECK(client.has_reply_within(10'000) || client.is_closed());
  }

 private:
  // What is left open ends with a byte no reply begins with: an unfinished reply is then a broken
  // one, not one to wait for.
  FakeAction answer(const Words&) {
    const std::lock_guard lock(mutex_);
    if (is_kept_open_) return {FakeAction::Kind::kReply, bytes_ + std::string(200'000, '!')};
    return {FakeAction::Kind::kBreak, bytes_};
  }

  ShimFixture shim_;
  std::mutex mutex_;
  std::string bytes_;
  bool is_kept_open_ = false;
  uint64_t runs_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Target target;
  return fuzz::run("backend-bytes-fuzz", argc, argv, [&](Random& random) { target(random); });
}
