// The dashboard's routes (contracts/codis 4.2).
#include "tests/support/codis/dashboard.h"
#include "tests/support/codis/slot_json.h"

namespace sf::codis {
namespace {

using Request = httplib::Request;
using Response = httplib::Response;
using Handler = std::function<void(const Request&, Response&)>;

Handler guarded(const std::string& xauth, Handler handler) {
  return [xauth, handler = std::move(handler)](const Request& q, Response& r) {
    if (q.matches[1] != xauth) return reply_error(r, bad_xauth());
    handler(q, r);
  };
}

// The numbers of the path, or the error "invalid <name>".
struct Numbers {
  explicit Numbers(const Request& request) : request_(request) {}
  int get(size_t at, const char* name) {
    const auto number = parse_int64(std::string(request_.matches[at]));
    if (!number || *number < INT32_MIN || *number > INT32_MAX) {
      if (error.is_ok()) error = Status::invalid(cat("invalid ", name));
      return 0;
    }
    return static_cast<int>(*number);
  }
  Status error;

 private:
  const Request& request_;
};

}  // namespace

Json Dashboard::stats() {
  Json slots = Json::array();
  Json groups = Json::array();
  Json proxies = Json::array();
  {
    const std::lock_guard lock(mutex_);
    for (const SlotMapping& slot : topology_.slots) slots.push_back(slot_model(slot));
    for (const auto& [id, group] : topology_.groups) groups.push_back(group_model(group));
    for (const auto& [token, proxy] : topology_.proxies) proxies.push_back(proxy.model);
  }
  const std::lock_guard lock(small_mutex_);
  return {{"closed", false},
          {"slots", slots},
          {"group", {{"models", groups}, {"stats", server_stats_}}},
          {"proxy", {{"models", proxies}, {"stats", proxy_stats_}}},
          {"slot_action",
           {{"interval", interval_us_.load()},
            {"disabled", disabled_.load()},
            {"progress", {{"status", progress_}}},
            {"executor", executors_.load()}}},
          {"sentinels",
           {{"model", {{"out_of_sync", false}}},
            {"stats", Json::object()},
            {"masters", Json::object()}}}};
}

Json Dashboard::proxy_slots() {
  const std::lock_guard lock(mutex_);
  Json out = Json::array();
  for (const SlotMapping& slot : topology_.slots) {
    out.push_back(to_json(topology_.fill_of(slot, forward_method())));
  }
  return out;
}

void Dashboard::add_open_routes() {
  http_.Get("/", [](const Request&, Response& r) { r.set_redirect("/topom"); });
  http_.Get("/topom", [this](const Request&, Response& r) {
    const std::string timeout = cat(options_.migration_timeout_ms / 1000, "s");
    reply_json(r, {{"version", "3.2.2-standin"},
                   {"compile", ""},
                   {"config",
                    {{"coordinator_name", "filesystem"},
                     {"coordinator_addr", options_.state_file},
                     {"admin_addr", address()},
                     {"product_name", options_.product},
                     {"migration_method", options_.semi_async ? "semi-async" : "sync"},
                     {"migration_parallel_slots", 100},
                     {"migration_timeout", timeout}}},
                   {"model", model()},
                   {"stats", stats()}});
  });
  const Handler send_model = [this](const Request&, Response& r) { reply_json(r, model()); };
  http_.Get("/topom/model", send_model);
  http_.Get("/api/topom/model", send_model);
  http_.Get("/topom/stats", [this](const Request&, Response& r) { reply_json(r, stats()); });
  http_.Get("/topom/slots", [this](const Request&, Response& r) { reply_json(r, proxy_slots()); });
  http_.Get(R"(/api/topom/group/info/([^/]+))", [this](const Request& q, Response& r) {
    const auto info = server_info(q.matches[1]);
    if (info) {
      reply_json(r, *info);
    } else {
      reply_error(r, info.status());
    }
  });
}

void Dashboard::add_routes() {
  const auto get = [this](const char* path, Handler h) {
    http_.Get(cat("/api/topom/", path), guarded(xauth_, std::move(h)));
  };
  const auto put = [this](const char* path, Handler h) {
    http_.Put(cat("/api/topom/", path), guarded(xauth_, std::move(h)));
  };
  get("xping/([^/]+)", [](const Request&, Response& r) { reply_ok(r); });
  get("stats/([^/]+)", [this](const Request&, Response& r) { reply_json(r, stats()); });
  get("slots/([^/]+)", [this](const Request&, Response& r) { reply_json(r, proxy_slots()); });
  put("reload/([^/]+)", [](const Request&, Response& r) { reply_ok(r); });
  put("shutdown/([^/]+)", [this](const Request&, Response& r) {
    reply_ok(r);
    on_shutdown_();
  });
  put("loglevel/([^/]+)/([^/]+)", [](const Request& q, Response& r) {
    const std::string level = q.matches[2];
    const bool known = level == "ERROR" || level == "WARN" || level == "INFO" || level == "DEBUG";
    reply(r, known ? Status::ok() : Status::invalid("invalid loglevel"));
  });
  put("sentinels/resync-all/([^/]+)", [](const Request&, Response& r) { reply_ok(r); });
}

void Dashboard::add_group_routes() {
  const auto put = [this](const char* path, Handler h) {
    http_.Put(cat("/api/topom/group/", path), guarded(xauth_, std::move(h)));
  };
  // What takes a group id and perhaps an address.
  using Action = std::function<Status(int, const std::string&)>;
  const auto on_group = [&](const char* path, Action action) {
    put(path, [action = std::move(action)](const Request& q, Response& r) {
      Numbers numbers(q);
      const int id = numbers.get(2, "gid");
      const std::string address = q.matches.size() > 3 ? std::string(q.matches[3]) : "";
      reply(r, numbers.error ? action(id, address) : numbers.error);
    });
  };
  on_group("create/([^/]+)/([^/]+)", [this](int id, const std::string&) {
    return change([&] { return topology_.create_group(id); });
  });
  on_group("remove/([^/]+)/([^/]+)", [this](int id, const std::string&) {
    return change([&] { return topology_.remove_group(id); });
  });
  on_group("resync/([^/]+)/([^/]+)",
           [this](int id, const std::string&) { return group_resync(id); });
  on_group("del/([^/]+)/([^/]+)/([^/]+)", [this](int id, const std::string& address) {
    return change([&] { return topology_.del_server(id, address); });
  });
  on_group("promote/([^/]+)/([^/]+)/([^/]+)",
           [this](int id, const std::string& address) { return group_promote(id, address); });
  put("add/([^/]+)/([^/]+)/([^/]+)(?:/([^/]+))?", [this](const Request& q, Response& r) {
    Numbers numbers(q);
    const int id = numbers.get(2, "gid");
    reply(r, numbers.error ? group_add(id, q.matches[3], q.matches[4]) : numbers.error);
  });
  put("replica-groups/([^/]+)/([^/]+)/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers numbers(q);
    const int id = numbers.get(2, "gid");
    const bool value = numbers.get(4, "value") != 0;
    reply(r, numbers.error ? replica_groups(id, q.matches[3], value) : numbers.error);
  });
  put("replica-groups-all/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers numbers(q);
    const bool value = numbers.get(2, "value") != 0;
    reply(r, numbers.error ? replica_groups_all(value) : numbers.error);
  });
  put("resync-all/([^/]+)", [this](const Request&, Response& r) { reply(r, resync_all()); });
  put("action/create/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    reply(r, change([&] { return topology_.create_sync(q.matches[2]); }));
  });
  put("action/remove/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    reply(r, change([&] { return topology_.remove_sync(q.matches[2]); }));
  });
}

