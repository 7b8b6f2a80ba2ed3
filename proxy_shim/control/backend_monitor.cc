#include "proxy_shim/control/backend_monitor.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "proxy_shim/control/direction.h"
#include "proxy_shim/control/startup.h"

namespace sf {
namespace {

constexpr int64_t kAskMs = 1'000;

}  // namespace

BackendMonitor::BackendMonitor(const MovePlan& plan, std::unique_ptr<BackendDriver> driver,
                               SlotBoard* board, DataPlane* plane, StateStore* store,
                               const Clock* clock, std::function<void()> on_lags,
                               std::function<void(std::string)> on_change, Log log)
    : plan_(plan),
      address_{plan.old_side.master.text(), plan.new_side.master.text()},
      driver_(std::move(driver)),
      back_(driver_->another(turned(plan), "slotferry-shim-monitor-back")),
      board_(board),
      plane_(plane),
      store_(store),
      clock_(clock),
      on_lags_(std::move(on_lags)),
      on_change_(std::move(on_change)),
      log_(std::move(log)),
      rounds_(std::chrono::milliseconds(kPeriodMs), [this] { round(); }) {}

void BackendMonitor::round() {
  ServerFacts facts[2];
  look(PairSide::kOld, &facts[0]);
  look(PairSide::kNew, &facts[1]);
  publish_facts(facts[0], facts[1]);
  look_at_lags();
  on_lags_();
}

void BackendMonitor::look(PairSide side, ServerFacts* facts) {
  SideState& state = state_[side == PairSide::kNew];
  // Before asking and after it: a switch meanwhile must not look like a lost role.
  const bool must_before = must_be_master(side);
  Result<ServerFacts> now = driver_->facts(side, kAskMs);
  if (!now) {
    if (state.reachable) log_.warning(cat(side_name(side), " master: ", now.status().text()));
    if (state.reachable) on_change_(cat("the ", side_name(side), " master does not answer"));
    state.reachable = false;
    return;
  }
  if (!state.reachable)
    log_.info(cat(side_name(side), " master ", address(side), " answers again"));
  state.reachable = true;
  *facts = *now;
  judge(side, *now, must_before && must_be_master(side));
}

// The new side may be a replica as long as it owns nothing, the old one once it owns nothing more.
bool BackendMonitor::must_be_master(PairSide side) const {
  return !records_of(side).empty() || (side == PairSide::kOld && !plan_.stay.empty());
}

void BackendMonitor::judge(PairSide side, const ServerFacts& facts, bool must) {
  SideState& state = state_[side == PairSide::kNew];
  if (state.run_id.empty()) accept(side, facts.run_id);
  if (facts.run_id != state.run_id) {
    // Asked again: the answer of a server that is just coming up may not be its last word.
    Result<ServerFacts> again = driver_->facts(side, kAskMs);
    if (!again || again->run_id != facts.run_id) return;
    // Replaced while it was away: it may take itself for a master still, and gets nothing.
    if (confirmed_ && !confirmed_(side)) return;
    log_.warning(cat(side_name(side), " master ", address(side), " has restarted"));
    store_->audit({{"what", "server restarted"},
                   {"side", side_name(side)},
                   {"address", address(side)},
                   {"run_id", facts.run_id}});
    on_change_(cat("the ", side_name(side), " master has restarted"));
    if (!check_owner(side)) return;  // asked again in the next round
    accept(side, facts.run_id);
  }
  const bool stop = must && !facts.is_master;
  if (stop == state.stopped) return;
  state.stopped = stop;
  const std::string text = stop ? cat("the ", side_name(side), " master ", address(side),
                                      " is a replica now: writes to it are stopped")
                                : cat("the ", side_name(side), " master ", address(side),
                                      " is a master again: writes go on");
  log_.warning(text);
  store_->audit({{"what", "server's role changed"}, {"side", side_name(side)}, {"text", text}});
  const Status status = board_->stop_writes(side, SlotBoard::Reason::kIdentity, stop);
  if (!status) log_.error(status.text());
  if (stop) on_change_(text);
}

void BackendMonitor::accept(PairSide side, const std::string& run_id) {
  state_[side == PairSide::kNew].run_id = run_id;
  const Status status = board_->set_identity(side, run_id);
  if (!status) log_.error(status.text());
}

// What it owns, doubts aside. By the record: a slot that is held has an owner as any other.
std::map<int, SlotRecord> BackendMonitor::records_of(PairSide side) const {
  std::map<int, SlotRecord> out;
  for (const auto& [slot, record] : store_->records()) {
    const bool on_new = record.phase != SlotPhase::kOld;
    if (on_new != (side == PairSide::kNew)) continue;
    if (board_->row(slot).phase != SlotPhase::kDoubt) out.emplace(slot, record);
  }
  return out;
}

// A server that comes up empty at the owner's address must not be taken for the owner.
bool BackendMonitor::check_owner(PairSide side) {
  const std::map<int, SlotRecord> records = records_of(side);
  SlotSet owned;  // by a switch: a slot that never left the old side has no promote record there
  for (const auto& [slot, record] : records) {
    if (record.epoch != 0) owned.add(slot);
  }
  BackendDriver* driver = side == PairSide::kNew ? driver_.get() : back_.get();
  if (owned.empty() || driver == nullptr) return true;
  const Result<std::map<int, uint64_t>> promoted = driver->promoted(owned, kAskMs);
  if (!promoted) return false;
  SlotSet doubtful;
  std::string why;
  // Switched or handed over meanwhile: what it answered is not about that.
  const auto as_it_was = [&](int slot) {
    return store_->record(slot).epoch == records.at(slot).epoch;
  };
  for (const auto& [slot, epoch] : *promoted) {
    const std::string text = not_the_owner(records.at(slot), epoch);
    if (text.empty() || !as_it_was(slot)) continue;
    doubtful.add(slot);
    why = text;
  }
  if (!driver_->traits().exact_end) {
    const Result<std::map<int, uint64_t>> markers = driver_->markers(owned, kAskMs);
    if (!markers) return false;
    for (const auto& [slot, epoch] : *markers) {
      if (epoch != 0 || !records.at(slot).marked || !as_it_was(slot)) continue;
      doubtful.add(slot);
      why = "the owner marker is gone from the new side: it has lost its data";
    }
  }
  if (doubtful.empty()) return true;
  log_.error(cat("slots ", doubtful.text(), ": ", why, "; their requests are refused"));
  store_->audit({{"what", "owner in doubt"}, {"slots", doubtful.text()}, {"text", why}});
  board_->set_text(doubtful, why);
  const Status status = board_->publish(doubtful, SlotPhase::kDoubt);
  if (!status) log_.error(status.text());
  return true;
}

void BackendMonitor::look_at_lags() {
  const SlotSet waiting = board_->in_phase(SlotPhase::kOld);
  if (waiting.empty()) return;
  Result<Survey> now = driver_->survey(waiting, kAskMs);
  waiting.for_each([&](int slot) {
    std::optional<LagSample> sample;
    if (now && now->new_side.contains(slot)) {
      const SlotReport& from = now->old_side.at(slot);
      const SlotReport& to = now->new_side.at(slot);
      if (from.master && !to.master && to.link == SlotReport::Link::kUp &&
          from.at.history == to.at.history) {
        const uint64_t lag = from.at.seq - std::min(from.at.seq, to.at.seq);
        sample = {clock_->mono_us(), to.lag.value_or(static_cast<int64_t>(lag)),
                  to.applied.value_or(to.at.seq)};
      }
    }
    board_->set_lag(slot, sample, driver_->lag_limit());
  });
}

// What the dashboard is told: the sum of the owners' parts.
void BackendMonitor::publish_facts(const ServerFacts& old_facts, const ServerFacts& new_facts) {
  auto out = std::make_shared<BackendFacts>();
  SlotSet on_new = board_->in_phase(SlotPhase::kNew);
  on_new.add(board_->in_phase(SlotPhase::kFinal));
  SlotSet on_old = plan_.attached_slots();
  on_old.remove(on_new);
  int64_t keys = 0;
  for (const auto* facts : {&old_facts, &new_facts}) {
    const SlotSet& mine = facts == &old_facts ? on_old : on_new;
    out->used_memory += facts->used_memory;
    out->maxmemory += facts->maxmemory;
    for (const auto& [slot, count] : facts->keys_by_slot) {
      if (slot < 0 || slot >= kSlotCount || !mine.contains(slot)) continue;
      out->keys_by_slot.emplace_back(slot, count);
      keys += count;
    }
  }
  std::sort(out->keys_by_slot.begin(), out->keys_by_slot.end());
  if (!out->keys_by_slot.empty()) {
    out->keys_by_db.emplace_back(0, keys);
  } else {
    out->keys_by_db = on_new.empty() ? old_facts.keys_by_db : new_facts.keys_by_db;
  }
  plane_->set_facts(std::move(out));
}

}  // namespace sf
