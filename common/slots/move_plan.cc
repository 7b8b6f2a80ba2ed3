#include "common/slots/move_plan.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>

namespace sf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxGroup = 9999;
constexpr int64_t kMaxPauseMs = 60'000;
constexpr int64_t kMaxSoakSeconds = 7 * 24 * 3600;
constexpr size_t kMaxPlanBytes = 1 << 20;

Status bad_key(std::string_view key, std::string_view what) {
  return Status::invalid(cat("plan key ", key, ": ", what));
}

// Reads keys of one JSON object and remembers the first thing wrong; later reads then do nothing.
class Reader {
 public:
  Reader(const Json& object, std::string prefix) : object_(object), prefix_(std::move(prefix)) {}

  Status status() const { return status_; }
  void fail(std::string_view key, std::string_view what) {
    if (status_.is_ok()) status_ = bad_key(prefix_ + std::string(key), what);
  }

  const Json* find(const char* key, bool required) {
    if (!status_.is_ok()) return nullptr;
    const auto it = object_.find(key);
    if (it != object_.end()) return &*it;
    if (required) fail(key, "is missing");
    return nullptr;
  }
  void text(const char* key, std::string* out, bool required) {
    const Json* value = find(key, required);
    if (value == nullptr) return;
    if (!value->is_string()) return fail(key, "must be a text in quotes");
    *out = value->get<std::string>();
  }
  void flag(const char* key, bool* out) {
    const Json* value = find(key, false);
    if (value == nullptr) return;
    if (!value->is_boolean()) return fail(key, "must be true or false");
    *out = value->get<bool>();
  }
  template <class T>
  void number(const char* key, T* out, bool required) {
    const Json* value = find(key, required);
    if (value == nullptr) return;
    // A number above INT32_MAX is as wrong as a text here, and get<int64_t> must not see one above
    // INT64_MAX.
    const bool fits = value->is_number_unsigned() && value->get<uint64_t>() <= INT32_MAX;
    if (!fits) return fail(key, "must be a whole number, 0 or more");
    *out = static_cast<T>(value->get<int64_t>());
  }
  void host_port(const char* key, HostPort* out, bool required) {
    std::string value;
    text(key, &value, required);
    if (!status_.is_ok() || (value.empty() && !required)) return;
    const auto parsed = parse_host_port(value);
    if (!parsed) return fail(key, cat("'", printable(value), "' is no host:port"));
    *out = *parsed;
  }
  void slots(const char* key, SlotSet* out, bool required) {
    std::string value;
    text(key, &value, required);
    if (!status_.is_ok() || (value.empty() && !required)) return;
    const auto parsed = SlotSet::parse(value);
    if (!parsed) return fail(key, parsed.status().text());
    *out = *parsed;
  }
  template <class Fn>
  void texts(const char* key, bool required, Fn&& each) {
    const Json* value = find(key, required);
    if (value == nullptr) return;
    if (!value->is_array()) return fail(key, "must be a list of texts");
    for (const Json& item : *value) {
      if (!item.is_string()) return fail(key, "must be a list of texts");
      each(item.get<std::string>());
    }
  }
  void only(std::initializer_list<std::string_view> known) {
    for (const auto& item : object_.items()) {
      if (std::find(known.begin(), known.end(), item.key()) == known.end()) {
        fail(printable(item.key()), "is not a key of a plan; correct or remove it");
      }
    }
  }

 private:
  const Json& object_;
  std::string prefix_;
  Status status_;
};

Result<PlanSide> read_side(const Json& json, const std::string& name) {
  if (!json.is_object()) return bad_key(name, "must be an object");
  Reader reader(json, name + ".");
  reader.only({"master", "servers", "password", "kind"});
  PlanSide side;
  std::string kind;
  reader.host_port("master", &side.master, true);
  reader.texts("servers", true, [&](const std::string& item) {
    const auto parsed = parse_host_port(item);
    if (!parsed) return reader.fail("servers", cat("'", printable(item), "' is no host:port"));
    side.servers.push_back(*parsed);
  });
  reader.text("password", &side.password, false);
  reader.text("kind", &kind, true);
  if (!reader.status()) return reader.status();
  const auto parsed = parse_kind(kind);
  if (!parsed) return bad_key(name + ".kind", parsed.status().text());
  side.kind = *parsed;
  return side;
}