void Dashboard::add_slot_routes() {
  const auto put = [this](const char* path, Handler h) {
    http_.Put(cat("/api/topom/slots/", path), guarded(xauth_, std::move(h)));
  };
  put("action/create/([^/]+)/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const int slot = n.get(2, "sid");
    const int group = n.get(3, "gid");
    reply(r, n.error ? change([&] { return topology_.create_action(slot, group); }) : n.error);
  });
  put("action/create-range/([^/]+)/([^/]+)/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const int begin = n.get(2, "beg");
    const int end = n.get(3, "end");
    const int group = n.get(4, "gid");
    const auto make = [&] { return topology_.create_action_range(begin, end, group); };
    reply(r, n.error ? change(make) : n.error);
  });
  put("action/create-some/([^/]+)/([^/]+)/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const int source = n.get(2, "src");
    const int target = n.get(3, "dst");
    const int count = n.get(4, "num");
    const auto make = [&] { return topology_.create_action_some(source, target, count); };
    reply(r, n.error ? change(make) : n.error);
  });
  put("action/remove/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const int slot = n.get(2, "sid");
    reply(r, n.error ? change([&] { return topology_.remove_action(slot); }) : n.error);
  });
  put("action/interval/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const int us = n.get(2, "value");
    if (n.error) interval_us_ = std::clamp(us, 0, 1'000'000);
    reply(r, n.error);
  });
  put("action/disabled/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const int value = n.get(2, "value");
    if (n.error) disabled_ = value != 0;
    reply(r, n.error);
  });
  put("assign/([^/]+)",
      [this](const Request& q, Response& r) { reply(r, slots_assign(q.body, false)); });
  put("assign/([^/]+)/offline",
      [this](const Request& q, Response& r) { reply(r, slots_assign(q.body, true)); });
}

void Dashboard::add_proxy_routes() {
  const auto put = [this](const char* path, Handler h) {
    http_.Put(cat("/api/topom/proxy/", path), guarded(xauth_, std::move(h)));
  };
  put("create/([^/]+)/([^/]+)",
      [this](const Request& q, Response& r) { reply(r, proxy_create(q.matches[2], false)); });
  put("online/([^/]+)/([^/]+)",
      [this](const Request& q, Response& r) { reply(r, proxy_create(q.matches[2], true)); });
  put("reinit/([^/]+)/([^/]+)",
      [this](const Request& q, Response& r) { reply(r, proxy_reinit(q.matches[2])); });
  put("remove/([^/]+)/([^/]+)/([^/]+)", [this](const Request& q, Response& r) {
    Numbers n(q);
    const bool force = n.get(3, "value") != 0;
    reply(r, n.error ? proxy_remove(q.matches[2], force) : n.error);
  });
}

}  // namespace sf::codis
