#include "proxy_shim/shim.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/base/random.h"

namespace sf {
namespace {

constexpr int kFolderFormat = 1;
constexpr int64_t kConnectMs = 1'000;
constexpr int64_t kAskMs = 2'000;
constexpr int64_t kRedialMs = 100;
constexpr int kVerdictsTold = 5;  // of a start, in the log; all stand in SHIM SLOTS

}  // namespace

Shim::Shim(ShimOptions options, Log log) : options_(std::move(options)), log_(std::move(log)) {
  run_id_ = Random(Random::system_seed()).hex(40);
  options_.data.run_id = run_id_;
}

Shim::~Shim() {
  stop();
}

Status Shim::start() {
  Result<MovePlan> plan = MovePlan::load(options_.plan_file);
  if (!plan) return plan.status();
  plan_ = std::move(*plan);
  Status status = open_state();
  if (status) status = reach_servers();
  if (status) status = settle();
  if (status) status = serve();
  return status;
}

Status Shim::open_state() {
  Result<std::unique_ptr<StateFolder>> folder =
      StateFolder::open(options_.dir, "slotferry-shim", kFolderFormat);
  if (!folder) return folder.status();
  folder_ = std::move(*folder);
  Result<std::unique_ptr<StateStore>> store =
      StateStore::open(options_.dir, plan_, options_.init, &clock_);
  if (!store) return store.status();
  store_ = std::move(*store);
  store_->on_entry([this](uint64_t n, const std::string& line) { feed_.publish(n, line); });
  return Status::ok();
}

Status Shim::reach_servers() {
  const std::string name = "slotferry-shim-" + run_id_.substr(0, 8);
  const int64_t deadline = clock_.mono_us() + (options_.init ? 0 : options_.backend_wait_ms * 1000);
  for (;;) {
    Result<std::unique_ptr<BackendDriver>> driver =
        make_driver(plan_, store_.get(), &clock_, name, kConnectMs);
    if (driver) {
      driver_ = std::move(*driver);
      return Status::ok();
    }
    const bool may_come =
        driver.status().code() == Code::kUnavailable || driver.status().code() == Code::kTimeout;
    if (!may_come || clock_.mono_us() >= deadline) return driver.status();
    // Nothing tells when a server comes up; asking again is all there is.
    std::this_thread::sleep_for(std::chrono::milliseconds(kRedialMs));
  }
}

Status Shim::settle() {
  Result<StartVerdicts> verdicts = settle_at_start(plan_, *store_, *driver_, kAskMs, log_);
  if (!verdicts) return verdicts.status();
  verdicts_ = std::move(*verdicts);
  board_ = std::make_unique<SlotBoard>(plan_);
  bool mark_owed = false;
  int told = 0;
  for (const auto& [slot, verdict] : verdicts_.slots) {
    const SlotRecord record = store_->record(slot);
    board_->set_phase(SlotSet::of(slot), verdict.phase, record.epoch, verdict.text);
    if (!verdict.text.empty() && ++told <= kVerdictsTold) log_.warning(verdict.text);
    mark_owed = mark_owed || verdict.debts.mark;
  }
  if (told > kVerdictsTold) {
    log_.warning(cat("the same or another thing is to be said of ", told - kVerdictsTold,
                     " more slots: SHIM SLOTS"));
  }
  // Without its marker the new side takes no client write.
  return board_->stop_writes(PairSide::kNew, SlotBoard::Reason::kMarker, mark_owed);
}

void Shim::make_runner() {
  ports_ = {&plan_,       store_.get(), board_.get(), permits_.get(),        driver_.get(),
            plane_.get(), &stats_,      &clock_,      log_.tagged("cutover")};
  RunnerOptions options;
  options.max_pause_ms = plan_.max_pause_ms;
  options.hold_share_percent = plan_.hold_share_percent;
  options.state_dir = options_.dir;
  runner_ = std::make_unique<CutoverRunner>(ports_, options);
  SlotSet done;
  for (const auto& [slot, verdict] : verdicts_.slots) {
    const CutoverMachine::Debts& debts = verdict.debts;
    if (done.contains(slot) || !(debts.follow || debts.unfence || debts.mark || debts.link))
      continue;
    const SlotSet unit = plan_.unit == CutUnit::kPlan ? plan_.slots : SlotSet::of(slot);
    runner_->owe(unit, debts, verdicts_.epoch);
    done.add(unit);
  }
}

Status Shim::serve() {
  permits_ = std::make_unique<Permits>(&clock_);
  plane_ = make_data_plane(options_.data, log_.tagged("data"));
  make_runner();
  plane_->on_hold_overflow([this] { runner_->interrupt("too much was held"); });
  Result<std::unique_ptr<BackendDriver>> second =
      make_driver(plan_, store_.get(), &clock_, "slotferry-shim-monitor", kConnectMs);
  if (!second) return second.status();
  monitor_ = std::make_unique<BackendMonitor>(
      plan_, std::move(*second), board_.get(), plane_.get(), store_.get(),
      [this] { runner_->wake(); }, [this](const std::string& why) { runner_->interrupt(why); },
      log_.tagged("monitor"));
  // Facts before the first client: a dashboard's first INFO must be answered sensibly.
  monitor_->round();
  Status status = plane_->start(board_->make_table());
  if (!status) return status;
  board_->attach(plane_.get());
  report_ = std::make_unique<ShimReport>(ports_, run_id_);
  pages_ = std::make_unique<AdminPages>(report_.get(), &feed_, options_.admin.password);
  status = pages_->start();
  if (!status) return status;
  commands_ = std::make_unique<AdminCommands>(ports_, runner_.get(), report_.get());
  admin_ = std::make_unique<AdminServer>(options_.admin, commands_.get(), pages_->port(),
                                         log_.tagged("admin"));
  status = admin_->start();
  if (!status) return status;
  runner_->start();
  monitor_->start();
  store_->audit({{"what", "shim serves"},
                 {"run_id", run_id_},
                 {"port", plane_->port()},
                 {"admin_port", admin_->port()}});
  return Status::ok();
}

void Shim::stop() {
  if (monitor_) monitor_->stop();
  if (runner_) runner_->stop();
  if (plane_) plane_->shut_down(options_.drain_ms);
  if (pages_) pages_->stop();
  if (admin_) admin_->stop();
  if (admin_ && store_) store_->audit({{"what", "shim stops"}, {"run_id", run_id_}});
  admin_.reset();
  pages_.reset();
  commands_.reset();
  monitor_.reset();
  runner_.reset();
  plane_.reset();
}

}  // namespace sf
