// Groups: adding servers, promotion, resync, the sync action (contracts/codis 2, 4.2, 5.3).
#include "tests/support/codis/dashboard.h"

namespace sf::codis {
namespace {

constexpr int kProbeMs = 1000;
constexpr int kSyncMs = 30 * 60 * 1000;

bool is_number(const Reply& reply) {
  return reply.type == Reply::Type::kInteger ||
         (reply.type == Reply::Type::kBulk && parse_int64(reply.text).has_value());
}

// SLOTSINFO: an array of arrays of exactly two numbers; their values do not matter.
Status check_slots_info(const Reply& reply) {
  if (reply.type != Reply::Type::kArray) return Status::refused("invalid response of SLOTSINFO");
  for (const Reply& entry : reply.elements) {
    const bool good = entry.type == Reply::Type::kArray && entry.elements.size() == 2 &&
                      is_number(entry.elements[0]) && is_number(entry.elements[1]);
    if (!good) return Status::refused("invalid response of SLOTSINFO");
  }
  return Status::ok();
}

// The six commands of promote and sync, in one write.
std::vector<Args> follow_requests(const std::string& password, const std::string& master) {
  const auto host_port = parse_host_port(master);
  const Args slaveof = host_port ? Args{"SLAVEOF", host_port->host, std::to_string(host_port->port)}
                                 : Args{"SLAVEOF", "NO", "ONE"};
  return {{"MULTI"},
          {"CONFIG", "SET", "masterauth", password},
          slaveof,
          {"CONFIG", "REWRITE"},
          {"CLIENT", "KILL", "TYPE", "normal"},
          {"EXEC"}};
}

Status check_follow(const std::vector<Reply>& replies) {
  for (const Reply& reply : replies) {
    if (reply.is_error()) return Status::refused(reply.text);
  }
  const Reply& exec = replies.back();
  if (exec.type != Reply::Type::kArray) return Status::refused("invalid response of EXEC");
  for (const Reply& element : exec.elements) {
    if (element.is_error()) return Status::refused(element.text);
  }
  return Status::ok();
}

Status set_master(const std::string& server, const std::string& password, const std::string& master,
                  int timeout_ms) {
  auto client = RedisClient::dial(server, password, timeout_ms);
  if (!client) return client.status();
  const auto replies = (*client)->pipeline(follow_requests(password, master));
  return replies ? check_follow(*replies) : replies.status();
}

}  // namespace

Status Dashboard::group_add(int id, const std::string& address, const std::string& datacenter) {
  auto client = RedisClient::dial(address, options_.product_auth, kProbeMs);
  if (!client) return client.status();
  const auto reply = (*client)->call({"SLOTSINFO"});
  const bool let_pass = options_.plain_redis && reply.status().code() == Code::kRefused;
  if (!let_pass) {
    if (!reply) return reply.status();
    if (const Status fine = check_slots_info(*reply); !fine) return fine;
  }
  return change([&] { return topology_.add_server(id, address, datacenter); });
}

Result<Json> Dashboard::server_info(const std::string& address) {
  auto client = RedisClient::dial(address, options_.product_auth, kProbeMs);
  if (!client) return client.status();
  const Json stats = server_stats(address, &*client);
  if (!stats.contains("stats")) {
    return Status::refused(stats.contains("error") ? stats["error"]["Cause"].get<std::string>()
                                                   : "timeout");
  }
  return stats["stats"];
}

Status Dashboard::group_promote(int id, const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (const Status possible = topology_.check_promote(id, address); !possible) return possible;
  if (const int running = executors_; running != 0) {
    return Status::refused(cat("slots-migration is running = ", running));
  }
  Group& group = topology_.groups[id];
  group.promoting_index = group.find(address);
  group.promoting = "prepared";
  if (const Status saved = save(); !saved) return saved;
  if (const Status locked = resync(fills_of_group(id)); !locked) {
    group.promoting = "preparing";
    (void)resync(fills_of_group(id));
    group.promoting.clear();
    group.promoting_index = 0;
    (void)save();
    return locked;
  }
  return finish_promotion(group);
}

// The switch goes on whatever the new master answers (trap 8).
Status Dashboard::finish_promotion(Group& group) {
  if (group.promoting == "prepared") {
    const auto index = static_cast<size_t>(group.promoting_index);
    const std::string promoted = group.servers[index].address;
    (void)set_master(promoted, options_.product_auth, "", kProbeMs);
    std::swap(group.servers[0], group.servers[index]);
    for (auto& server : group.servers) {
      server.action_state.clear();
      server.action_index = 0;
    }
    group.promoting = "finished";
    if (const Status saved = save(); !saved) return saved;
  }
  const Status told = resync(fills_of_group(group.id));
  if (!told) return told;
  group.promoting.clear();
  group.promoting_index = 0;
  return save();
}

Status Dashboard::group_resync(int id) {
  return change([&]() -> Status {
    const auto group = topology_.group(id);
    if (!group) return group.status();
    if (const Status told = resync(fills_of_group(id)); !told) return told;
    (*group)->out_of_sync = false;
    return Status::ok();
  });
}

Status Dashboard::resync_all() {
  return change([&]() -> Status {
    for (auto& [id, group] : topology_.groups) {
      if (const Status told = resync(fills_of_group(id)); !told) return told;
      group.out_of_sync = false;
    }
    return Status::ok();
  });
}

Status Dashboard::replica_groups(int id, const std::string& address, bool value) {
  return change([&]() -> Status {
    const auto group = topology_.group(id);
    if (!group) return group.status();
    const int index = (*group)->find(address);
    if (index < 0) {
      return Status::not_found(cat("group-[", id, "] doesn't have server-[", address, "]"));
    }
    (*group)->servers[static_cast<size_t>(index)].replica_group = value;
    if ((*group)->servers.size() > 1) (*group)->out_of_sync = true;
    return Status::ok();
  });
}

Status Dashboard::replica_groups_all(bool value) {
  return change([&] {
    for (auto& [id, group] : topology_.groups) {
      for (auto& server : group.servers) server.replica_group = value;
      if (group.servers.size() > 1) group.out_of_sync = true;
    }
    return Status::ok();
  });
}

// What an earlier life of the dashboard left half done.
void Dashboard::resume_promotions() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, group] : topology_.groups) {
    if (!group.promoting.empty()) (void)finish_promotion(group);
  }
}

