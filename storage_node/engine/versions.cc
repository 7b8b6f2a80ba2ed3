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

int64_t Engine::State::own_now_ms() const {
  const int64_t wall = clock.wall_ms();
  int64_t before = own_time.load(std::memory_order_relaxed);
  while (before < wall) {
    if (own_time.compare_exchange_weak(before, wall, std::memory_order_relaxed)) return wall;
  }
  return before;
}

int64_t Engine::State::expiry_now_ms(int slot) const {
  const size_t i = static_cast<size_t>(slot);
  const int64_t master = slot_time[i].load(std::memory_order_relaxed);
  const bool followed = (flags[i].load(std::memory_order_relaxed) & kSlotFollowed) != 0;
  // A follower that has heard no time yet (it just started) uses its own.
  if (followed && master != 0) return master;
  return std::max(master, own_now_ms());
}

int64_t Engine::expiry_now_ms(int slot) const { return state_->expiry_now_ms(slot); }

void Engine::raise_master_time(int64_t time_ms, const SlotSet& followed) {
  followed.for_each([&](int slot) {
    auto& cell = state_->slot_time[static_cast<size_t>(slot)];
    int64_t before = cell.load(std::memory_order_relaxed);
    while (before < time_ms &&
           !cell.compare_exchange_weak(before, time_ms, std::memory_order_relaxed)) {
    }
  });
}

}  // namespace sf
