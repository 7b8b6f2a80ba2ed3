// The stand-in for codis-dashboard (contracts/codis 2, 4.2, 5): HTTP API, slot migrations, stats
// polling, promotion. Any thread; one mutex covers the model and is held while proxies are waited
// for, as in Codis (trap 12).
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/codis/redis_client.h"
#include "tests/support/codis/topology.h"

namespace sf::codis {

struct DashboardOptions {
  std::string bind = "127.0.0.1";
  int port = 0;
  std::string product = "codis-demo";
  std::string product_auth;
  std::string state_file;  // "": memory only
  bool semi_async = true;  // migration_method
  // Codis refuses a server without SLOTSINFO, so a plain redis-server too. True: a refused
  // SLOTSINFO is let pass, redis-server then stands for codis-server.
  bool plain_redis = false;
  int migration_timeout_ms = 30000;
  int poll_ms = 1000;         // between rounds of the loops
  int error_pause_ms = 5000;  // more after a failed migration round
};

class Dashboard {
 public:
  // `on_shutdown` is called from an HTTP thread when the API asked for the end.
  Dashboard(DashboardOptions options, std::function<void()> on_shutdown);
  ~Dashboard();

  Status start();  // loads the state file, binds, resumes what was going on
  std::string address() const;
  const std::string& xauth() const { return xauth_; }

 private:
  using Mutation = std::function<Status()>;

  // Groups and promotion (dashboard_group.cc).
  Status group_add(int id, const std::string& address, const std::string& datacenter);
  Status group_promote(int id, const std::string& address);
  Status finish_promotion(Group& group);
  void resume_promotions();
  Status group_resync(int id);
  Status resync_all();
  Status replica_groups(int id, const std::string& address, bool value);
  Status replica_groups_all(bool value);
  Result<Json> server_info(const std::string& address);
  void run_syncs();
  bool run_one_sync();

  // Slots (dashboard_slots.cc).
  Status slots_assign(const std::string& body, bool offline);
  void run_slot_actions();
  Status slot_action_round();
  Result<int> prepare_next(const std::set<int>& groups_taken, const std::set<int>& slots_taken);
  Status prepare(SlotMapping& slot);
  Status process(int id);
  Status migrate_once(int id, int* database, bool* done, bool* wait);
  Status call_source(const std::string& source, const std::string& target, int id, int* database,
                     int64_t* remaining, bool* done);
  Status complete(int id);
  void set_progress(const std::string& text);

  // Proxies and stats (dashboard_proxy.cc).
  Status proxy_create(const std::string& admin_addr, bool may_exist);
  Status proxy_reinit(const std::string& token);
  Status proxy_remove(const std::string& token, bool force);
  Status bring_up(const ProxyEntry& proxy);
  Status resync(const std::vector<SlotFill>& slots);
  Status fill_proxy(const ProxyEntry& proxy, const std::string& body);
  void run_stats();
  void poll_stats();
  Json server_stats(const std::string& address, std::unique_ptr<RedisClient>* client);
  Json proxy_stats(const ProxyEntry& proxy, bool* offline);

  // HTTP (dashboard_http.cc).
  void add_routes();
  void add_open_routes();
  void add_group_routes();
  void add_slot_routes();
  void add_proxy_routes();
  Json model() const;
  Json stats();
  Json proxy_slots();

  Status change(const Mutation& mutation);  // under the mutex, then saved
  Status save();
  std::vector<SlotFill> fills_of_group(int id) const;
  int forward_method() const { return options_.semi_async ? 1 : 0; }
  bool pause(int ms);  // false: ending
  bool ending() const { return ending_; }

  DashboardOptions options_;
  std::function<void()> on_shutdown_;
  const std::string xauth_;
  const std::string start_time_;
  std::string token_;

  std::mutex mutex_;  // topology_ and the files and proxies behind it
  Topology topology_;

  std::mutex small_mutex_;  // progress_, the stats, idle_clients_; never held while waiting
  std::string progress_;
  std::map<std::string, Json> server_stats_;
  std::map<std::string, Json> proxy_stats_;
  std::map<std::string, std::vector<std::unique_ptr<RedisClient>>> idle_clients_;

  std::atomic<bool> ending_ = false;
  std::atomic<int64_t> interval_us_ = 0;
  std::atomic<bool> disabled_ = false;
  std::atomic<int> executors_ = 0;
  std::mutex end_mutex_;
  std::condition_variable end_;

  httplib::Server http_;
  std::vector<std::thread> threads_;
};

}  // namespace sf::codis
