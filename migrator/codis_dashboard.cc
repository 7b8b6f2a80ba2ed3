#include "migrator/codis_dashboard.h"

#include <httplib.h>

#include <nlohmann/json.hpp>

#include "common/base/sha256.h"

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr int kConnectTimeoutSeconds = 3;
// A dashboard waits up to 60 s for a slow proxy's fillslots before it answers.
constexpr int kReadTimeoutSeconds = 70;

constexpr int kCodisFailure = 800;  // and 1500: "Cause" in the body is the reason
constexpr int kCodisFailureToo = 1500;

Status odd_answer(std::string_view who, std::string_view path, std::string_view what) {
  return Status::corrupt(cat(who, " answers ", path, " with something else than Codis does (", what,
                             "); is this address a codis-dashboard or proxy admin port?"));
}

std::string cause_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  if (json.is_object() && json.contains("Cause") && json["Cause"].is_string()) {
    return json["Cause"].get<std::string>();
  }
  return printable(body, 200);
}

// One request to `address`; the body of a 200.
Result<std::string> request(const std::string& who, const HostPort& address,
                            const std::string& method, const std::string& path,
                            const std::string& body) {
  httplib::Client client(address.host, address.port);
  client.set_connection_timeout(kConnectTimeoutSeconds);
  client.set_read_timeout(kReadTimeoutSeconds);
  const auto result =
      method == "GET" ? client.Get(path) : client.Put(path, body, "application/json");
  if (!result) {
    const std::string text = cat(who, " ", address.text(), " ");
    if (result.error() == httplib::Error::Connection) {
      return Status::unavailable(text + "cannot be reached; start it or correct its address");
    }
    return Status::timeout(text + "broke off or gave no answer to " + path);
  }
  if (result->status == 200) return result->body;
  if (result->status == kCodisFailure || result->status == kCodisFailureToo) {
    const std::string cause = cause_of(result->body);
    if (cause.find("invalid xauth") != std::string::npos) {
      return Status::invalid(
          cat(who, " ", address.text(),
              " refuses the xauth; correct the product name or the product auth"));
    }
    return Status::refused(cat(who, " ", address.text(), ": ", cause));
  }
  return odd_answer(cat(who, " ", address.text()), path, cat("HTTP ", result->status));
}

CodisGroup read_group(const Json& json) {
  CodisGroup group;
  group.id = json.at("id").get<int>();
  for (const Json& server : json.at("servers"))
    group.servers.push_back(server.at("server").get<std::string>());
  const Json promoting = json.value("promoting", Json::object());
  group.promoting = promoting.is_object() && !promoting.value("state", std::string()).empty();
  return group;
}

CodisProxy read_proxy(const Json& json, const Json& stats) {
  CodisProxy proxy;
  proxy.token = json.at("token").get<std::string>();
  proxy.admin_addr = json.at("admin_addr").get<std::string>();
  proxy.proxy_addr = json.value("proxy_addr", std::string());
  if (stats.contains(proxy.token)) {
    const Json& row = stats.at(proxy.token);
    const Json inner = row.value("stats", Json::object());
    proxy.online =
        inner.is_object() && inner.value("online", false) && !inner.value("closed", false);
  }
  return proxy;
}

CodisTopology read_topology(const Json& json) {
  CodisTopology topology;
  topology.slots.resize(kSlotCount);
  for (const Json& item : json.at("slots")) {
    CodisSlot& slot = topology.slots.at(item.at("id").get<size_t>());
    slot.group = item.value("group_id", 0);
    const Json action = item.value("action", Json::object());
    slot.action_state = action.value("state", std::string());
    slot.action_target = action.value("target_id", 0);
  }
  for (const Json& item : json.at("group").at("models")) {
    CodisGroup group = read_group(item);
    topology.groups[group.id] = std::move(group);
  }
  const Json& proxy = json.at("proxy");
  const Json stats = proxy.value("stats", Json::object());
  for (const Json& item : proxy.at("models")) topology.proxies.push_back(read_proxy(item, stats));
  const Json actions = json.value("slot_action", Json::object());
  topology.actions_disabled = actions.value("disabled", false);
  topology.action_progress =
      actions.value("progress", Json::object()).value("status", std::string());
  return topology;
}

}  // namespace

SlotSet CodisTopology::slots_of(int id) const {
  SlotSet set;
  for (int slot = 0; slot < kSlotCount; ++slot) {
    if (slots[static_cast<size_t>(slot)].group == id) set.add(slot);
  }
  return set;
}

const CodisGroup* CodisTopology::group(int id) const {
  const auto it = groups.find(id);
  return it == groups.end() ? nullptr : &it->second;
}

