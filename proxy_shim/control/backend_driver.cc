#include "proxy_shim/control/backend_driver.h"

#include "proxy_shim/control/accounted_redis_driver.h"
#include "proxy_shim/control/node_driver.h"
#include "proxy_shim/control/pika_classic_driver.h"
#include "proxy_shim/control/pika_sharding_driver.h"
#include "proxy_shim/control/redis_driver.h"
#include "proxy_shim/control/resp_client.h"

namespace sf {
namespace {

bool at_least_6_2(const std::string& version) {
  const std::vector<std::string_view> parts = split(version, '.');
  if (parts.size() < 2) return false;
  const int64_t major = parse_int64(parts[0]).value_or(0);
  const int64_t minor = parse_int64(parts[1]).value_or(0);
  return major > 6 || (major == 6 && minor >= 2);
}

// Classic mode replicates as a whole, sharding mode by slot; 4.0 has classic only.
Result<ServerKind> ask_pika_mode(RespClient& client, int64_t timeout_ms) {
  Result<Reply> mode = client.ask({"CONFIG", "GET", "instance-mode"}, timeout_ms);
  if (!mode) return mode.status();
  const std::string said = mode->elements.size() == 2 ? mode->elements[1].text : "";
  if (said == "classic") return ServerKind::kPika;
  if (said == "sharding") return ServerKind::kPikaSharding;
  return Status::refused(cat(client.address().text(), " is a Pika server of instance-mode '",
                             printable(said), "', which is neither classic nor sharding"));
}

Result<ServerKind> ask_kind(const PlanSide& side, const std::string& name, int64_t timeout_ms) {
  RespClient client(side.master, side.password, name);
  Result<Reply> info = client.ask({"INFO", "server"}, timeout_ms);
  if (!info) return info.status();
  if (!info_field(info->text, "slotferry_version").empty()) return ServerKind::kNode;
  if (!info_field(info->text, "pika_version").empty()) return ask_pika_mode(client, timeout_ms);
  if (!info_field(info->text, "redis_version").empty()) return ServerKind::kRedis;
  return Status::refused(cat(side.master.text(), " does not say in INFO what it is"));
}

// Can its end be made final? By what it says it is and by what it does: a pause of no time.
Result<bool> pauses_writes(const PlanSide& side, const std::string& name, int64_t timeout_ms) {
  RespClient client(side.master, side.password, name);
  Result<Reply> info = client.ask({"INFO", "server"}, timeout_ms);
  if (!info) return info.status();
  if (!at_least_6_2(info_field(info->text, "redis_version"))) return false;
  Result<Reply> paused = client.call({"CLIENT", "PAUSE", "0", "WRITE"}, timeout_ms);
  if (!paused) return paused.status();
  return paused->is_ok();
}

}  // namespace

Result<std::map<int, uint64_t>> BackendDriver::markers(const SlotSet& slots, int64_t timeout_ms) {
  Result<uint64_t> one = marker(timeout_ms);
  if (!one) return one.status();
  std::map<int, uint64_t> out;
  slots.for_each([&](int slot) { out[slot] = *one; });
  return out;
}

Result<std::unique_ptr<BackendDriver>> make_driver(const MovePlan& plan, DriverNotes* notes,
                                                   const Clock* clock, const std::string& name,
                                                   int64_t timeout_ms) {
  Result<ServerKind> old_kind = ask_kind(plan.old_side, name, timeout_ms);
  if (!old_kind) return old_kind.status().with_context("old group's master");
  Result<ServerKind> new_kind = ask_kind(plan.new_side, name, timeout_ms);
  if (!new_kind) return new_kind.status().with_context("new group's master");
  if (*old_kind != *new_kind || *old_kind != plan.old_side.kind) {
    return Status::refused(
        cat("the plan says kind ", kind_text(plan.old_side.kind), ", the old master ",
            plan.old_side.master.text(), " is ", kind_text(*old_kind), " and the new one ",
            plan.new_side.master.text(), " is ", kind_text(*new_kind), ": correct the plan"));
  }
  std::unique_ptr<BackendDriver> driver;
  if (*old_kind == ServerKind::kNode) {
    driver = std::make_unique<NodeDriver>(plan, name);
  } else if (*old_kind == ServerKind::kPika) {
    driver = std::make_unique<PikaClassicDriver>(plan, notes, clock, name);
  } else if (*old_kind == ServerKind::kPikaSharding) {
    driver = std::make_unique<PikaShardingDriver>(plan, notes, clock, name);
  } else {
    Result<bool> pauses = pauses_writes(plan.old_side, name, timeout_ms);
    if (!pauses) return pauses.status();
    if (*pauses) driver = std::make_unique<RedisDriver>(plan, notes, clock, name);
    if (!*pauses) driver = std::make_unique<AccountedRedisDriver>(plan, notes, clock, name);
  }
  Status status = driver->connect(timeout_ms);
  if (!status) return status;
  return driver;
}

}  // namespace sf
