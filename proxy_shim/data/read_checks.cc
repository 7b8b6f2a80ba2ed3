#include "proxy_shim/data/read_checks.h"

#include <algorithm>

#include "common/base/strings.h"
#include "common/resp/reply_parser.h"
#include "proxy_shim/data/worker.h"

namespace sf {

namespace {

constexpr int kInFlightMax = 256;           // checks of a worker
constexpr size_t kReplyMax = 64UL << 10;    // larger ones are not compared
constexpr size_t kRequestMax = 64UL << 10;  // larger ones are not kept
constexpr int64_t kSecondLookUs = 500'000;  // more than replication lags on a good day

template <class T>
std::optional<T> named(std::string_view text, std::initializer_list<T> all,
                       const char* (*name)(T)) {
  for (const T one : all) {
    if (text == name(one)) return one;
  }
  return {};
}

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What two equal servers may answer differently: chance, cursors, clocks, memory.
bool is_comparable(const CommandSpec& spec) {
  return !spec.is(kCmdRandom) &&
         !is_any_of(spec.name, {"SSCAN", "HSCAN", "ZSCAN", "SCAN", "SLOTSSCAN", "SRANDMEMBER",
                                "HRANDFIELD", "ZRANDMEMBER", "TTL", "PTTL", "OBJECT", "MEMORY",
                                "DEBUG", "DUMP", "XINFO", "XPENDING", "TOUCH"});
}

bool is_unordered(const CommandSpec& spec) {
  return is_any_of(spec.name, {"SMEMBERS", "SINTER", "SUNION", "SDIFF", "HKEYS", "HVALS"});
}

// The reply with its elements in an order of their own; as it is if it is no flat array.
std::string sorted(const std::string& reply, size_t step) {
  const auto tree = decode_reply(reply);
  if (!tree || tree->type != Reply::Type::kArray) return reply;
  std::vector<std::string> items;
  for (size_t i = 0; i + step <= tree->elements.size(); i += step) {
    std::string item;
    for (size_t k = 0; k < step; ++k) {
      item += cat(tree->elements[i + k].text.size(), ":", tree->elements[i + k].text);
    }
    items.push_back(std::move(item));
  }
  std::sort(items.begin(), items.end());
  std::string out;
  for (const std::string& item : items) out += item;
  return out;
}

bool is_miss(std::string_view reply) {
  return reply.starts_with('-') || is_any_of(reply, {"$-1\r\n", "*-1\r\n", "*0\r\n", ":0\r\n",
                                                     "$0\r\n\r\n", ":-2\r\n", "+none\r\n"});
}

Side other_side(Side side) {
  return side == Side::kOld ? Side::kNew : Side::kOld;
}

}  // namespace

const char* policy_name(ReadPolicy policy) {
  switch (policy) {
    case ReadPolicy::kOwner:
      return "owner";
    case ReadPolicy::kNewThenOld:
      return "new-then-old";
    case ReadPolicy::kCompare:
      return "compare";
  }
  return "owner";
}

const char* guard_name(Guard guard) {
  return guard == Guard::kOff ? "off" : "pika-3.5";
}

std::optional<ReadPolicy> parse_policy(std::string_view text) {
  return named(text, {ReadPolicy::kOwner, ReadPolicy::kNewThenOld, ReadPolicy::kCompare},
               policy_name);
}

std::optional<Guard> parse_guard(std::string_view text) {
  return named(text, {Guard::kOff, Guard::kPika35}, guard_name);
}

ReadChecks::~ReadChecks() {
  for (const auto& [timer, check] : later_) worker_.loop().cancel(timer);
}

bool ReadChecks::sampled() {
  sample_ += rules_.compare_percent;
  if (sample_ < 100) return false;
  sample_ -= 100;
  return true;
}

Side ReadChecks::prepare(Pending* record, const CommandSpec& spec, std::string_view raw,
                         Side owner) {
  // Slots that do not move are on one side only.
  const SlotPhase phase = worker_.routes().table().phase[record->slot];
  if (phase == SlotPhase::kStay || !record->more_slots.empty() || record->wrapped) return owner;
  const bool is_fallback = rules_.reads == ReadPolicy::kNewThenOld;
  if (!is_fallback && (!is_comparable(spec) || !sampled())) return owner;
  if (in_flight_ >= kInFlightMax || raw.size() > kRequestMax) {
    ++counts_.skipped;
    return owner;
  }
  auto* check = new ReadCheck;
  check->is_fallback = is_fallback;
  check->is_unordered = is_unordered(spec);
  check->is_map = spec.name == "HGETALL";
  check->slot = record->slot;
  check->db = record->db;
  check->request = raw;
  check->left = 1;
  record->check = check;
  ++in_flight_;
  return is_fallback ? Side::kNew : owner;
}

void ReadChecks::send_copy(ReadCheck* check, Side owner) {
  if (!check->is_fallback) send_shadow(check, other_side(owner));
  release(check);
}

void ReadChecks::release(ReadCheck* check) {
  if (--check->left > 0) return;
  std::unique_ptr<ReadCheck> last(check);
  if (!check->is_fallback) return judge(std::move(last));
  --in_flight_;
}

void ReadChecks::send_shadow(ReadCheck* check, Side side) {
  Pending* shadow = worker_.pool().take();
  shadow->started_us = worker_.now_us();
  shadow->slot = check->slot;
  shadow->db = static_cast<uint8_t>(check->db);
  shadow->check = check;
  ++check->left;
  worker_.backend(side, check->db).send(check->request, shadow);
}

bool ReadChecks::saw(Pending* record, std::string_view reply) {
  ReadCheck* check = record->check;
  if (check->is_fallback) {
    if (!is_stopped_ && !check->is_second_look && !record->partly_passed && is_miss(reply)) {
      check->is_second_look = true;
      check->replies[0] = reply;
      ++counts_.fallbacks;
      worker_.backend(Side::kOld, check->db).send(check->request, record);
      return true;
    }
    record->check = nullptr;
    const std::string first = std::move(check->replies[0]);
    release(check);
    if (record->partly_passed || first.empty() || !reply.starts_with('-')) return false;
    worker_.complete(record, first);  // the old side does not answer: the miss was the answer
    return true;
  }
  record->check = nullptr;
  if (reply.starts_with('-') || reply.size() > kReplyMax) {
    check->is_spoiled = true;
  } else if (!check->is_spoiled) {
    check->replies[static_cast<size_t>(record->side)] = reply;
  }
  release(check);
  return false;
}

void ReadChecks::spoil(Pending* record) {
  if (record->check->is_fallback) return;
  record->check->is_spoiled = true;
}

void ReadChecks::judge(std::unique_ptr<ReadCheck> check) {
  if (check->is_spoiled || check->replies[0].empty() || check->replies[1].empty()) {
    --in_flight_;
    if (++counts_.skipped % 1000 == 1) {
      worker_.log().warning(cat("a read of slot ", check->slot,
                                " could not be compared on both sides, the ", counts_.skipped,
                                ". of this thread"));
    }
    return;
  }
  auto& [old_reply, new_reply] = check->replies;
  bool is_equal = old_reply == new_reply;
  if (!is_equal && (check->is_unordered || check->is_map)) {
    const size_t step = check->is_map ? 2 : 1;
    is_equal = sorted(old_reply, step) == sorted(new_reply, step);
  }
  if (!is_equal && !check->is_second_look) return look_again(std::move(check));
  --in_flight_;
  ++counts_.compared;
  if (is_equal && check->is_second_look) ++counts_.late;
  if (!is_equal) tell(*check);
}

// The copy lags, and a write may have come between the two reads.
void ReadChecks::look_again(std::unique_ptr<ReadCheck> check) {
  check->is_second_look = true;
  check->replies = {};
  const auto id = std::make_shared<TimerId>(0);
  *id = worker_.loop().call_after(kSecondLookUs, [this, id] {
    worker_.touch_clock();
    auto found = later_.extract(*id);
    ReadCheck* again = found.mapped().release();
    again->left = 1;  // ours, until both are sent
    send_shadow(again, Side::kOld);
    send_shadow(again, Side::kNew);
    release(again);
  });
  later_.emplace(*id, std::move(check));
}

void ReadChecks::tell(const ReadCheck& check) {
  ++counts_.different;
  const int64_t count = ++differences_[check.slot];
  if (count > 10 && count % 1000 != 0) return;
  worker_.log().warning(cat("slot ", check.slot, " differs between the sides (the ", count,
                            ". time seen here): ", printable(check.request, 120), " old ",
                            printable(check.replies[0], 80), " new ",
                            printable(check.replies[1], 80)));
}

SlotDifferences ReadChecks::differences() const {
  SlotDifferences out;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    const int64_t count = differences_[static_cast<size_t>(slot)];
    if (count > 0) out.emplace_back(slot, count);
  }
  return out;
}

}  // namespace sf