const CodisGroup* CodisTopology::group_with(const std::string& server) const {
  for (const auto& [id, group] : groups) {
    for (const std::string& member : group.servers) {
      if (member == server) return &group;
    }
  }
  return nullptr;
}

Result<CodisTopology> parse_topology(std::string_view body) {
  try {
    return read_topology(Json::parse(body));
  } catch (const std::exception& error) {
    return odd_answer("the dashboard", "stats", error.what());
  }
}

Result<std::vector<ProxySlot>> parse_proxy_slots(std::string_view body) {
  try {
    std::vector<ProxySlot> slots(kSlotCount);
    SlotSet seen;
    for (const Json& item : Json::parse(body)) {
      const auto id = item.at("id").get<size_t>();
      ProxySlot& slot = slots.at(id);
      slot.backend = item.value("backend_addr", std::string());
      slot.migrate_from = item.value("migrate_from", std::string());
      slot.locked = item.value("locked", false);
      seen.add(static_cast<int>(id));
    }
    if (seen.size() != kSlotCount)
      return odd_answer("a proxy", "slots", "not all 1024 slots are listed");
    return slots;
  } catch (const std::exception& error) {
    return odd_answer("a proxy", "slots", error.what());
  }
}

CodisDashboard::CodisDashboard(HostPort address, std::string product, std::string product_auth)
    : address_(std::move(address)),
      product_(std::move(product)),
      product_auth_(std::move(product_auth)),
      xauth_(dashboard_xauth(product_)) {}

std::string CodisDashboard::dashboard_xauth(std::string_view product) {
  return sha256_hex(cat("Codis-XAuth-[", product, "]")).substr(0, 32);
}

std::string CodisDashboard::proxy_xauth(std::string_view product, std::string_view auth,
                                        std::string_view token) {
  return sha256_hex(cat("Codis-XAuth-[", product, "]-[", auth, "]-[", token, "]")).substr(0, 32);
}

Status CodisDashboard::put(const std::string& path, const std::string& body) {
  return request("the dashboard", address_, "PUT", path, body).status();
}

Status CodisDashboard::ping() {
  return request("the dashboard", address_, "GET", "/api/topom/xping/" + xauth_, {}).status();
}

Result<CodisTopology> CodisDashboard::topology() {
  auto body = request("the dashboard", address_, "GET", "/api/topom/stats/" + xauth_, {});
  if (!body) return body.status();
  return parse_topology(*body);
}

Result<std::vector<ProxySlot>> CodisDashboard::proxy_slots(const CodisProxy& proxy) {
  const std::string who = "proxy";
  const auto admin = parse_host_port(proxy.admin_addr);
  if (!admin)
    return odd_answer("the dashboard", "stats", cat("proxy admin address ", proxy.admin_addr));
  const auto model = request(who, *admin, "GET", "/api/proxy/model", {});
  if (!model) return model.status();
  // A proxy that was replaced on the same port has another token: then the dashboard's list is
  // stale and what this process routes is nobody's promise.
  const Json json = Json::parse(*model, nullptr, false);
  const std::string token = json.is_object() ? json.value("token", std::string()) : std::string();
  if (token != proxy.token) {
    return Status::unavailable(cat("proxy ", proxy.admin_addr,
                                   " is not the one the dashboard registered ", "(token ", token,
                                   " instead of ", proxy.token, "); online it again"));
  }
  const std::string path = "/api/proxy/slots/" + proxy_xauth(product_, product_auth_, token);
  const auto body = request(who, *admin, "GET", path, {});
  if (!body) return body.status();
  return parse_proxy_slots(*body);
}

Status CodisDashboard::create_group(int group) {
  return put(cat("/api/topom/group/create/", xauth_, "/", group));
}

Status CodisDashboard::remove_group(int group) {
  return put(cat("/api/topom/group/remove/", xauth_, "/", group));
}

Status CodisDashboard::add_server(int group, const std::string& server) {
  return put(cat("/api/topom/group/add/", xauth_, "/", group, "/", server));
}

Status CodisDashboard::remove_server(int group, const std::string& server) {
  return put(cat("/api/topom/group/del/", xauth_, "/", group, "/", server));
}

Status CodisDashboard::assign(const SlotSet& slots, int group) {
  Json body = Json::array();
  slots.for_each([&](int slot) { body.push_back({{"id", slot}, {"group_id", group}}); });
  return put(cat("/api/topom/slots/assign/", xauth_), body.dump());
}

Status CodisDashboard::create_action(int slot, int group) {
  return put(cat("/api/topom/slots/action/create/", xauth_, "/", slot, "/", group));
}

Status CodisDashboard::remove_action(int slot) {
  return put(cat("/api/topom/slots/action/remove/", xauth_, "/", slot));
}

}  // namespace sf
