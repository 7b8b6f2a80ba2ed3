// Slot migrations and slots-assign (contracts/codis 2.1, 5.1, 5.2).
#include <algorithm>
#include <future>

#include "tests/support/codis/dashboard.h"

namespace sf::codis {
namespace {

constexpr size_t kParallelSlots = 100;
constexpr int kAsyncTimeoutMaxMs = 5000;
const std::string kMaxBulks = "200";
const std::string kMaxBytes = "33554432";
const std::string kNumKeys = "500";

// What redigo prints for a reply of the wrong shape.
std::string printed(const Reply& reply) {
  switch (reply.type) {
    case Reply::Type::kNil:
      return "<nil>";
    case Reply::Type::kInteger:
      return std::to_string(reply.integer);
    case Reply::Type::kArray: {
      std::string out = "[";
      for (const Reply& element : reply.elements) {
        if (out.size() > 1) out += ' ';
        out += printed(element);
      }
      return out + "]";
    }
    default:
      return reply.text;
  }
}

// An integer or digit string; nil counts as 0, as seen with [nil nil].
std::optional<int64_t> number_of(const Reply& reply) {
  if (reply.type == Reply::Type::kInteger) return reply.integer;
  if (reply.type == Reply::Type::kNil) return 0;
  return parse_int64(reply.text);
}

// The smallest database above `database` that INFO keyspace lists; -1 if none.
Result<int> next_database(const std::string& info, int database) {
  int next = -1;
  for (const auto& [name, value] : info_fields(info)) {
    if (!name.starts_with("db")) continue;
    const std::string rest = name.substr(2);
    const auto number = parse_int64(rest);
    if (!number) {
      return Status::refused(cat("strconv.Atoi: parsing \"", rest, "\": invalid syntax"));
    }
    if (*number > database && (next < 0 || *number < next)) next = static_cast<int>(*number);
  }
  return next;
}

}  // namespace

Status Dashboard::slots_assign(const std::string& body, bool offline) {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<int, int>> wanted;
  try {
    for (const Json& one : Json::parse(body)) {
      const int id = one.value("id", 0);
      const int group = one.value("group_id", 0);
      if (const Status known = topology_.check_slot(id); !known) return known;
      if (offline) {
        if (group != 0) return Status::refused(cat("group of slot-[", id, "] should be 0"));
      } else {
        if (const Status usable = topology_.check_group_usable(group); !usable) return usable;
        const Json action = one.value("action", Json::object());
        const std::string state = action.value("state", "");
        if (!state.empty()) return Status::refused(cat("invalid slot-[", id, "] action = ", state));
      }
      wanted.emplace_back(id, group);
    }
  } catch (const std::exception&) {
    return Status::ok();  // malformed or ill-typed: "OK", nothing done
  }
  // No locked phase; the model is switched before any proxy is, whatever becomes of them (5.2).
  for (const auto& [id, group] : wanted) {
    if (group != 0) topology_.groups[group].out_of_sync = true;
  }
  std::vector<SlotFill> fills;
  for (const auto& [id, group] : wanted) {
    SlotMapping& slot = topology_.slots[static_cast<size_t>(id)];
    slot = SlotMapping{id, group, "", 0, 0};
    fills.push_back(topology_.fill_of(slot, forward_method()));
  }
  if (const Status saved = save(); !saved) return saved;
  return resync(fills);
}

void Dashboard::set_progress(const std::string& text) {
  const std::lock_guard lock(small_mutex_);
  progress_ = text;
}

void Dashboard::run_slot_actions() {
  while (!ending()) {
    if (!slot_action_round() && !pause(options_.error_pause_ms)) return;
    if (!pause(options_.poll_ms)) return;
  }
}

// Takes what may go on side by side (no two slots with a group in common), until nothing is left.
Status Dashboard::slot_action_round() {
  while (!ending()) {
    std::set<int> groups;
    std::set<int> slots;
    while (slots.size() < kParallelSlots) {
      const auto next = prepare_next(groups, slots);
      if (!next) return next.status();
      if (*next < 0) break;
      slots.insert(*next);
      const std::lock_guard lock(mutex_);
      const SlotMapping& slot = topology_.slots[static_cast<size_t>(*next)];
      if (slot.group != 0) groups.insert(slot.group);
      groups.insert(slot.target);
    }
    if (slots.empty()) return Status::ok();
    std::vector<std::future<Status>> running;
    for (const int id : slots) {
      running.push_back(std::async(std::launch::async, [this, id] { return process(id); }));
    }
    Status result;
    for (auto& one : running) {
      if (const Status status = one.get(); !status) result = status;
    }
    if (!result) return result;
    if (!pause(10)) break;
  }
  return Status::ok();
}

// Picks the next slot and brings it to `migrating`: first what was begun, then by index. -1: none.
Result<int> Dashboard::prepare_next(const std::set<int>& groups_taken,
                                    const std::set<int>& slots_taken) {
  const std::lock_guard lock(mutex_);
  SlotMapping* best = nullptr;
  const auto begun = [](const SlotMapping& slot) { return slot.state != "pending"; };
  for (SlotMapping& slot : topology_.slots) {
    if (slot.state.empty() || slots_taken.contains(slot.id)) continue;
    if (groups_taken.contains(slot.group) || groups_taken.contains(slot.target)) continue;
    if (!begun(slot)) {
      if (disabled_ || topology_.promoting(slot.group) || topology_.promoting(slot.target))
        continue;
    }
    const bool better = best == nullptr || (begun(slot) && !begun(*best)) ||
                        (begun(slot) == begun(*best) && slot.index < best->index);
    if (better) best = &slot;
  }
  if (best == nullptr) return -1;
  if (const Status ready = prepare(*best); !ready) return ready;
  return best->id;
}

Status Dashboard::prepare(SlotMapping& slot) {
  const auto store = [&](const char* state) {
    slot.state = state;
    return save();
  };
  const auto tell = [&] { return resync({topology_.fill_of(slot, forward_method())}); };
  if (slot.state == "pending") {
    if (const Status saved = store("preparing"); !saved) return saved;
  }
  if (slot.state == "preparing") {
    slot.state = "prepared";
    if (const Status told = tell(); !told) {
      // Rolled back everywhere; nothing in the progress text (5.1).
      slot.state = "preparing";
      (void)tell();
      return told;
    }
    if (const Status saved = save(); !saved) return saved;
  }
  if (slot.state == "prepared") {
    slot.state = "migrating";
    if (const Status told = tell(); !told) {
      // No roll-back: proxies that were not reached keep the slot locked.
      slot.state = "prepared";
      return told;
    }
    return save();
  }
  return Status::ok();
}

Status Dashboard::process(int id) {
  int database = 0;
  while (!ending()) {
    bool done = false;
    bool wait = false;
    if (const Status status = migrate_once(id, &database, &done, &wait); !status) {
      const std::string number = std::to_string(10000 + id).substr(1);
      set_progress(cat("[ERROR] Slot[", number, "]: ", status.text()));
      return status;
    }
    if (done) return complete(id);
    if (wait) {
      if (!pause(options_.poll_ms)) break;
    } else if (const int64_t us = interval_us_; us > 0) {
      if (!pause(static_cast<int>(us / 1000))) break;
    }
  }
  return Status::ok();
}

Status Dashboard::migrate_once(int id, int* database, bool* done, bool* wait) {
  std::string source;
  std::string target;
  {
    const std::lock_guard lock(mutex_);
    const SlotMapping& slot = topology_.slots[static_cast<size_t>(id)];
    if (slot.state == "finished") {
      *done = true;
      return Status::ok();
    }
    if (slot.state != "migrating") {
      return Status::refused(cat("slot-[", id, "] action state is invalid"));
    }
    if (disabled_ || topology_.promoting(slot.group) || topology_.promoting(slot.target)) {
      *wait = true;
      return Status::ok();
    }
    source = topology_.master_of(slot.group);
    target = topology_.master_of(slot.target);
  }
  if (source.empty()) {
    *done = true;
    return Status::ok();
  }
  ++executors_;
  int64_t remaining = 0;
  const int at = *database;
  const Status called = call_source(source, target, id, database, &remaining, done);
  --executors_;
  if (!called) return called;
  const std::string number = std::to_string(10000 + id).substr(1);
  set_progress(*done ? "" : cat("[OK] Slot[", number, "]@DB[", at, "]=", remaining));
  return Status::ok();
}

// One migration call; after remaining = 0 the next database, if INFO keyspace names one (2, 2.1).
Status Dashboard::call_source(const std::string& source, const std::string& target, int id,
                              int* database, int64_t* remaining, bool* done) {
  std::unique_ptr<RedisClient> client;
  {
    const std::lock_guard lock(small_mutex_);
    auto& idle = idle_clients_[source];
    if (!idle.empty()) {
      client = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (client == nullptr) {
    auto dialled = RedisClient::dial(source, options_.product_auth, options_.migration_timeout_ms);
    if (!dialled) return dialled.status();
    client = std::move(*dialled);
  }
  if (const Status selected = client->select(*database); !selected) return selected;
  const auto host_port = parse_host_port(target).value_or(HostPort{});
  const std::string port = std::to_string(host_port.port);
  const std::string slot = std::to_string(id);
  const int async_ms = std::min(kAsyncTimeoutMaxMs, options_.migration_timeout_ms);
  const Args request = options_.semi_async
                           ? Args{"SLOTSMGRTTAGSLOT-ASYNC",
                                  host_port.host,
                                  port,
                                  std::to_string(async_ms),
                                  kMaxBulks,
                                  kMaxBytes,
                                  slot,
                                  kNumKeys}
                           : Args{"SLOTSMGRTTAGSLOT", host_port.host, port,
                                  std::to_string(options_.migration_timeout_ms), slot};
  const auto reply = client->call(request);
  if (!reply) return reply.status();
  const auto left = reply->type == Reply::Type::kArray && reply->elements.size() == 2
                        ? number_of(reply->elements[1])
                        : std::nullopt;
  if (!left || !number_of(reply->elements[0])) {
    return Status::refused(cat("invalid response = ", printed(*reply)));
  }
  *remaining = *left;
  if (*left == 0) {
    const auto info = client->call({"INFO", "keyspace"});
    if (!info) return info.status();
    const auto next = next_database(info->text, *database);
    if (!next) return next.status();
    *done = *next < 0;
    if (!*done) *database = *next;
  }
  const std::lock_guard lock(small_mutex_);
  idle_clients_[source].push_back(std::move(client));
  return Status::ok();
}

Status Dashboard::complete(int id) {
  const std::lock_guard lock(mutex_);
  SlotMapping& slot = topology_.slots[static_cast<size_t>(id)];
  if (slot.state != "migrating" && slot.state != "finished") {
    return Status::refused(cat("slot-[", id, "] action state is invalid"));
  }
  slot.state = "finished";
  if (const Status saved = save(); !saved) return saved;
  if (const Status told = resync({topology_.fill_of(slot, forward_method())}); !told) return told;
  slot = SlotMapping{id, slot.target, "", 0, 0};
  return save();
}

}  // namespace sf::codis
