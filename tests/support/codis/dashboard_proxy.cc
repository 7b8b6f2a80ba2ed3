// Proxies, and the polling of everybody's stats (contracts/codis 2, 4.2).
#include <ctime>
#include <future>

#include "tests/support/codis/auth.h"
#include "tests/support/codis/dashboard.h"
#include "tests/support/codis/slot_json.h"

namespace sf::codis {
namespace {

constexpr int kStatsMs = 1000;

std::string secret_of(const DashboardOptions& options, const ProxyEntry& proxy) {
  return proxy_xauth(options.product, options.product_auth, proxy.token);
}

Status put(const ProxyEntry& proxy, const std::string& path, const std::string& body) {
  const auto client = make_client(proxy.admin_addr);
  return check_answer("Put", proxy.admin_addr, path, client->Put(path, body, "application/json"));
}

Json error_json(const Status& error) {
  return {{"Cause", error.text()}, {"Stack", nullptr}};
}

}  // namespace

Status Dashboard::proxy_create(const std::string& admin_addr, bool may_exist) {
  const std::lock_guard lock(mutex_);
  const std::string who = cat("proxy@", admin_addr);
  const auto client = make_client(admin_addr);
  const std::string path = "/api/proxy/model";
  const auto answer = client->Get(path);
  if (const Status fetched = check_answer("Get", admin_addr, path, answer); !fetched) {
    return Status::refused(cat(who, " fetch model failed, ", fetched.text()));
  }
  ProxyEntry proxy;
  proxy.model = Json::parse(answer->body, nullptr, false);
  if (!proxy.model.is_object() || !proxy.model.contains("token")) {
    return Status::refused(cat(who, " fetch model failed, invalid answer"));
  }
  proxy.token = proxy.model["token"];
  proxy.admin_addr = admin_addr;
  proxy.model["admin_addr"] = admin_addr;
  const std::string xping = cat("/api/proxy/xping/", secret_of(options_, proxy));
  if (const Status known = check_answer("Get", admin_addr, xping, client->Get(xping)); !known) {
    return Status::refused(cat(who, " check xauth failed, ", known.text()));
  }
  const auto found = topology_.proxies.find(proxy.token);
  if (found != topology_.proxies.end() && !may_exist) {
    return Status::exists(cat("proxy-[", proxy.token, "] already exists"));
  }
  for (const auto& [token, other] : topology_.proxies) proxy.id = std::max(proxy.id, other.id);
  proxy.id = found != topology_.proxies.end() ? found->second.id : proxy.id + 1;
  Json model = {{"id", proxy.id}};
  model.update(proxy.model);
  proxy.model = model;
  topology_.proxies[proxy.token] = proxy;
  if (const Status saved = save(); !saved) return saved;
  return bring_up(proxy);
}

Status Dashboard::bring_up(const ProxyEntry& proxy) {
  Json body = Json::array();
  for (const SlotMapping& slot : topology_.slots) {
    body.push_back(to_json(topology_.fill_of(slot, forward_method())));
  }
  if (const Status filled = fill_proxy(proxy, body.dump()); !filled) {
    return Status::refused(cat("proxy-[", proxy.token, "] fill slots failed"));
  }
  const std::string secret = secret_of(options_, proxy);
  if (const Status started = put(proxy, cat("/api/proxy/start/", secret), ""); !started) {
    return Status::refused(cat("proxy-[", proxy.token, "] start failed"));
  }
  return put(proxy, cat("/api/proxy/sentinels/", secret), R"({"out_of_sync": false})");
}

Status Dashboard::proxy_reinit(const std::string& token) {
  const std::lock_guard lock(mutex_);
  const auto found = topology_.proxies.find(token);
  if (found == topology_.proxies.end()) {
    return Status::not_found(cat("proxy-[", token, "] doesn't exist"));
  }
  return bring_up(found->second);
}

Status Dashboard::proxy_remove(const std::string& token, bool force) {
  return change([&]() -> Status {
    const auto found = topology_.proxies.find(token);
    if (found == topology_.proxies.end()) {
      return Status::not_found(cat("proxy-[", token, "] doesn't exist"));
    }
    const ProxyEntry proxy = found->second;
    const Status down = put(proxy, cat("/api/proxy/shutdown/", secret_of(options_, proxy)), "");
    if (!down && !force) return Status::refused(cat("proxy-[", token, "] shutdown failed"));
    topology_.proxies.erase(token);
    return Status::ok();
  });
}

Status Dashboard::fill_proxy(const ProxyEntry& proxy, const std::string& body) {
  return put(proxy, cat("/api/proxy/fillslots/", secret_of(options_, proxy)), body);
}

// To every proxy in parallel; all must take it. No order among them (5.2).
Status Dashboard::resync(const std::vector<SlotFill>& slots) {
  if (slots.empty()) return Status::ok();
  Json body = Json::array();
  for (const SlotFill& slot : slots) body.push_back(to_json(slot));
  const std::string text = body.dump();
  std::vector<std::pair<std::string, std::future<Status>>> answers;
  for (const auto& [token, proxy] : topology_.proxies) {
    answers.emplace_back(token, std::async(std::launch::async, [this, proxy = proxy, &text] {
                           return fill_proxy(proxy, text);
                         }));
  }
  Status result;
  for (auto& [token, answer] : answers) {
    if (!answer.get()) result = Status::refused(cat("proxy-[", token, "] resync slots failed"));
  }
  return result;
}

void Dashboard::run_stats() {
  do {
    poll_stats();
  } while (pause(options_.poll_ms));
}

void Dashboard::poll_stats() {
  std::vector<std::string> servers;
  std::vector<ProxyEntry> proxies;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, group] : topology_.groups) {
      for (const auto& server : group.servers) servers.push_back(server.address);
    }
    for (const auto& [token, proxy] : topology_.proxies) proxies.push_back(proxy);
  }
  const auto keep = [this](std::map<std::string, Json>& all, const std::string& key, Json stats) {
    stats["unixtime"] = static_cast<int64_t>(std::time(nullptr));
    const std::lock_guard lock(small_mutex_);
    all[key] = std::move(stats);
  };
  std::vector<std::future<void>> running;
  for (const auto& address : servers) {
    running.push_back(std::async(std::launch::async, [this, address, keep] {
      const std::string pool = cat("stats ", address);
      std::unique_ptr<RedisClient> client;
      {
        const std::lock_guard lock(small_mutex_);
        auto& idle = idle_clients_[pool];
        if (!idle.empty()) client = std::move(idle.back());
        idle.clear();
      }
      keep(server_stats_, address, server_stats(address, &client));
      const std::lock_guard lock(small_mutex_);
      if (client != nullptr && !client->broken()) idle_clients_[pool].push_back(std::move(client));
    }));
  }
  for (const auto& proxy : proxies) {
    running.push_back(std::async(std::launch::async, [this, proxy, keep] {
      bool offline = false;
      keep(proxy_stats_, proxy.token, proxy_stats(proxy, &offline));
      // A restarted proxy is filled and started again by itself.
      if (offline && !ending()) (void)proxy_create(proxy.admin_addr, true);
    }));
  }
  for (auto& one : running) one.get();
  const std::lock_guard lock(small_mutex_);
  std::erase_if(server_stats_, [&](const auto& entry) {
    return std::find(servers.begin(), servers.end(), entry.first) == servers.end();
  });
}

