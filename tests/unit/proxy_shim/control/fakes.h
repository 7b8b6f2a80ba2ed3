// A pair of servers and a data plane that do what the test says, for tests of the cutover's shell.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "proxy_shim/control/backend_driver.h"
#include "proxy_shim/data/data_plane.h"

namespace sf {

inline MovePlan test_plan(CutUnit unit = CutUnit::kSlot) {
  MovePlan plan;
  plan.id = "p1";
  plan.dashboard = {"127.0.0.1", 18080};
  plan.product = "demo";
  plan.slots = SlotSet::range(901, 910);
  plan.source_group = 3;
  plan.target_group = 4;
  plan.shim_group = 9;
  plan.old_side.master = {"127.0.0.1", 7001};
  plan.new_side.master = {"127.0.0.1", 7003};
  plan.unit = unit;
  plan.max_pause_ms = 200;
  return plan;
}

// Answers with success unless `fail` names the call; writes every call down. Thread-safe.
class FakeDriver : public BackendDriver {
 public:
  CutTraits fake_traits;
  std::function<void(const std::string&)> on_call;  // before the answer
  std::function<void()> on_sync;                    // when sync_state() is asked

  void fail(const std::string& call, const Status& status) {
    std::lock_guard guard(mutex_);
    failures_[call] = status;
  }
  void mend(const std::string& call) {
    std::lock_guard guard(mutex_);
    failures_.erase(call);
  }
  std::vector<std::string> calls() const {
    std::lock_guard guard(mutex_);
    return calls_;
  }
  int count(const std::string& call) const {
    std::lock_guard guard(mutex_);
    return static_cast<int>(std::count(calls_.begin(), calls_.end(), call));
  }
  ReplPosition end{"h", 10};
  bool applied = true;
  SyncState sync{true, 0, ""};
  Survey fake_survey;

  const CutTraits& traits() const override { return fake_traits; }
  const char* kind() const override { return "fake"; }
  Status connect(int64_t) override { return Status::ok(); }
  Status raise_epoch(const CutAttempt&, int64_t) override { return call("raise_epoch"); }
  Status announce(const CutAttempt&, int64_t) override { return call("announce"); }
  // Of the last call of that name; 0: none.
  uint64_t epoch_of(const std::string& call) const {
    std::lock_guard guard(mutex_);
    const auto found = epochs_.find(call);
    return found == epochs_.end() ? 0 : found->second;
  }
  Result<ReplPosition> fence(const CutAttempt& attempt, int64_t, int64_t) override {
    return at("fence", end, attempt.epoch);
  }
  Result<bool> wait_applied(const CutAttempt&, const ReplPosition&, int64_t) override {
    Status status = call("wait_applied");
    if (!status) return status;
    return applied;
  }
  Status check_writers(int64_t) override { return call("check_writers"); }
  Result<ReplPosition> fence_permanent(const CutAttempt&, int64_t) override {
    return at("fence_permanent", end);
  }
  Result<ReplPosition> promote(const CutAttempt& attempt, const ReplPosition&, int64_t) override {
    return at("promote", {"n", 1}, attempt.epoch);
  }
  Result<Ends> read_ends(const CutAttempt&, const ReplPosition&, int64_t) override {
    Status status = call("read_ends");
    if (!status) return status;
    return Ends{end, end};
  }
  Status mark(const CutAttempt&, int64_t) override { return call("mark"); }
  Result<uint64_t> marker(int64_t) override { return uint64_t{0}; }
  Status release(const CutAttempt&, int64_t) override { return call("release"); }
  Status link_reverse(const CutAttempt&, const ReplPosition&, int64_t) override {
    return call("link_reverse");
  }
  Status follow_again(const CutAttempt& attempt, const ReplPosition&, int64_t) override {
    return call("follow_again", attempt.epoch);
  }
  Status unfence(const CutAttempt& attempt, int64_t) override {
    return call("unfence", attempt.epoch);
  }
  Result<Survey> survey(const SlotSet&, int64_t) override {
    Status status = call("survey");
    if (!status) return status;
    return fake_survey;
  }
  SyncState sync_state(const SlotSet&, int64_t) override {
    if (on_sync) on_sync();
    return sync;
  }
  Result<ServerFacts> facts(PairSide, int64_t) override { return ServerFacts{}; }
  int64_t lag_limit() const override { return 100; }