Result<PlanShim> read_shim(const Json& json) {
  if (!json.is_object()) return bad_key("shim", "must be an object");
  Reader reader(json, "shim.");
  reader.only({"address", "admin", "admin_password"});
  PlanShim shim;
  reader.host_port("address", &shim.address, true);
  reader.host_port("admin", &shim.admin, true);
  reader.text("admin_password", &shim.admin_password, false);
  if (!reader.status()) return reader.status();
  return shim;
}

Status read_words(Reader& reader, MovePlan* plan) {
  plan->unit = plan->old_side.kind == ServerKind::kNode ? CutUnit::kSlot : CutUnit::kPlan;
  plan->handback =
      plan->old_side.kind == ServerKind::kNode ? HandbackWay::kAssign : HandbackWay::kSlotAction;
  std::string unit(unit_text(plan->unit));
  std::string handback(handback_text(plan->handback));
  reader.text("unit", &unit, false);
  reader.text("handback", &handback, false);
  if (!reader.status()) return reader.status();
  if (unit != "slot" && unit != "plan") return bad_key("unit", "must be slot or plan");
  if (handback != "assign" && handback != "slot-action") {
    return bad_key("handback", "must be assign or slot-action");
  }
  plan->unit = unit == "slot" ? CutUnit::kSlot : CutUnit::kPlan;
  plan->handback = handback == "assign" ? HandbackWay::kAssign : HandbackWay::kSlotAction;
  return Status::ok();
}

Status check_id(const std::string& id) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == ':' || c == '-';
  };
  if (id.empty() || id.size() > 64 || !std::all_of(id.begin(), id.end(), allowed)) {
    return bad_key("plan", "must be 1 to 64 of the characters A-Z a-z 0-9 _ . : -");
  }
  return Status::ok();
}

Status check_side(const PlanSide& side, const std::string& name) {
  if (side.servers.empty()) return bad_key(name + ".servers", "must name at least the master");
  if (std::find(side.servers.begin(), side.servers.end(), side.master) == side.servers.end()) {
    return bad_key(name + ".servers", cat("does not name the master ", side.master.text()));
  }
  for (size_t i = 0; i < side.servers.size(); ++i) {
    if (std::count(side.servers.begin(), side.servers.end(), side.servers[i]) > 1) {
      return bad_key(name + ".servers", cat("names ", side.servers[i].text(), " twice"));
    }
  }
  return Status::ok();
}

Status check_addresses(const MovePlan& plan) {
  for (const HostPort& server : plan.new_side.servers) {
    const auto& old_servers = plan.old_side.servers;
    if (std::find(old_servers.begin(), old_servers.end(), server) != old_servers.end()) {
      return bad_key("new.servers", cat(server.text(), " is a server of the old side too"));
    }
  }
  for (const auto* side : {&plan.old_side, &plan.new_side}) {
    for (const HostPort& server : side->servers) {
      if (server == plan.shim.address || server == plan.shim.admin) {
        return bad_key("shim",
                       cat(server.text(), " is a server of a group; the shim needs its own port"));
      }
    }
  }
  if (plan.shim.address == plan.shim.admin) {
    return bad_key("shim.admin", "must differ from shim.address");
  }
  return Status::ok();
}

Status check_groups(const MovePlan& plan) {
  const std::pair<const char*, int> groups[] = {{"source_group", plan.source_group},
                                                {"target_group", plan.target_group},
                                                {"shim_group", plan.shim_group}};
  for (const auto& [key, group] : groups) {
    if (group < 1 || group > kMaxGroup) return bad_key(key, "must be 1 to 9999");
    for (const auto& [other_key, other] : groups) {
      if (key != other_key && group == other) {
        return bad_key(key, cat("is the same group as ", other_key, " (", group, ")"));
      }
    }
  }
  return Status::ok();
}

Status check_unit(const MovePlan& plan) {
  if (plan.old_side.kind != plan.new_side.kind) {
    return bad_key("new.kind",
                   cat("is ", kind_text(plan.new_side.kind), " but old.kind is ",
                       kind_text(plan.old_side.kind), "; both sides must be of one kind"));
  }
  const ServerKind kind = plan.old_side.kind;
  const bool by_slot = kind == ServerKind::kNode || kind == ServerKind::kPikaSharding;
  if (plan.unit != (by_slot ? CutUnit::kSlot : CutUnit::kPlan)) {
    return bad_key("unit",
                   cat("must be ", by_slot ? "slot" : "plan", " for kind ", kind_text(kind)));
  }
  if (kind != ServerKind::kNode && plan.handback == HandbackWay::kAssign) {
    return bad_key("handback", cat("must be slot-action for kind ", kind_text(kind),
                                   ", whose old master cannot be fenced"));
  }
  return Status::ok();
}

