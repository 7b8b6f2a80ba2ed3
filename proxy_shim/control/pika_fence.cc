#include "proxy_shim/control/pika_fence.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "common/slots/slot_hash.h"

namespace sf {
namespace {

constexpr size_t kEachWorker = 3;
constexpr double kMissChance = 1e-12;
constexpr uint64_t kBlock = 64 * 1024;
constexpr uint64_t kFragmentHeader = 8;
constexpr uint64_t kItemHeader = 34;

std::string key_name(std::string_view tag, std::string_view plan, std::string_view nonce,
                     size_t n) {
  return cat("{", tag, "}__slotferry:", plan, ":", nonce, ":", n);
}

size_t digits(size_t number) {
  return std::to_string(number).size();
}

}  // namespace

std::vector<std::string> PikaFence::get_command() const {
  std::vector<std::string> out{"MGET"};
  out.insert(out.end(), keys.begin(), keys.end());
  return out;
}

size_t keys_for_chance(int workers) {
  if (workers <= 0) return 0;
  if (workers == 1) return 1;
  // workers * (1 - 1/workers)^keys < chance
  const double n = workers;
  const double keys = (std::log(kMissChance) - std::log(n)) / std::log1p(-1.0 / n);
  return static_cast<size_t>(std::ceil(keys)) + 1;
}

PikaFence choose_fence(std::string_view tag, std::string_view plan, std::string_view nonce,
                       int workers) {
  PikaFence out;
  out.value = std::string(nonce);
  const size_t count = static_cast<size_t>(std::max(workers, 1));
  std::vector<size_t> got(count, 0);
  size_t satisfied = 0;
  const size_t least = keys_for_chance(workers);
  while (satisfied < count || out.keys.size() < least) {
    out.keys.push_back(key_name(tag, plan, nonce, out.keys.size()));
    size_t& worker = got[std::hash<std::string>{}(out.keys.back()) % count];
    if (++worker == kEachWorker) ++satisfied;
  }
  return out;
}

PikaFence same_fence(std::string_view tag, std::string_view plan, std::string_view nonce,
                     size_t count) {
  PikaFence out;
  out.value = std::string(nonce);
  for (size_t n = 0; n < count; ++n) out.keys.push_back(key_name(tag, plan, nonce, n));
  return out;
}

void BinlogMeter::append(const std::vector<std::string>& argv) {
  size_t content = 1 + digits(argv.size()) + 2;
  for (const std::string& arg : argv) content += 1 + digits(arg.size()) + 2 + arg.size() + 2;
  append_content(content);
}

void BinlogMeter::append_content(size_t bytes) {
  if (at_.offset > file_size_) {
    ++at_.file;
    at_.offset = 0;
  }
  uint64_t left = kItemHeader + bytes;
  while (left > 0) {
    uint64_t room = kBlock - at_.offset % kBlock;
    if (room < kFragmentHeader) {
      at_.offset += room;
      room = kBlock;
    }
    const uint64_t part = std::min(left, room - kFragmentHeader);
    at_.offset += kFragmentHeader + part;
    left -= part;
  }
}

BinlogOffset end_after(const PikaFence& fence, BinlogOffset start, uint64_t file_size) {
  BinlogMeter meter(start, file_size);
  for (size_t i = 0; i < fence.keys.size(); ++i) meter.append(fence.set_command(i));
  return meter.at();
}

}  // namespace sf