 private:
  Status call(const std::string& name, uint64_t epoch = 0) {
    if (on_call) on_call(name);
    std::lock_guard guard(mutex_);
    calls_.push_back(name);
    epochs_[name] = epoch;
    const auto found = failures_.find(name);
    return found == failures_.end() ? Status::ok() : found->second;
  }
  Result<ReplPosition> at(const std::string& name, const ReplPosition& position,
                          uint64_t epoch = 0) {
    Status status = call(name, epoch);
    if (!status) return status;
    return position;
  }

  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, uint64_t> epochs_;
  std::map<std::string, Status> failures_;
};

// Writes down the phase of one watched slot in every table.
class FakePlane : public DataPlane {
 public:
  explicit FakePlane(int watched = 901) : watched_(watched) {}

  std::vector<std::string> phases() const {
    std::lock_guard guard(mutex_);
    return phases_;
  }
  // The most units held in one table, where a unit is a slot.
  int most_held() const {
    std::lock_guard guard(mutex_);
    return most_held_;
  }
  int64_t unanswered = 0;
  Status drain_answer;

  Status start(std::shared_ptr<const RouteTable>) override { return Status::ok(); }
  int port() const override { return 0; }
  Status publish(std::shared_ptr<const RouteTable> table) override {
    std::lock_guard guard(mutex_);
    if (table->epoch <= last_epoch_) return Status::corrupt("epoch went back");
    last_epoch_ = table->epoch;
    std::string text = phase_name(table->phase[static_cast<size_t>(watched_)]);
    if (table->new_writes_stopped) text += "-stopped";
    if (table->back.contains(watched_)) text += "-back";
    if (phases_.empty() || phases_.back() != text) phases_.push_back(text);
    int held = 0;
    for (const SlotPhase phase : table->phase) {
      if (phase == SlotPhase::kHold || phase == SlotPhase::kPromote) ++held;
    }
    most_held_ = std::max(most_held_, held);
    return Status::ok();
  }
  Result<Drained> drain(const SlotSet&, InFlight, int64_t, Side side) override {
    {
      std::lock_guard guard(mutex_);
      drained_.push_back(side);
    }
    if (!drain_answer) return drain_answer;
    return Drained{unanswered};
  }
  std::vector<Side> drained() const {
    std::lock_guard guard(mutex_);
    return drained_;
  }
  void forget_unanswered(const SlotSet&, Side) override {}
  HoldReport take_hold_report(const SlotSet& slots) override { return {slots, 3, 100, 1234}; }
  void on_hold_overflow(std::function<void()>) override {}
  void on_stranger(std::function<void()>) override {}
  void set_rules(const DataRules& rules) override {
    std::lock_guard guard(mutex_);
    rules_ = rules;
  }
  DataRules rules() const override {
    std::lock_guard guard(mutex_);
    return rules_;
  }
  ReadCheckCounts read_checks(SlotDifferences*) const override { return {}; }
  void set_facts(std::shared_ptr<const BackendFacts>) override {}
  DataPlaneStats stats() const override { return {}; }
  Histogram latency_us() const override { return {}; }
  void shut_down(int64_t) override {}

 private:
  const int watched_;
  mutable std::mutex mutex_;
  std::vector<std::string> phases_;
  std::vector<Side> drained_;
  uint64_t last_epoch_ = 0;
  int most_held_ = 0;
  DataRules rules_;
};

// A driver's notes, as the state store keeps them.
class MemoryNotes : public DriverNotes {
 public:
  std::map<std::string, std::string> values;
  std::optional<std::string> note(const std::string& key) const override {
    const auto found = values.find(key);
    if (found == values.end()) return std::nullopt;
    return found->second;
  }
  Status put_note(const std::string& key, const std::string& value) override {
    values[key] = value;
    return Status::ok();
  }
  Status drop_note(const std::string& key) override {
    values.erase(key);
    return Status::ok();
  }
};

}  // namespace sf
