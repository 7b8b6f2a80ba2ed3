// Codis's slot commands: SLOTSINFO, SLOTSHASHKEY, SLOTSSCAN, SLOTSDEL (contracts/codis 2, 3.3).
#include <algorithm>

#include "common/base/strings.h"
#include "storage_node/command/key_scan.h"
#include "storage_node/command/run.h"
#include "storage_node/command/string_edit.h"

namespace sf {

namespace {

std::optional<int64_t> slot_arg(std::string_view text) {
  const auto slot = parse_int64(text);
  if (!slot || *slot < 0 || *slot >= kSlotCount) return std::nullopt;
  return slot;
}

std::string bad_slot(std::string_view text) {
  return cat("ERR invalid slot number '", printable(text), "', it must be from 0 to ",
             kSlotCount - 1);
}

// SLOTSINFO [start [count]]: [slot, keys] of each slot that holds keys.
void cmd_slotsinfo(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  int64_t start = 0;
  int64_t count = kSlotCount;
  if (!args.done()) start = slot_arg(args.peek()).value_or(-1);
  if (start < 0) return reply_error(ctx.out, bad_slot(args.peek()));
  if (!args.done()) args.next();
  if (!args.done()) count = args.next_int();
  if (args.ok() && count < 0) args.fail("ERR invalid count");
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const int64_t end = std::min<int64_t>(kSlotCount, start + std::min<int64_t>(count, kSlotCount));
  std::vector<std::pair<int, int64_t>> filled;
  for (int slot = static_cast<int>(start); slot < end; ++slot) {
    const int64_t keys = ctx.engine.key_count(ctx.db, slot);
    if (keys > 0) filled.emplace_back(slot, keys);
  }
  resp::array(ctx.out, filled.size());
  for (const auto& [slot, keys] : filled) {
    resp::array(ctx.out, 2);
    resp::integer(ctx.out, slot);
    resp::integer(ctx.out, keys);
  }
}

void cmd_slotshashkey(CommandContext& ctx) {
  resp::array(ctx.out, ctx.argv.size() - 1);
  for (const std::string_view key : ctx.argv.subspan(1)) resp::integer(ctx.out, slot_of(key));
}

void cmd_slotsscan(CommandContext& ctx) {
  ArgReader args(ctx.argv);
  const std::string_view text = args.next();
  const auto slot = slot_arg(text);
  if (!slot) args.fail(bad_slot(text));
  const auto cursor = parse_uint64(args.next());
  if (!cursor) args.fail("ERR invalid cursor");
  ScanOptions options;
  read_scan_options(args, false, &options);
  if (!args.finish()) return reply_error(ctx.out, args.error());
  const std::string begin = slot_prefix(ctx.db, static_cast<int>(*slot));
  reply_scan(ctx, cat("slot ", ctx.db, " ", *slot), begin, prefix_end(begin), *cursor, options);
}

// A slot that was fenced for good belongs to somebody else; deleting this copy is the operator's
// cleaning up (DESIGN 1, phase 7), which the fence against clients must not stop. Other flags do.
Status may_delete(Engine& engine, int slot, bool* cleanup) {
  const uint8_t flags = engine.slot_flags(slot);
  *cleanup = (flags & kSlotReadsRefused) != 0 && (flags & kSlotFollowed) == 0;
  if (*cleanup) return Status::ok();
  const std::string refusal = engine.write_refusal(slot);
  return refusal.empty() ? Status::ok() : Status::refused(refusal);
}

Status delete_slot(Engine& engine, int slot) {
  bool cleanup = false;
  Status allowed = may_delete(engine, slot, &cleanup);
  if (!allowed) return allowed;
  WriteTxn txn;
  for (int db = 0; db < kDbCount; ++db) {
    if (engine.key_count(db, slot) == 0) continue;
    const std::string begin = slot_prefix(db, slot);
    const std::string end = prefix_end(begin);
    for (const Cf cf : {Cf::kMeta, Cf::kData, Cf::kScore}) txn.erase_range(cf, begin, end);
    txn.count_slot_cleared(db, slot);
  }
  if (txn.empty()) return Status::ok();
  if (!cleanup) return engine.commit(std::move(txn)).status();
  ApplyRequest request;
  request.time_ms = engine.expiry_now_ms(slot);
  request.ops = txn.take_ops();
  return engine.apply(request).status();
}

// SLOTSDEL <slot | range> ...: deletes all keys of these slots in all dbs; [slot, keys left] of
// each.
void cmd_slotsdel(CommandContext& ctx) {
  SlotSet slots;
  for (const std::string_view text : ctx.argv.subspan(1)) {
    const Result<SlotSet> some = SlotSet::parse(text);
    if (!some) return reply_error(ctx.out, cat("ERR ", some.status().text()));
    slots.add(*some);
  }
  for (const int slot : slots.to_vector()) {
    bool cleanup = false;
    const Status allowed = may_delete(ctx.engine, slot, &cleanup);
    if (!allowed) return reply_error(ctx.out, allowed);
  }
  std::string out;
  resp::array(out, static_cast<size_t>(slots.size()));
  for (const int slot : slots.to_vector()) {
    const Status deleted = delete_slot(ctx.engine, slot);
    if (!deleted) return reply_error(ctx.out, deleted);
    int64_t left = 0;
    for (int db = 0; db < kDbCount; ++db) left += ctx.engine.key_count(db, slot);
    resp::array(out, 2);
    resp::integer(out, slot);
    resp::integer(out, left);
  }
  ctx.out += out;
}

}  // namespace

void register_slots(CommandRegistry& registry) {
  registry.bind("SLOTSINFO", cmd_slotsinfo);
  registry.bind("SLOTSHASHKEY", cmd_slotshashkey);
  registry.bind("SLOTSSCAN", cmd_slotsscan);
  registry.bind("SLOTSDEL", cmd_slotsdel);
}

}  // namespace sf
