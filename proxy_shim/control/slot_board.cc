#include "proxy_shim/control/slot_board.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <tuple>

namespace sf {
namespace {

bool is_on_new(const SlotRow& row) {
  return row.phase == SlotPhase::kNew || row.phase == SlotPhase::kFinal || row.back;
}

}  // namespace

SlotBoard::SlotBoard(const MovePlan& plan) : plan_(plan) {
  for (int slot = 0; slot < kSlotCount; ++slot) {
    SlotRow& row = rows_[static_cast<size_t>(slot)];
    row.slot = slot;
    if (plan.slots.contains(slot)) row.phase = SlotPhase::kOld;
    if (plan.stay.contains(slot)) row.phase = SlotPhase::kStay;
  }
}

void SlotBoard::set_phase(const SlotSet& slots, SlotPhase phase, uint64_t epoch,
                          const std::string& text) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) {
    SlotRow& row = rows_[static_cast<size_t>(slot)];
    row.phase = phase;
    row.epoch = epoch;
    row.text = text;
  });
}

std::shared_ptr<const RouteTable> SlotBoard::table_locked() {
  auto table = std::make_shared<RouteTable>();
  table->epoch = ++route_epoch_;
  bool owns[2] = {false, false};
  for (const SlotRow& row : rows_) {
    table->phase[static_cast<size_t>(row.slot)] = row.phase;
    if (row.back) table->back.add(row.slot);
    const bool is_known = row.phase != SlotPhase::kOutside && row.phase != SlotPhase::kDoubt;
    if (is_known) owns[is_on_new(row)] = true;
  }
  const ServerKind kind = plan_.old_side.kind;
  const bool whole = kind == ServerKind::kRedis || kind == ServerKind::kPika;
  const auto address = [&](const PlanSide& side, size_t which) {
    return BackendAddress{side.master, side.password, run_id_[which], whole && owns[which],
                          connection_name_};
  };
  table->old_side = address(plan_.old_side, 0);
  table->new_side = address(plan_.new_side, 1);
  table->old_writes_stopped = is_stopped(PairSide::kOld);
  table->new_writes_stopped = is_stopped(PairSide::kNew);
  table->note_writes = note_writes_;
  table->note_timed = note_timed_;
  return table;
}

std::shared_ptr<const RouteTable> SlotBoard::make_table() {
  std::lock_guard guard(mutex_);
  return table_locked();
}

void SlotBoard::begin_above(uint64_t route_epoch) {
  std::lock_guard guard(mutex_);
  route_epoch_ = std::max(route_epoch_, route_epoch);
}

void SlotBoard::attach(DataPlane* plane) {
  std::lock_guard gate(gate_);
  plane_ = plane;
}

Status SlotBoard::publish(const SlotSet& slots, SlotPhase phase) {
  return publish(slots, phase, {}, phase);
}

Status SlotBoard::publish(const SlotSet& slots, SlotPhase phase, const SlotSet& others,
                          SlotPhase others_phase, bool back) {
  std::lock_guard gate(gate_);
  std::shared_ptr<const RouteTable> table;
  {
    std::lock_guard guard(mutex_);
    const bool held = phase >= SlotPhase::kHold && phase <= SlotPhase::kPromote;
    slots.for_each([&](int slot) {
      SlotRow& row = rows_[static_cast<size_t>(slot)];
      const bool was_new = is_on_new(row);
      // Handed back is for good: a marker that is written later only says that writes may go on.
      const bool stays = row.phase == SlotPhase::kDoubt ||
                         (row.phase == SlotPhase::kFinal && phase == SlotPhase::kNew);
      if (!stays) row.phase = phase;
      row.back = held && back;
      if (is_on_new(row) == was_new) return;
      row.steady = 0;  // lags are of one direction
      lags_[static_cast<size_t>(slot)].clear();
    });
    others.for_each([&](int slot) { rows_[static_cast<size_t>(slot)].phase = others_phase; });
    table = table_locked();
  }
  return plane_ == nullptr ? Status::ok() : plane_->publish(table);
}

Status SlotBoard::stop_writes(PairSide side, Reason reason, bool stopped) {
  std::lock_guard gate(gate_);
  return publish_flag(&stopped_[side == PairSide::kNew][static_cast<size_t>(reason)], stopped);
}

Status SlotBoard::publish_flag(bool* flag, bool stopped) {
  std::shared_ptr<const RouteTable> table;
  {
    std::lock_guard guard(mutex_);
    if (*flag == stopped) return Status::ok();
    *flag = stopped;
    table = table_locked();
  }
  return plane_ == nullptr ? Status::ok() : plane_->publish(table);
}

Status SlotBoard::owe_marker(PairSide side, const SlotSet& slots, bool owed) {
  std::lock_guard gate(gate_);
  bool any = false;
  {
    std::lock_guard guard(mutex_);
    SlotSet& unmarked = unmarked_[side == PairSide::kNew];
    if (owed) unmarked.add(slots);
    if (!owed) unmarked.remove(slots);
    any = !unmarked.empty();
  }
  return publish_flag(&stopped_[side == PairSide::kNew][static_cast<size_t>(Reason::kMarker)], any);
}