void Dashboard::run_syncs() {
  resume_promotions();
  while (pause(options_.poll_ms)) {
    while (!ending() && run_one_sync()) {
    }
  }
}

// The pending sync with the lowest index. False: there is none.
bool Dashboard::run_one_sync() {
  std::string address;
  std::string master;
  {
    const std::lock_guard lock(mutex_);
    int lowest = 0;
    for (auto& [id, group] : topology_.groups) {
      for (size_t i = 0; i < group.servers.size(); ++i) {
        const GroupServer& server = group.servers[i];
        if (server.action_state != "pending") continue;
        if (lowest != 0 && server.action_index > lowest) continue;
        lowest = server.action_index;
        address = server.address;
        master = i == 0 ? "" : group.master();
      }
    }
    if (address.empty()) return false;
    Group* group = topology_.group_of(address);
    group->servers[static_cast<size_t>(group->find(address))].action_state = "syncing";
    (void)save();
  }
  const Status synced = set_master(address, options_.product_auth, master, kSyncMs);
  (void)change([&] {
    Group* group = topology_.group_of(address);
    if (group == nullptr) return Status::ok();
    GroupServer& server = group->servers[static_cast<size_t>(group->find(address))];
    if (server.action_state == "syncing") server.action_state = synced ? "synced" : "synced_failed";
    return Status::ok();
  });
  return true;
}

}  // namespace sf::codis
