// Clipping of changes to slots. Stored keys sort by db, then slot: a slot of a db is one range.
#include "common/base/coding.h"
#include "common/base/strings.h"
#include "replication/wire.h"

namespace sf::wire {
namespace {

constexpr uint32_t kSlotsInPrefix = 1U << 16;

// "db|slot" as one number; missing bytes count as zero.
uint32_t prefix_number(std::string_view key) {
  uint32_t n = 0;
  for (size_t i = 0; i < 3; ++i) {
    n = n << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0U);
  }
  return n;
}

std::string prefix_text(uint32_t n) {
  std::string out;
  out.push_back(static_cast<char>(n >> 16));
  put_big16(out, static_cast<uint16_t>(n));
  return out;
}

// The next prefix that belongs to a slot: past a db's last slot comes the next db's first.
uint32_t next_prefix(uint32_t n) {
  ++n;
  if (n % kSlotsInPrefix >= static_cast<uint32_t>(kSlotCount)) {
    n = (n / kSlotsInPrefix + 1) * kSlotsInPrefix;
  }
  return n;
}

std::string_view keep(KeyArena& arena, std::string key) {
  arena.keys.push_back(std::make_unique<std::string>(std::move(key)));
  return *arena.keys.back();
}

}  // namespace

int slot_of_key(std::string_view key) {
  if (key.size() < 3) return -1;
  int slot = big16(key.data() + 1);
  return slot < kSlotCount ? slot : -1;
}

Status filter_op(const StreamOp& op, const std::function<bool(int)>& wanted, KeyArena& arena,
                 std::vector<StreamOp>* out) {
  int slot = slot_of_key(op.key);
  if (op.kind != 3) {
    if (slot < 0) return Status::corrupt(cat("no data key: ", printable(op.key)));
    if (wanted(slot)) out->push_back(op);
    return Status::ok();
  }
  if (slot >= 0 && op.value <= prefix_text(prefix_number(op.key) + 1)) {  // within one slot
    if (wanted(slot)) out->push_back(op);
    return Status::ok();
  }
  uint32_t n = prefix_number(op.key);
  if (n % kSlotsInPrefix >= static_cast<uint32_t>(kSlotCount)) n = next_prefix(n);
  for (; n < (256U << 16) && prefix_text(n) < op.value; n = next_prefix(n)) {
    if (!wanted(static_cast<int>(n % kSlotsInPrefix))) continue;
    std::string begin = std::max(std::string(op.key), prefix_text(n));
    std::string end = n + 1 < (256U << 16) ? prefix_text(n + 1) : std::string(op.value);
    end = std::min(end, std::string(op.value));
    StreamOp part = op;
    part.key = keep(arena, std::move(begin));
    part.value = keep(arena, std::move(end));
    out->push_back(part);
  }
  return Status::ok();
}

}  // namespace sf::wire
