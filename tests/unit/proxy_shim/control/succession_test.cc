// What a former master's silence means, against servers that answer what the test says; the
// comparisons themselves run against real servers in tests/e2e/test_shim_planned_promote.
#include "proxy_shim/control/succession.h"

#include <doctest/doctest.h>

#include "common/resp/encoder.h"
#include "tests/support/fake_server.h"

namespace sf {
namespace {

constexpr int64_t kMs = 300;
using Verdict = Succession::Verdict;

PlanSide side_of(int port, const std::string& password = "") {
  PlanSide out;
  out.master = {"127.0.0.1", port};
  out.servers = {out.master};
  out.password = password;
  return out;
}

Succession compare(ServerKind kind, const PlanSide& former, const PlanSide& successor) {
  return compare_successor(kind, former, successor, SlotSet::range(901, 910), "test", kMs);
}

const ServerKind kKinds[] = {ServerKind::kNode, ServerKind::kRedis, ServerKind::kPika,
                             ServerKind::kPikaSharding};

TEST_CASE("I2: a former master that is there and will not say what it has is not gone") {
  for (const ServerKind kind : kKinds) {
    CAPTURE(kind_text(kind));
    FakeServer locked("another password"), successor;
    const Succession refused =
        compare(kind, side_of(locked.port(), "the plan's"), side_of(successor.port()));
    CHECK(refused.verdict == Verdict::kUnknown);
    CHECK(refused.text.find("refuses the password") != std::string::npos);
    FakeServer loading;
    loading.set_rule([](const Words& words) {
      if (words[0] == "CLIENT") return FakeAction{};
      std::string out;
      resp::error(out, "LOADING the dataset");
      return FakeAction{FakeAction::Kind::kReply, out};
    });
    const Succession busy = compare(kind, side_of(loading.port()), side_of(successor.port()));
    CHECK(busy.verdict == Verdict::kUnknown);
    CHECK(busy.text.find("LOADING") != std::string::npos);
  }
}

TEST_CASE("DESIGN 6.6: a former master that is dead, or hangs, is gone") {
  for (const ServerKind kind : kKinds) {
    CAPTURE(kind_text(kind));
    FakeServer successor;
    auto dead = std::make_unique<FakeServer>();
    const PlanSide former = side_of(dead->port());
    dead->set_rule([](const Words&) { return FakeAction{FakeAction::Kind::kWait, ""}; });
    CHECK(compare(kind, former, side_of(successor.port())).verdict == Verdict::kGone);
    dead.reset();
    const Succession found = compare(kind, former, side_of(successor.port()));
    CHECK(found.verdict == Verdict::kGone);
    CHECK(found.text.find("does not answer") != std::string::npos);
  }
}

}  // namespace
}  // namespace sf