Json side_json(const PlanSide& side) {
  Json servers = Json::array();
  for (const HostPort& server : side.servers) servers.push_back(server.text());
  return Json{{"master", side.master.text()},
              {"servers", servers},
              {"password", side.password},
              {"kind", std::string(kind_text(side.kind))}};
}

Result<MovePlan> read_plan(const Json& json) {
  Reader reader(json, "");
  reader.only({"plan",
               "dashboard",
               "product",
               "product_auth",
               "slots",
               "source_group",
               "target_group",
               "shim_group",
               "stay",
               "old",
               "new",
               "shim",
               "unit",
               "max_pause_ms",
               "hold_share_percent",
               "units_in_flight",
               "handback",
               "soak_seconds",
               "ask",
               "verify",
               "cleanup",
               "reads",
               "compare_percent",
               "guard",
               "accept"});
  MovePlan plan;
  reader.text("plan", &plan.id, true);
  reader.host_port("dashboard", &plan.dashboard, true);
  reader.text("product", &plan.product, true);
  reader.text("product_auth", &plan.product_auth, false);
  reader.slots("slots", &plan.slots, true);
  reader.slots("stay", &plan.stay, false);
  reader.number("source_group", &plan.source_group, true);
  reader.number("target_group", &plan.target_group, true);
  reader.number("shim_group", &plan.shim_group, true);
  const Json* old_json = reader.find("old", true);
  const Json* new_json = reader.find("new", true);
  const Json* shim_json = reader.find("shim", true);
  if (!reader.status()) return reader.status();

  auto old_side = read_side(*old_json, "old");
  if (!old_side) return old_side.status();
  plan.old_side = std::move(*old_side);
  auto new_side = read_side(*new_json, "new");
  if (!new_side) return new_side.status();
  plan.new_side = std::move(*new_side);
  const auto shim = read_shim(*shim_json);
  if (!shim) return shim.status();
  plan.shim = *shim;

  const Status words = read_words(reader, &plan);
  if (!words) return words;
  reader.number("max_pause_ms", &plan.max_pause_ms, false);
  reader.number("hold_share_percent", &plan.hold_share_percent, false);
  reader.number("units_in_flight", &plan.units_in_flight, false);
  reader.number("soak_seconds", &plan.soak_seconds, false);
  reader.text("reads", &plan.reads, false);
  reader.number("compare_percent", &plan.compare_percent, false);
  reader.text("guard", &plan.guard, false);
  reader.texts("ask", false, [&](const std::string& phase) { plan.ask.push_back(phase); });
  reader.texts("accept", false, [&](const std::string& fault) { plan.accept.push_back(fault); });
  reader.flag("verify", &plan.verify);
  reader.flag("cleanup", &plan.cleanup);
  if (!reader.status()) return reader.status();
  const Status checked = plan.check();
  if (!checked) return checked;
  return plan;
}

}  // namespace

std::string_view kind_text(ServerKind kind) {
  switch (kind) {
    case ServerKind::kNode:
      return "node";
    case ServerKind::kRedis:
      return "redis";
    case ServerKind::kPika:
      return "pika";
    default:
      return "pika-sharding";
  }
}
std::string_view unit_text(CutUnit unit) {
  return unit == CutUnit::kSlot ? "slot" : "plan";
}
std::string_view handback_text(HandbackWay way) {
  return way == HandbackWay::kAssign ? "assign" : "slot-action";
}

Result<ServerKind> parse_kind(std::string_view text) {
  if (text == "node") return ServerKind::kNode;
  if (text == "redis") return ServerKind::kRedis;
  if (text == "pika") return ServerKind::kPika;
  if (text == "pika-sharding") return ServerKind::kPikaSharding;
  return Status::invalid(cat("'", printable(text),
                             "' is no kind of server; allowed are node, redis, pika and "
                             "pika-sharding"));
}

const std::vector<std::string>& move_phase_names() {
  static const std::vector<std::string> names = {"replicate", "attach", "cutover", "verify",
                                                 "handback",  "soak",   "cleanup", "detach"};
  return names;
}

