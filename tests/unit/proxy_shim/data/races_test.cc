// Clients under load while slots are cut over, aborted and drained at random: by seeds.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <thread>

#include "common/base/random.h"
#include "common/base/strings.h"
#include "common/resp/encoder.h"
#include "tests/support/redis_process.h"
#include "tests/unit/proxy_shim/data/shim_fixture.h"

using namespace sf;

namespace {

constexpr int kFirst = 900;
constexpr int kMoved = 24;
constexpr int kClients = 6;

// Increments keys of its own in pipelines and knows what each reply has to be.
class CountingClient {
 public:
  CountingClient(int port, int id, uint64_t seed) : client_(port), id_(id), random_(seed) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop) {
      std::vector<int> slots;
      std::vector<bool> reads;
      std::string bytes;
      const int depth = 1 + static_cast<int>(random_.below(20));
      for (int i = 0; i < depth; ++i) {
        slots.push_back(static_cast<int>(random_.below(kMoved)));
        reads.push_back(random_.chance(0.3));
        bytes += reads.back() ? resp::request({"GET", key(slots.back())})
                              : resp::request({"INCR", key(slots.back())});
      }
      client_.send_raw(bytes);
      for (size_t i = 0; i < slots.size(); ++i) check(slots[i], reads[i], client_.read());
    }
  }
  std::string key(int slot) const { return key_in(kFirst + slot, id_); }
  int64_t count(int slot) const { return counts_[static_cast<size_t>(slot)]; }
  int64_t wrong() const { return wrong_; }

 private:
  void check(int slot, bool is_read, const Reply& reply) {
    int64_t& count = counts_[static_cast<size_t>(slot)];
    if (!is_read) {
      ++count;
      wrong_ += reply.integer == count ? 0 : 1;
    } else {
      const auto value = reply.type == Reply::Type::kNil ? 0 : parse_int64(reply.text);
      wrong_ += value == count ? 0 : 1;
    }
  }

  TestClient client_;
  const int id_;
  Random random_;
  std::array<int64_t, kMoved> counts_{};
  int64_t wrong_ = 0;
};

struct Race {
  explicit Race(uint64_t seed) : random(seed) {
    for (int i = 0; i < kClients; ++i) {
      clients.push_back(std::make_unique<CountingClient>(shim.plane->port(), i, seed * 100 + i));
    }
    // A write to the old side after the drain of its slot is what I1 forbids.
    shim.old_server.set_rule([this](const Words& request) {
      if (request[0] == "INCR" && closed[static_cast<size_t>(slot_of(request[1]))]) ++violations;
      return FakeAction{};
    });
  }

  void close_old(const SlotSet& slots, bool is_closed) {
    slots.for_each([&](int slot) { closed[static_cast<size_t>(slot)] = is_closed; });
  }

  // One attempt on a few slots; true if they were switched.
  bool attempt(const SlotSet& slots) {
    shim.publish(slots, SlotPhase::kHold);
    if (random.chance(0.2)) {
      shim.publish(slots, SlotPhase::kOld);
      return false;
    }
    const auto drained = shim.plane->drain(slots, InFlight::kWrites, 5'000);
    CHECK(drained.is_ok());
    CHECK(drained->unanswered == 0);
    close_old(slots, true);
    shim.publish(slots, SlotPhase::kBarrier);
    for (const auto& client : clients) {
      slots.for_each([&](int slot) {
        const std::string key = client->key(slot - kFirst);
        const std::string value = shim.old_server.value(0, key);
        if (!value.empty()) shim.new_server.set_value(0, key, value);
      });
    }
    shim.publish(slots, SlotPhase::kPromote);
    if (random.chance(0.2)) {
      close_old(slots, false);
      shim.publish(slots, SlotPhase::kOld);
      return false;
    }
    shim.publish(slots, SlotPhase::kNew);
    return true;
  }

  void run() {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (auto& client : clients) threads.emplace_back([&] { client->run(stop); });
    for (int slot = 0; slot < kMoved;) {
      SlotSet unit;
      const int size = 1 + static_cast<int>(random.below(4));
      for (int i = 0; i < size && slot + i < kMoved; ++i) unit.add(kFirst + slot + i);
      if (attempt(unit)) slot += unit.size();
    }
    stop = true;
    for (auto& thread : threads) thread.join();
  }

  Random random;
  std::array<std::atomic<bool>, kSlotCount> closed{};
  std::atomic<int64_t> violations{0};
  ShimFixture shim;
  std::vector<std::unique_ptr<CountingClient>> clients;
};

}  // namespace

TEST_CASE(
    "I1 I2 I5: nothing is lost, doubled, stale or out of order over cutovers and aborts, by "
    "seeds") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    Race race(seed);
    race.run();
    CHECK(race.violations == 0);
    int64_t increments = 0;
    for (const auto& client : race.clients) {
      CHECK(client->wrong() == 0);
      for (int slot = 0; slot < kMoved; ++slot) {
        const std::string at_new = race.shim.new_server.value(0, client->key(slot));
        CHECK(parse_int64(at_new).value_or(0) == client->count(slot));
        increments += client->count(slot);
      }
    }
    CHECK(increments > 0);
    CHECK(race.shim.plane->stats().held_now == 0);
    CHECK(race.shim.plane->stats().errors == 0);
  }
}

TEST_CASE(
    "X03: SET k 1, INCR x 999, GET k is 1000, always, over many connections to a real server") {
  RedisProcess redis;
  ShimFixture shim;
  shim.table.old_side.address.port = redis.port();
  shim.publish();
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      TestClient c = shim.client();
      const std::string key = cat("x03-", t);
      std::string bytes = resp::request({"SET", key, "1"});
      for (int i = 0; i < 999; ++i) bytes += resp::request({"INCR", key});
      bytes += resp::request({"GET", key});
      for (int round = 0; round < 125; ++round) {
        c.send_raw(bytes);
        for (int i = 0; i < 1000; ++i) c.read_raw();
        if (c.read().text != "1000") ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE(
    "X02: servers that break at random places: an error or the right reply, never another's") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    ShimFixture shim;
    Random random(seed);
    shim.old_server.set_rule([&](const Words& request) {
      std::string reply;
      resp::bulk(reply, request[1] + std::string(random.below(3) * 20'000, '.'));
      if (!random.chance(0.02)) return FakeAction{FakeAction::Kind::kReply, reply};
      return FakeAction{FakeAction::Kind::kBreak, reply.substr(0, random.below(reply.size()))};
    });
    std::atomic<int64_t> wrong{0};
    std::atomic<int64_t> right{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        auto client = std::make_unique<TestClient>(shim.plane->port());
        for (int round = 0; round < 100; ++round) {
          for (int i = 0; i < 10; ++i)
            client->send({"GET", cat("key-", t, "-", round, "-", i, "!")});
          for (int i = 0; i < 10; ++i) {
            const auto reply = client->try_read();
            if (!reply) {
              client = std::make_unique<TestClient>(shim.plane->port());
              break;
            }
            if (reply->is_error()) continue;
            reply->text.starts_with(cat("key-", t, "-", round, "-", i, "!")) ? ++right : ++wrong;
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(right > 100);
  }
}