Status SlotBoard::set_identity(PairSide side, const std::string& run_id) {
  std::lock_guard gate(gate_);
  std::shared_ptr<const RouteTable> table;
  {
    std::lock_guard guard(mutex_);
    std::string& known = run_id_[side == PairSide::kNew];
    if (known == run_id) return Status::ok();
    known = run_id;
    table = table_locked();
  }
  return plane_ == nullptr ? Status::ok() : plane_->publish(table);
}

bool SlotBoard::writes_stopped(PairSide side) const {
  std::lock_guard guard(mutex_);
  return is_stopped(side);
}

bool SlotBoard::stopped_for(PairSide side, Reason reason) const {
  std::lock_guard guard(mutex_);
  return stopped_[side == PairSide::kNew][static_cast<size_t>(reason)];
}

bool SlotBoard::is_stopped(PairSide side) const {
  const auto& flags = stopped_[side == PairSide::kNew];
  return std::any_of(std::begin(flags), std::end(flags), std::identity());
}

void SlotBoard::note_attempt(const SlotSet& slots, uint64_t epoch, const std::string& text) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) {
    rows_[static_cast<size_t>(slot)].epoch = epoch;
    rows_[static_cast<size_t>(slot)].text = text;
  });
}

void SlotBoard::note_pause(const SlotSet& slots, int64_t pause_us, int64_t held) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) {
    rows_[static_cast<size_t>(slot)].pause_us = pause_us;
    rows_[static_cast<size_t>(slot)].held = held;
  });
}

void SlotBoard::set_text(const SlotSet& slots, const std::string& text) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) { rows_[static_cast<size_t>(slot)].text = text; });
}

void SlotBoard::set_lag(int slot, const std::optional<LagSample>& sample, int64_t small) {
  std::lock_guard guard(mutex_);
  SlotRow& row = rows_[static_cast<size_t>(slot)];
  LagTrend& trend = lags_[static_cast<size_t>(slot)];
  row.lag = sample ? sample->lag : -1;
  row.steady = sample && sample->lag <= small ? row.steady + 1 : 0;
  if (sample) trend.add(*sample);
  if (!sample) trend.clear();
}

void SlotBoard::add_lag(const SlotSet& slots, const LagSample& sample) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) { lags_[static_cast<size_t>(slot)].add(sample); });
}

LagForecast SlotBoard::forecast(const SlotSet& slots) const {
  std::lock_guard guard(mutex_);
  LagForecast worst;
  slots.for_each([&](int slot) {
    const LagForecast one = lags_[static_cast<size_t>(slot)].forecast();
    const auto rank = [](const LagForecast& f) {
      return std::tuple(f.stuck_ms, f.apply_ms, f.lag);
    };
    if (rank(one) > rank(worst)) worst = one;
  });
  return worst;
}

void SlotBoard::set_auto(const SlotSet& slots, bool on) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) { rows_[static_cast<size_t>(slot)].automatic = on; });
}

void SlotBoard::set_next_attempt(const SlotSet& slots, int64_t us) {
  std::lock_guard guard(mutex_);
  slots.for_each([&](int slot) { rows_[static_cast<size_t>(slot)].next_us = us; });
}

int64_t SlotBoard::next_attempt_us(int64_t now_us) const {
  std::lock_guard guard(mutex_);
  int64_t first = 0;
  for (const SlotRow& row : rows_) {
    if (row.next_us > now_us && (first == 0 || row.next_us < first)) first = row.next_us;
  }
  return first;
}

SlotRow SlotBoard::row(int slot) const {
  std::lock_guard guard(mutex_);
  return rows_[static_cast<size_t>(slot)];
}

SlotSet SlotBoard::in_phase(SlotPhase phase) const {
  std::lock_guard guard(mutex_);
  SlotSet out;
  for (const SlotRow& row : rows_) {
    if (row.phase == phase) out.add(row.slot);
  }
  return out;
}

SlotSet SlotBoard::automatic() const {
  std::lock_guard guard(mutex_);
  SlotSet out;
  for (const SlotRow& row : rows_) {
    if (row.automatic) out.add(row.slot);
  }
  return out;
}

SlotSet SlotBoard::owned_by(PairSide side) const {
  std::lock_guard guard(mutex_);
  SlotSet out;
  plan_.attached_slots().for_each([&](int slot) {
    const SlotRow& row = rows_[static_cast<size_t>(slot)];
    if (row.phase == SlotPhase::kDoubt) return;
    if (is_on_new(row) == (side == PairSide::kNew)) out.add(slot);
  });
  return out;
}

HostPort SlotBoard::owner(const SlotRow& row) const {
  return is_on_new(row) ? plan_.new_side.master : plan_.old_side.master;
}

uint64_t SlotBoard::route_epoch() const {
  std::lock_guard guard(mutex_);
  return route_epoch_;
}

}  // namespace sf