const std::vector<std::string>& replication_fault_names() {
  static const std::vector<std::string> names = {"ttl", "append", "streams",
                                                 "uncompared"};
  return names;
}

SlotSet MovePlan::attached_slots() const {
  SlotSet set = slots;
  if (unit == CutUnit::kPlan) set.add(stay);
  return set;
}

Status MovePlan::check() const {
  for (const Status& status :
       {check_id(id), check_groups(*this), check_side(old_side, "old"), check_side(new_side, "new"),
        check_addresses(*this), check_unit(*this)}) {
    if (!status) return status;
  }
  if (product.empty()) return bad_key("product", "must not be empty");
  if (slots.empty()) return bad_key("slots", "names no slot");
  if (slots.intersects(stay)) return bad_key("stay", "names a slot that moves");
  if (max_pause_ms < 1 || max_pause_ms > kMaxPauseMs)
    return bad_key("max_pause_ms", "must be 1 to 60000");
  if (hold_share_percent < 1 || hold_share_percent > 100) {
    return bad_key("hold_share_percent", "must be 1 to 100");
  }
  if (units_in_flight < 1 || units_in_flight > 8) {
    return bad_key("units_in_flight", "must be 1 to 8");
  }
  if (soak_seconds < 0 || soak_seconds > kMaxSoakSeconds) {
    return bad_key("soak_seconds", "must be 0 to 604800");
  }
  if (reads != "owner" && reads != "new-then-old" && reads != "compare") {
    return bad_key("reads", "must be owner, new-then-old or compare");
  }
  if (compare_percent < 1 || compare_percent > 100) {
    return bad_key("compare_percent", "must be 1 to 100");
  }
  if (guard != "off" && guard != "pika-3.5") return bad_key("guard", "must be off or pika-3.5");
  const auto& faults = replication_fault_names();
  for (const std::string& fault : accept) {
    if (std::find(faults.begin(), faults.end(), fault) == faults.end()) {
      return bad_key("accept", cat("'", printable(fault),
                                   "' is no known fault; known are ttl, append, streams, uncompared"));
    }
  }
  const auto& names = move_phase_names();
  for (const std::string& phase : ask) {
    if (std::find(names.begin(), names.end(), phase) == names.end()) {
      return bad_key("ask",
                     cat("'", printable(phase), "' is no phase; phases are replicate, attach, ",
                         "cutover, verify, handback, soak, cleanup, detach"));
    }
  }
  return Status::ok();
}

std::string MovePlan::to_json() const {
  Json json{{"plan", id},
            {"dashboard", dashboard.text()},
            {"product", product},
            {"product_auth", product_auth},
            {"slots", slots.text()},
            {"source_group", source_group},
            {"target_group", target_group},
            {"shim_group", shim_group},
            {"stay", stay.text()},
            {"old", side_json(old_side)},
            {"new", side_json(new_side)},
            {"shim", Json{{"address", shim.address.text()},
                          {"admin", shim.admin.text()},
                          {"admin_password", shim.admin_password}}},
            {"unit", std::string(unit_text(unit))},
            {"max_pause_ms", max_pause_ms},
            {"hold_share_percent", hold_share_percent},
            {"handback", std::string(handback_text(handback))},
            {"soak_seconds", soak_seconds},
            {"ask", ask},
            {"verify", verify},
            {"cleanup", cleanup}};
  const MovePlan usual;  // what a plan need not say
  if (units_in_flight != usual.units_in_flight) json["units_in_flight"] = units_in_flight;
  if (reads != usual.reads) json["reads"] = reads;
  if (compare_percent != usual.compare_percent) json["compare_percent"] = compare_percent;
  if (guard != usual.guard) json["guard"] = guard;
  if (!accept.empty()) json["accept"] = accept;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<MovePlan> MovePlan::parse(std::string_view text) {
  if (text.size() > kMaxPlanBytes)
    return Status::invalid("the plan is larger than 1 MiB, so it is none");
  try {
    const Json json = Json::parse(text);
    if (!json.is_object()) return Status::invalid("the plan must be a JSON object");
    return read_plan(json);
  } catch (const Json::exception& error) {
    return Status::invalid(cat("the plan is not valid JSON: ", error.what()));
  }
}

Result<MovePlan> MovePlan::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status::not_found(
        cat(path, ": cannot be read; make it with slotferry plan --out ", path));
  }
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  auto plan = parse(text);
  if (!plan) return plan.status().with_context(path);
  return plan;
}

}  // namespace sf
