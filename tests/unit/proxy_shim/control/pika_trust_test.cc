// Who is trusted, and how a link behaves: pure of servers.
#include "proxy_shim/control/pika_trust.h"

#include <doctest/doctest.h>

#include "proxy_shim/control/pika_link_watch.h"
#include "proxy_shim/control/pika_processes.h"
#include "tests/unit/proxy_shim/control/fakes.h"

namespace sf {
namespace {

using Verdict = PikaTrust::Verdict;
constexpr PikaLink kUp = PikaLink::kUp;
constexpr PikaLink kCopies = PikaLink::kCopying;

class SetClock : public Clock {
 public:
  int64_t wall_ms() const override { return wall; }
  int64_t mono_us() const override { return wall * 1000; }
  int64_t wall = 1'000'000'000;
};

PikaServer server_of(const std::string& process, std::optional<int64_t> uptime_s) {
  PikaServer out;
  out.process = process;
  out.uptime_s = uptime_s;
  return out;
}

TEST_CASE(
    "I2 pika: a pair is trusted from its first look, another one not, by unit and over lives") {
  MemoryNotes notes;
  {
    PikaTrust trust(&notes);
    CHECK(*trust.look("", "a", "b", PikaLink::kDown, true) == Verdict::kTrusted);
    CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kRestarted);
    CHECK(*trust.look("901", "a", "c", kUp, true) == Verdict::kTrusted);
  }
  PikaTrust next(&notes);
  CHECK(*next.look("", "a", "b", kUp, true) == Verdict::kTrusted);
  CHECK(*next.look("", "x", "b", kUp, true) == Verdict::kRestarted);
  CHECK(*next.look("901", "x", "c", kUp, true) == Verdict::kRestarted);
}

TEST_CASE("I2 pika: a copy that was seen, to its end, makes a new pair") {
  MemoryNotes notes;
  PikaTrust trust(&notes), other(&notes);  // two drivers of one shim
  CHECK(*trust.look("", "a", "b", kUp, true) == Verdict::kTrusted);
  CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kRestarted);
  CHECK(*trust.look("", "a", "c", kCopies, false) == Verdict::kCopying);
  SUBCASE("the link comes up: its first look may be older than what the other one noted") {
    CHECK(*other.look("", "a", "c", kUp, true) == Verdict::kCopying);
    CHECK(*trust.look("", "a", "c", PikaLink::kDown, true) == Verdict::kCopying);
    CHECK(*trust.look("", "a", "c", kUp, false) == Verdict::kCopying);
    CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kCopying);
    CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kTrusted);
    CHECK(*other.look("", "a", "c", kUp, true) == Verdict::kTrusted);
    CHECK(*trust.look("", "a", "b", kUp, true) == Verdict::kRestarted);
  }
  SUBCASE("a copy that begins again is waited for again") {
    CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kCopying);
    CHECK(*trust.look("", "a", "c", kCopies, false) == Verdict::kCopying);
    CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kCopying);
  }
  SUBCASE("killed while it copied") {
    CHECK(*trust.look("", "a", "d", kUp, true) == Verdict::kRestarted);
    CHECK(*trust.look("", "a", "d", kUp, true) == Verdict::kRestarted);
  }
  SUBCASE("taken out of replication while it copied") {
    CHECK(trust.left("").is_ok());
    CHECK(*trust.look("", "a", "c", kUp, true) == Verdict::kRestarted);
  }
  SUBCASE("forgotten: no pair is trusted, the first one neither") {
    CHECK(trust.forget("").is_ok());
    CHECK(*trust.look("", "a", "b", kUp, true) == Verdict::kRestarted);
  }
}

TEST_CASE("I2 pika: leaving ends no trust, and a copy of who is trusted takes none away") {
  MemoryNotes notes;
  PikaTrust trust(&notes);
  CHECK(trust.left("").is_ok());
  CHECK(*trust.look("", "a", "b", kUp, true) == Verdict::kTrusted);
  CHECK(trust.left("").is_ok());
  CHECK(*trust.look("", "a", "b", kCopies, false) == Verdict::kCopying);
  CHECK(*trust.look("", "a", "b", kUp, true) == Verdict::kTrusted);
}

