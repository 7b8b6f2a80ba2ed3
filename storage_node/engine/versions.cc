// Versions of collections, and the time by which keys expire.
#include <algorithm>

#include "common/base/coding.h"
#include "storage_node/engine/engine_state.h"

namespace sf {

namespace {
constexpr uint64_t kBlock = 1'000'000;  // versions reserved by one synced record
}  // namespace

Status Engine::State::reserve_versions(uint64_t up_to) {
  std::string value;
  put_big64(value, up_to);
  const std::lock_guard lock(gate);
  Status written = write_sys({{std::string(kVersionRecord), value}}, true);
  if (written) version_reserved = up_to;
  return written;
}

uint64_t Engine::next_version() {
  State& s = *state_;
  const std::lock_guard lock(s.version_mutex);
  if (s.version_next >= s.version_reserved) {
    // If this fails (a full disk), the write that asked fails too, in the gate. Memory stays ahead
    // of what is given out, so the block is asked for again next time.
    static_cast<void>(s.reserve_versions(s.version_next + kBlock));
  }
  return s.version_next++;
}

void Engine::raise_version(uint64_t at_least) {
  State& s = *state_;
  const std::lock_guard lock(s.version_mutex);
  if (at_least < s.version_next) return;
  s.version_next = at_least + 1;
  if (s.version_next >= s.version_reserved) {
    static_cast<void>(s.reserve_versions(s.version_next + kBlock));
  }
}

namespace {

// The larger of the two, stored.
int64_t raise(std::atomic<int64_t>& cell, int64_t at_least) {
  int64_t before = cell.load(std::memory_order_relaxed);
  while (before < at_least) {
    if (cell.compare_exchange_weak(before, at_least, std::memory_order_relaxed)) return at_least;
  }
  return before;
}

}  // namespace

int64_t Engine::State::own_now_ms() const {
  const int64_t wall = clock.wall_ms();
  const int64_t before = own_time.load(std::memory_order_relaxed);
  return before <= wall ? raise(own_time, wall) : own_time_behind();
}

// The wall clock was set back: time goes on from where it was, as fast as it passes, until the wall
// clock is there too. Keys that are gone stay gone, and new ones end when they should.
int64_t Engine::State::own_time_behind() const {
  const std::lock_guard lock(behind_mutex);
  const int64_t before = own_time.load(std::memory_order_relaxed);
  const int64_t mono_ms = clock.mono_us() / 1000;
  if (behind_from_ms + (mono_ms - behind_mono_ms) < before) {
    behind_from_ms = before;
    behind_mono_ms = mono_ms;
  }
  return raise(own_time, behind_from_ms + (mono_ms - behind_mono_ms));
}

int64_t Engine::State::expiry_now_ms(int slot) const {
  const size_t i = static_cast<size_t>(slot);
  const int64_t master = slot_time[i].load(std::memory_order_relaxed);
  const bool followed = (flags[i].load(std::memory_order_relaxed) & kSlotFollowed) != 0;
  // A follower that has heard no time yet (it just started) uses its own.
  if (followed && master != 0) return master;
  return std::max(master, own_now_ms());
}

// What is removed from disk cannot come back: without the master's word nothing is.
int64_t Engine::State::removal_now_ms(int slot) const {
  const size_t i = static_cast<size_t>(slot);
  const int64_t master = slot_time[i].load(std::memory_order_relaxed);
  const bool followed = (flags[i].load(std::memory_order_relaxed) & kSlotFollowed) != 0;
  return followed ? master : std::max(master, own_now_ms());
}

int64_t Engine::expiry_now_ms(int slot) const {
  return state_->expiry_now_ms(slot);
}

void Engine::raise_master_time(int64_t time_ms, const SlotSet& followed) {
  followed.for_each(
      [&](int slot) { raise(state_->slot_time[static_cast<size_t>(slot)], time_ms); });
}

void Engine::begin_master_time(int64_t time_ms, const SlotSet& followed) {
  followed.for_each([&](int slot) { state_->slot_time[static_cast<size_t>(slot)] = time_ms; });
}

void Engine::raise_own_time(int64_t time_ms) {
  raise(state_->own_time, time_ms);
}

int64_t Engine::own_time_ms() const {
  const int64_t wall = state_->clock.wall_ms();  // looked at, not counted: nothing ends by it yet
  if (state_->own_time.load(std::memory_order_relaxed) <= wall) return wall;

  return state_->own_now_ms();
}

int Engine::followed_slots() const {
  return state_->followed_count;
}

int64_t Engine::recovered_time_ms() const {
  return state_->recovered_time;
}

Engine::SettledTime Engine::settled_time() const {
  State& s = *state_;
  const std::lock_guard lock(s.gate);
  int64_t lowest = s.own_now_ms();
  for (size_t i = 0; i < kSlotCount; ++i) {
    const bool followed = (s.flags[i].load(std::memory_order_relaxed) & kSlotFollowed) != 0;
    if (followed) lowest = std::min(lowest, s.slot_time[i].load(std::memory_order_relaxed));
  }
  return {s.last_seq.load(), lowest};
}

}  // namespace sf
