#include "migrator/shim_admin.h"

namespace sf {
namespace {

void append_lock(Argv& argv, const ShimLock& lock) {
  argv.insert(argv.end(), {"AS", lock.owner, std::to_string(lock.epoch)});
}

Status odd_reply(const char* command) {
  return Status::corrupt(cat("the shim answers ", command,
                             " in a shape this program does not know; are the versions the same?"));
}

}  // namespace

int64_t status_number(const ShimStatus& status, std::string_view name) {
  return parse_int64(status_text(status, name)).value_or(0);
}

std::string status_text(const ShimStatus& status, std::string_view name) {
  const auto it = status.find(name);
  return it == status.end() ? std::string() : it->second;
}

ShimAdmin::ShimAdmin(const PlanShim& shim)
    : peer_(PeerOptions{.name = "shim",
                        .address = shim.admin,
                        .password = shim.admin_password,
                        .password_key = "plan key shim.admin_password"}) {}

Result<ShimStatus> ShimAdmin::status() {
  const auto reply = peer_.expect({"SHIM", "STATUS"});
  if (!reply) return reply.status();
  if (!reply->is_array() || reply->items.size() % 2 != 0) return odd_reply("SHIM STATUS");
  ShimStatus status;
  for (size_t i = 0; i < reply->items.size(); i += 2) {
    status[reply->items[i].word()] = reply->items[i + 1].word();
  }
  return status;
}

Result<std::map<int, ShimSlot>> ShimAdmin::slots(const SlotSet& slots) {
  const auto reply = peer_.expect({"SHIM", "SLOTS", slots.text()});
  if (!reply) return reply.status();
  std::map<int, ShimSlot> rows;
  for (const Reply& item : reply->items) {
    if (item.items.size() < 8) return odd_reply("SHIM SLOTS");
    const auto number = [&](size_t i) { return parse_int64(item.items[i].word()).value_or(-1); };
    ShimSlot row{static_cast<int>(number(0)),
                 to_lower(item.items[1].word()),
                 item.items[2].word(),
                 number(3),
                 number(4),
                 number(5),
                 number(6),
                 item.items[7].word()};
    if (row.slot < 0 || row.slot >= kSlotCount) return odd_reply("SHIM SLOTS");
    rows[row.slot] = std::move(row);
  }
  if (static_cast<int>(rows.size()) != slots.size()) return odd_reply("SHIM SLOTS");
  return rows;
}

Result<ShimLock> ShimAdmin::lock(const std::string& owner, bool force) {
  Argv argv = {"SHIM", "LOCK", owner};
  if (force) argv.push_back("FORCE");
  auto reply = peer_.call(argv);
  if (!reply) return reply.status();
  if (reply->is_error() && !force) {
    const auto now = status();
    if (!now) return now.status();
    const std::string holder = status_text(*now, "lock_owner");
    if (holder == owner) return lock(owner, true);
    return Status::refused(cat("another run holds the shim's lock (",
                               holder.empty() ? reply->text : holder,
                               "); wait for it, or if it is dead take the lock with --take-lock"));
  }
  if (reply->is_error()) return Status::refused(cat("shim: ", reply->text));
  const auto epoch = parse_int64(reply->word());
  if (!epoch) return odd_reply("SHIM LOCK");
  return ShimLock{owner, *epoch};
}

Status ShimAdmin::unlock(const ShimLock& lock) {
  return peer_.expect({"SHIM", "UNLOCK", lock.owner, std::to_string(lock.epoch)}).status();
}

Status ShimAdmin::permit(const SlotSet& slots, const ShimLock& lock) {
  Argv argv = {"SHIM", "PERMIT", slots.text()};
  append_lock(argv, lock);
  return peer_.expect(argv).status();
}

Result<std::vector<ShimUnit>> ShimAdmin::cutover(const SlotSet& slots, int64_t max_pause_ms,
                                                 const ShimLock& lock, int timeout_ms) {
  Argv argv = {"SHIM", "CUTOVER", slots.text(), "MAXPAUSE", std::to_string(max_pause_ms)};
  append_lock(argv, lock);
  const auto reply = peer_.expect(argv, timeout_ms);
  if (!reply) return reply.status();
  std::vector<ShimUnit> units;
  for (const Reply& item : reply->items) {
    if (item.items.size() < 5) return odd_reply("SHIM CUTOVER");
    auto parsed = SlotSet::parse(item.items[0].word());
    if (!parsed) return odd_reply("SHIM CUTOVER");
    units.push_back({*parsed, to_lower(item.items[1].word()),
                     parse_int64(item.items[2].word()).value_or(0),
                     parse_int64(item.items[3].word()).value_or(0), item.items[4].word()});
  }
  return units;
}

Status ShimAdmin::abort(const SlotSet& slots, const ShimLock& lock) {
  Argv argv = {"SHIM", "ABORT", slots.text()};
  append_lock(argv, lock);
  return peer_.expect(argv).status();
}

Status ShimAdmin::finalize(const SlotSet& slots, const ShimLock& lock) {
  Argv argv = {"SHIM", "FINAL", slots.text()};
  append_lock(argv, lock);
  return peer_.expect(argv).status();
}

}  // namespace sf