// INFO and CONFIG GET maxmemory; accepted shapes and fields as in section 2.
Json Dashboard::server_stats(const std::string& address, std::unique_ptr<RedisClient>* client) {
  const auto failed = [](const Status& error) -> Json {
    if (error.code() == Code::kTimeout) return {{"timeout", true}};
    return {{"error", error_json(error)}};
  };
  if (*client == nullptr) {
    auto dialled = RedisClient::dial(address, options_.product_auth, kStatsMs);
    if (!dialled) return failed(dialled.status());
    *client = std::move(*dialled);
  }
  const auto info = (*client)->call({"INFO"});
  if (!info) return failed(info.status());
  if (info->type != Reply::Type::kBulk && info->type != Reply::Type::kStatus) {
    return failed(Status::refused("invalid response of INFO"));
  }
  std::map<std::string, std::string> fields;
  for (auto& [name, value] : info_fields(info->text)) fields[name] = value;
  const auto limit = (*client)->call({"CONFIG", "GET", "maxmemory"});
  if (!limit) return failed(limit.status());
  const bool pair = limit->type == Reply::Type::kArray && limit->elements.size() == 2;
  const Reply value = pair ? limit->elements[1] : Reply();
  const std::string number =
      value.type == Reply::Type::kInteger ? std::to_string(value.integer) : value.text;
  if (!pair || !parse_int64(number)) {
    return failed(Status::refused("invalid response of CONFIG GET maxmemory"));
  }
  fields["maxmemory"] = number;
  if (!fields["master_host"].empty() || !fields["master_port"].empty()) {
    fields["master_addr"] = cat(fields["master_host"], ":", fields["master_port"]);
  }
  std::erase_if(fields, [](const auto& field) {
    return field.second.empty() && (field.first == "master_host" || field.first == "master_port");
  });
  return {{"stats", fields}};
}

Json Dashboard::proxy_stats(const ProxyEntry& proxy, bool* offline) {
  const std::string path = cat("/api/proxy/stats/", secret_of(options_, proxy));
  const auto client = make_client(proxy.admin_addr);
  client->set_read_timeout(1, 0);
  const auto answer = client->Get(path);
  if (const Status got = check_answer("Get", proxy.admin_addr, path, answer); !got) {
    return {{"error", error_json(got)}};
  }
  Json stats = Json::parse(answer->body, nullptr, false);
  *offline = stats.is_object() && !stats.value("online", true);
  return {{"stats", stats}};
}

}  // namespace sf::codis
