#include "storage_node/replica/slot_record.h"

#include <cstdio>

#include "common/base/coding.h"
#include "common/slots/slot_hash.h"

namespace sf {
namespace {

constexpr char kVersion = 1;

Status damaged(const char* what) {
  return Status::corrupt(cat("a stored ", what,
                             " is damaged; restore the data folder, or start with an "
                             "empty one and copy"));
}

bool take_version(std::string_view& in) {
  uint8_t version = 0;
  return take_byte(in, &version) && version == kVersion;
}

bool take_text(std::string_view& in, std::string* out) {
  std::string_view bytes;
  if (!take_bytes(in, &bytes)) return false;
  *out = bytes;
  return true;
}

void put_master(std::string& out, const HostPort& master) {
  put_bytes(out, master.host);
  put_varint(out, static_cast<uint64_t>(master.port));
}

bool take_master(std::string_view& in, HostPort* master) {
  uint64_t port = 0;
  if (!take_text(in, &master->host) || !take_varint(in, &port)) return false;
  master->port = static_cast<int>(port);
  return true;
}

bool take_position(std::string_view& in, Position* position) {
  return take_text(in, &position->history) && take_varint(in, &position->seq);
}

}  // namespace

std::string numbered(std::string_view prefix, uint64_t number, int digits) {
  char text[24];
  std::snprintf(text, sizeof text, "%0*llu", digits, static_cast<unsigned long long>(number));
  return std::string(prefix) + text;
}

int slot_of_name(std::string_view name, std::string_view prefix) {
  int slot = 0;
  for (char c : name.substr(prefix.size())) slot = slot * 10 + (c - '0');
  return slot >= 0 && slot < kSlotCount ? slot : 0;
}

std::string encode_slot_record(const SlotRecord& r) {
  std::string out(1, kVersion);
  out.push_back(static_cast<char>(r.followed | r.placed << 1 | r.fenced << 2 |
                                  static_cast<int>(r.mark.has_value()) << 3 |
                                  static_cast<int>(!r.left.history.empty()) << 4));
  put_master(out, r.master);
  put_bytes(out, r.fence_plan);
  put_varint(out, r.fence_epoch);
  put_bytes(out, r.new_owner);
  put_varint(out, r.mark.value_or(0));
  put_bytes(out, r.promote_plan);
  put_varint(out, r.promote_epoch);
  put_varint(out, r.promote_applied);
  put_bytes(out, r.promote_own.history);
  put_varint(out, r.promote_own.seq);
  if (!r.left.history.empty()) {
    put_bytes(out, r.left.history);
    put_varint(out, r.left.seq);
  }
  return out;
}

Result<SlotRecord> decode_slot_record(std::string_view in) {
  SlotRecord r;
  uint8_t bits = 0;
  uint64_t mark = 0;
  bool ok = take_version(in) && take_byte(in, &bits) && take_master(in, &r.master) &&
            take_text(in, &r.fence_plan) && take_varint(in, &r.fence_epoch) &&
            take_text(in, &r.new_owner) && take_varint(in, &mark) &&
            take_text(in, &r.promote_plan) && take_varint(in, &r.promote_epoch) &&
            take_varint(in, &r.promote_applied) && take_position(in, &r.promote_own);
  if ((bits & 16) != 0) ok = ok && take_position(in, &r.left) && !r.left.history.empty();
  ok = ok && in.empty();
  if (!ok) return damaged("slot record");
  r.followed = (bits & 1) != 0;
  r.placed = (bits & 2) != 0;
  r.fenced = (bits & 4) != 0;
  if ((bits & 8) != 0) r.mark = mark;
  return r;
}

void put_slot_record(int slot, const SlotRecord& record, SysRecords& records) {
  auto value = [](const SlotRecord& r) {
    return r.ordinary() ? std::optional<std::string>() : encode_slot_record(r);
  };
  SlotRecord shared = record;
  // What follows moves on, and a replica knows no position of it: who takes over has no mark.
  if (record.followed) shared.mark.reset();
  if (record.followed) shared.left = {};
  shared.followed = shared.placed = false;
  shared.master = {};
  const uint64_t number = static_cast<uint64_t>(slot);
  records.emplace_back(slot_record_name(slot), value(record));
  records.emplace_back(numbered(kSharedSlots, number, 4), value(shared));
}

void put_epochs(int slot, const std::map<std::string, uint64_t>& epochs, SysRecords& records) {
  std::string bytes = encode_epochs(epochs);
  records.emplace_back(numbered(kSharedEpochs, static_cast<uint64_t>(slot), 4), bytes);
  records.emplace_back(epoch_record_name(slot), std::move(bytes));
}

std::string encode_epochs(const std::map<std::string, uint64_t>& epochs) {
  std::string out(1, kVersion);
  for (const auto& [plan, epoch] : epochs) {
    put_bytes(out, plan);
    put_varint(out, epoch);
  }
  return out;
}

Result<std::map<std::string, uint64_t>> decode_epochs(std::string_view in) {
  std::map<std::string, uint64_t> epochs;
  bool ok = take_version(in);
  while (ok && !in.empty()) {
    std::string plan;
    uint64_t epoch = 0;
    ok = take_text(in, &plan) && take_varint(in, &epoch);
    epochs[plan] = epoch;
  }
  if (!ok) return damaged("epoch record");
  return epochs;
}

std::string encode_position(const Position& position) {
  std::string out(1, kVersion);
  put_bytes(out, position.history);
  put_varint(out, position.seq);
  return out;
}

Result<Position> decode_position(std::string_view in) {
  Position position;
  if (!take_version(in) || !take_position(in, &position) || !in.empty()) {
    return damaged("replication position");
  }
  return position;
}

std::string encode_full(const FullRecord& record) {
  std::string out(1, kVersion);
  put_master(out, record.master);
  out.push_back(record.mirror ? 1 : 0);
  return out;
}

Result<FullRecord> decode_full(std::string_view in) {
  FullRecord record;
  uint8_t mirror = 0;
  if (!take_version(in) || !take_master(in, &record.master) || !take_byte(in, &mirror)) {
    return damaged("replica record");
  }
  record.mirror = mirror != 0;
  return record;
}

}  // namespace sf
