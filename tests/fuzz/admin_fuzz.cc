// Bytes on the admin port: RESP commands and HTTP requests, whole and spoiled.
#include <memory>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "proxy_shim/control/admin_server.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_client.h"
#include "tests/unit/proxy_shim/control/fakes.h"

using namespace sf;

namespace {

const std::vector<std::string> kNames = {"SHIM", "SHIM", "SHIM",   "SHIM", "PING",  "HELP",
                                         "AUTH", "QUIT", "CLIENT", "INFO", "nosuch"};
const std::vector<std::string> kWords = {
    "STATUS", "SLOTS", "LOCK",    "UNLOCK",   "PERMIT", "CUTOVER", "ROLLBACK",
    "ABORT",  "AUTO",  "FINAL",   "READS",    "GUARD",  "HELP",    "ON",
    "OFF",    "901",   "901-910", "all",      "1-2000", "905-901", "AS",
    "me",     "1",     "FORCE",   "MAXPAUSE", "100",    ",",       "owner"};
const std::vector<std::string> kHttp = {
    "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n",
    "GET /api/v1/slots HTTP/1.1\r\nConnection: close\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n",
    "GET /nothing?x=%zz HTTP/1.1\r\nAuthorization: Basic eDp5\r\n\r\n"};

class Target {
 public:
  Target() : board_(plan_), permits_(&clock_) {
    store_ = std::move(*StateStore::open(dir_.path(), plan_, true, &clock_));
    board_.attach(&plane_);
    ports_ = {&plan_, store_.get(), &board_, &permits_, &driver_, &plane_, &stats_, &clock_, Log()};
    RunnerOptions options;
    options.state_dir = dir_.path();
    options.attempts_max = 1;
    runner_ = std::make_unique<CutoverRunner>(ports_, options);
    report_ = std::make_unique<ShimReport>(ports_, "0123");
    commands_ = std::make_shared<AdminCommands>(ports_, runner_.get(), report_.get());
    server_ = std::make_unique<AdminServer>(
        AdminOptions{}, [this] { return commands_; }, 0, Log());
    SF_CHECK(server_->start().is_ok());
    runner_->start();
  }
  ~Target() {
    runner_->stop();
    server_->stop();
  }

  void operator()(Random& random) {
    std::string bytes;
    if (random.below(5) == 0) {
      bytes = kHttp[random.below(kHttp.size())];
    } else {
      for (uint64_t i = 1 + random.below(4); i > 0; --i) {
        bytes += fuzz::some_request(random, kNames, kWords);
      }
    }
    if (random.below(3) != 0) fuzz::spoil(random, bytes, 4);
    {
      TestClient client(server_->port());
      size_t sent = 0;
      for (const size_t cut : fuzz::some_cuts(random, bytes.size())) {
        client.send_raw(std::string_view(bytes).substr(sent, cut - sent));
        sent = cut;
      }
    }
    if (++runs_ % 8 != 0) return;
    TestClient next(server_->port());
    SF_CHECK(reply_text(next.call({"PING"})) == "+PONG");
  }

 private:
  TempDir dir_;
  SystemClock clock_;
  MovePlan plan_ = test_plan();
  std::unique_ptr<StateStore> store_;
  SlotBoard board_;
  Permits permits_;
  FakeDriver driver_;
  FakePlane plane_;
  PauseStats stats_;
  RunPorts ports_;
  std::unique_ptr<CutoverRunner> runner_;
  std::unique_ptr<ShimReport> report_;
  std::shared_ptr<AdminCommands> commands_;
  std::unique_ptr<AdminServer> server_;
  uint64_t runs_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Target target;
  return fuzz::run("admin-fuzz", argc, argv, [&](Random& random) { target(random); });
}