TEST_CASE("I9 pika: a pair is asked for a copy a few times, another one anew") {
  MemoryNotes notes;
  PikaTrust trust(&notes);
  for (int i = 0; i < PikaTrust::kAsksMost; ++i) CHECK(trust.ask_again("", "a", "b"));
  CHECK_FALSE(trust.ask_again("", "a", "b"));
  CHECK(trust.ask_again("901", "a", "b"));
  CHECK(trust.ask_again("", "a", "c"));
}

TEST_CASE("I2 pika: the name of a process holds over lives and drift, and changes with a restart") {
  MemoryNotes notes;
  SetClock clock;
  const HostPort at{"10.0.0.1", 9221};
  PikaProcesses processes(&notes, &clock);
  const std::string name = processes.name(at, server_of("pid 1", 600));
  CHECK(processes.name(at, server_of("pid 1", 601)) == name);
  for (int i = 1; i <= 40; ++i) {  // this clock gains five seconds at each look
    clock.wall += 15'000;
    CHECK(processes.name(at, server_of("pid 1", 600 + i * 10)) == name);
  }
  PikaProcesses next(&notes, &clock);
  CHECK(next.name(at, server_of("pid 1", 1000)) == name);
  CHECK(next.name(at, server_of("pid 2", 1000)) != name);
  const std::string again = next.name(at, server_of("pid 1", 5));  // as in a container
  CHECK(again != name);
  // Two drivers of one shim look at a second apart, and its uptime is cut to whole ones.
  clock.wall += 900;
  CHECK(processes.name(at, server_of("pid 1", 5)) == again);
  CHECK(next.name(at, server_of("pid 1", 6)) == again);
  CHECK(next.name({"10.0.0.2", 9221}, server_of("pid 1", 5)) != again);
  CHECK(next.name(at, server_of("pid 7", std::nullopt)) == "pid 7");
}

TEST_CASE("I2 pika: a server by its interface's address is asked once, an unknown one each time") {
  MemoryNotes notes;
  SetClock clock;
  PikaProcesses processes(&notes, &clock);
  const HostPort at{"127.0.0.1", 9221}, other{"10.0.0.1", 9221};
  const std::string name = processes.name(at, server_of("id pid 1", 600));
  int asked = 0;
  Result<PikaServer> answer = Status::unavailable("gone");
  const auto same = [&](const HostPort& said) {
    return processes.same_server(at, name, said, [&] {
      ++asked;
      return answer;
    });
  };
  CHECK(same(at));
  CHECK_FALSE(same({"10.0.0.1", 9222}));
  CHECK(asked == 0);
  CHECK_FALSE(same(other));
  answer = server_of("id pid 1", 599);
  CHECK(same(other));
  CHECK(same(other));
  CHECK(asked == 2);
  answer = server_of("id pid 1", 20);  // the same id in a container, another life
  CHECK_FALSE(same({"10.0.0.3", 9221}));
  answer = server_of("id pid 2", 600);
  CHECK_FALSE(same({"10.0.0.4", 9221}));
}

TEST_CASE("I2b pika: an endless copy and a record never got past are told from their looks") {
  PikaLinkWatch watch;
  const auto end = [](uint64_t offset) { return PikaLinkWatch::Ends{{"db0", {0, offset}}}; };
  for (uint64_t i = 1; i <= 3; ++i) watch.look("", false, true, end(i), end(90));
  CHECK(watch.copies_in_vain("") == 0);
  watch.look("", false, true, end(3), end(90));  // the same one still
  CHECK(watch.copies_in_vain("") == 0);
  watch.look("", false, true, end(4), end(90));
  CHECK(watch.copies_in_vain("") == 3);
  CHECK(watch.copies_in_vain("901") == 0);
  watch.look("", true, false, end(5), end(90));
  CHECK(watch.copies_in_vain("") == 0);
  for (int i = 0; i < 3; ++i) {
    watch.look("", false, false, end(5), end(90));
    CHECK(watch.ups_in_vain("") == 0);
    watch.look("", true, false, end(5), end(90));
  }
  CHECK(watch.ups_in_vain("") == 4);
  watch.look("", true, false, end(6), end(90));
  CHECK(watch.ups_in_vain("") == 0);
  for (int i = 0; i < 9; ++i) watch.look("", i % 2 == 0, false, end(90), end(90));
  CHECK(watch.ups_in_vain("") == 0);  // it has everything
}

}  // namespace
}  // namespace sf
