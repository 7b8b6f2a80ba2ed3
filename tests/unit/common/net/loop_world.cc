#include "tests/unit/common/net/loop_world.h"

#include "common/base/check.h"
#include "common/net/sim_loop.h"
#include "common/net/uv_loop.h"
#include "common/net/worker_pool.h"

namespace sf {
namespace {

class UvWorld : public LoopWorld {
 public:
  UvWorld() : loop_(make_uv_loop()), pool_(1, "second", [] { return make_uv_loop(); }) {}
  const char* name() const override { return "uv"; }
  Loop& loop() override { return *loop_; }
  Loop& second() override { return pool_.loop(0); }

 private:
  std::unique_ptr<Loop> loop_;
  WorkerPool pool_;
};

class SimWorld : public LoopWorld {
 public:
  explicit SimWorld(uint64_t seed)
      : network_(SimOptions{.seed = seed}),
        name_("sim " + std::to_string(seed)),
        loop_(network_.make_loop("first")),
        second_(network_.make_loop("second")) {}
  const char* name() const override { return name_.c_str(); }
  Loop& loop() override { return *loop_; }
  Loop& second() override { return *second_; }

 private:
  SimNetwork network_;
  std::string name_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Loop> second_;
};

}  // namespace

bool LoopWorld::run() {
  bool in_time = true;
  const TimerId guard = loop().call_after(10'000'000, [this, &in_time] {
    in_time = false;
    loop().stop();
  });
  loop().run();
  loop().cancel(guard);
  return in_time;
}

std::unique_ptr<LoopWorld> make_uv_world() {
  return std::make_unique<UvWorld>();
}

std::vector<std::unique_ptr<LoopWorld>> all_worlds() {
  std::vector<std::unique_ptr<LoopWorld>> out;
  out.push_back(make_uv_world());
  for (uint64_t seed = 1; seed <= 2; ++seed) out.push_back(std::make_unique<SimWorld>(seed));
  return out;
}

Server::Server(Loop& where, std::function<void(Peer&)> on_peer) {
  auto result =
      where.listen("127.0.0.1", 0, [this, &where, on_peer](std::unique_ptr<AcceptedSocket> s) {
        peers.push_back(std::make_unique<Peer>());
        Peer& peer = *peers.back();
        peer.stream = where.adopt(std::move(s), &peer);
        if (on_peer) on_peer(peer);
      });
  SF_CHECK(result.is_ok());
  listener = std::move(*result);
}

}  // namespace sf
