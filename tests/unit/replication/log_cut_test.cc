// The master's side when the log a replica needs is gone: the last words say who, where and why.
#include <doctest/doctest.h>

#include "replication/feed_session.h"

namespace sf {
namespace {

const std::string kHistory(40, 'a');

struct Cut {
  std::string said;
  Status closed;
};

FeedSession opened() {
  FeedSession session(FeedLimits{}, 0);
  feed::Asked asked;
  asked.sync = {wire::kProtocol, "replica", 9221, true, {{SlotSet::all(), {}}}};
  asked.run_id = "master";
  REQUIRE(asked.chain.add({kHistory, "", 0}));
  asked.last_seq = 100;
  session.step(asked, 0);
  REQUIRE(session.state() == FeedSession::State::kOpen);
  return session;
}

Cut cut(FeedSession& session) {
  Cut out;
  for (const auto& action : session.step(feed::LogCut{"10.0.0.1:9221", "over wal-keep-size"}, 0)) {
    if (auto* send = std::get_if<feed::Send>(&action)) out.said = send->bytes;
    if (auto* close = std::get_if<feed::Close>(&action)) out.closed = close->why;
  }
  return out;
}

TEST_CASE("feed: a copy that outlived its log says that it cannot finish (R08)") {
  FeedSession session = opened();
  session.step(feed::Said{wire::Fetch{5}}, 0);
  const Cut end = cut(session);
  CHECK(end.said.find("lost") != std::string::npos);
  CHECK(end.said.find("copy of replica 10.0.0.1:9221 cannot finish: over wal-keep-size") !=
        std::string::npos);
  CHECK(session.state() == FeedSession::State::kClosed);
  CHECK(end.closed.text().find("cannot finish") != std::string::npos);
}

TEST_CASE("feed: a replica too far behind is cut, not fed for ever (R22)") {
  FeedSession session = opened();
  session.step(feed::Said{wire::StreamFrom{{kHistory, 100}}}, 0);
  REQUIRE(session.state() == FeedSession::State::kStreaming);
  const Cut end = cut(session);
  CHECK(end.said.find("replica 10.0.0.1:9221 fell too far behind and was cut") !=
        std::string::npos);
  CHECK(session.state() == FeedSession::State::kClosed);
}

}  // namespace
}  // namespace sf
