#include "common/pika/pika_status.h"

#include <algorithm>

namespace sf {
namespace {

Status bad_field(std::string_view field, std::string_view said) {
  return Status::corrupt(cat("Pika's ", field, " is '", printable(said), "', which is not known"));
}

Status missing_field(std::string_view field) {
  return Status::corrupt(cat("Pika does not say ", field));
}

using Fields = std::map<std::string, std::string, std::less<>>;

// `name:value` lines. A field said twice with two values is contradictory, so it is none.
Result<Fields> fields_of(std::string_view text) {
  Fields out;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    const size_t colon = line.find(':');
    if (line.empty() || line[0] == '#' || colon == std::string_view::npos) continue;
    const std::string name(trim(line.substr(0, colon)));
    const std::string value(trim(line.substr(colon + 1)));
    const auto [at, added] = out.emplace(name, value);
    // Databases have two lines: their state and their binlog.
    if (!added && at->second != value && !name.starts_with("db")) return bad_field(name, value);
  }
  return out;
}

Result<std::string> text_field(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return missing_field(name);
  return found->second;
}

Result<uint64_t> number_field(const Fields& fields, std::string_view name, uint64_t most) {
  const auto found = fields.find(name);
  if (found == fields.end()) return missing_field(name);
  const auto value = parse_uint64(found->second);
  if (!value || *value > most) return bad_field(name, found->second);
  return *value;
}

// "0 55096144,safety_purge=none"
Result<BinlogOffset> offset_of(std::string_view said) {
  const std::string_view numbers = said.substr(0, said.find(','));
  const std::vector<std::string_view> parts = split(numbers, ' ');
  if (parts.size() != 2) return bad_field("binlog_offset", said);
  const auto file = parse_uint64(parts[0]);
  const auto offset = parse_uint64(parts[1]);
  if (!file || !offset || *file > (1U << 24) - 1 || *offset >> 40 != 0) {
    return bad_field("binlog_offset", said);
  }
  return BinlogOffset{static_cast<uint32_t>(*file), *offset};
}

bool is_db_name(std::string_view name) {
  return name.starts_with("db") && name.size() > 2 && parse_uint64(name.substr(2)).has_value();
}

// "db0:binlog_offset=..." (3.3 on) or "db0 binlog_offset=..." (before); nothing if the line is
// none.
Result<bool> read_binlog_line(std::string_view line, PikaReplication* out) {
  constexpr std::string_view kMark = "binlog_offset=";
  const size_t mark = line.find(kMark);
  if (mark == std::string_view::npos || line[0] == '(') return false;
  const std::string_view name = line.substr(0, mark == 0 ? 0 : mark - 1);
  const bool joined = mark > 0 && (line[mark - 1] == ':' || line[mark - 1] == ' ');
  if (!joined || !is_db_name(name)) return bad_field("binlog_offset", line);
  Result<BinlogOffset> offset = offset_of(line.substr(mark + kMark.size()));
  if (!offset) return offset.status().with_context(name);
  if (!out->binlog.emplace(name, *offset).second) return bad_field("binlog_offset", line);
  return true;
}

// "ip=127.0.0.1,port=19222,conn_fd=74,lag=(db0:0)"
Result<PikaReplica> replica_of(const std::string& name, std::string_view said) {
  PikaReplica out;
  std::string_view lags;
  const size_t lag_at = said.find(",lag=");
  if (lag_at != std::string_view::npos) lags = said.substr(lag_at + 5);
  for (std::string_view part : split(said.substr(0, lag_at), ',')) {
    if (part.starts_with("ip=")) out.address.host = std::string(part.substr(3));
    if (part.starts_with("port=")) {
      out.address.port = static_cast<int>(parse_uint64(part.substr(5)).value_or(0));
    }
  }
  if (out.address.host.empty() || out.address.port < 1 || out.address.port > 65535) {
    return bad_field(name, said);
  }
  // "(db0:0)(db1:full syncing)" or "(db0:0,db1:5)": known only if every part is a number.
  uint64_t worst = 0;
  bool known = !lags.empty();
  std::string flat(lags);
  std::replace(flat.begin(), flat.end(), ')', ',');
  for (std::string_view part : split(flat, ',')) {
    part = trim(part);
    if (part.empty()) continue;
    if (part.front() == '(') part.remove_prefix(1);
    const size_t colon = part.find(':');
    const std::string_view value = colon == std::string_view::npos ? part : part.substr(colon + 1);
    const auto bytes = parse_uint64(trim(value));
    known = known && bytes.has_value();
    worst = std::max(worst, bytes.value_or(0));
    out.lag_text += cat(out.lag_text.empty() ? "" : ", ", trim(value));
  }
  if (known && !out.lag_text.empty()) out.lag = worst;
  return out;
}

bool is_replica_name(std::string_view name) {
  return name.starts_with("slave") && name.size() > 5 && parse_uint64(name.substr(5)).has_value();
}

bool is_copying(std::string_view state) {
  return state == "try_to_full_sync" || state == "syncing_full" || state == "kTryDBSync" ||
         state == "kWaitDBSync" || state == "WaitDBSync" || state == "waiting_full_sync";
}

bool is_between(std::string_view state) {
  return is_copying(state) || state == "connecting" || state == "kWaitReply";
}

Status read_master_of(const Fields& fields, PikaReplication* out) {
  Result<std::string> host = text_field(fields, "master_host");
  if (!host) return host.status();
  if (host->empty()) return bad_field("master_host", *host);
  Result<uint64_t> port = number_field(fields, "master_port", 65535);
  if (!port) return port.status();
  out->master = {*host, static_cast<int>(*port)};
  Result<std::string> link = text_field(fields, "master_link_status");
  if (!link) return link.status();
  if (*link != "up" && *link != "down") return bad_field("master_link_status", *link);
  out->link = *link == "up" ? PikaLink::kUp : PikaLink::kDown;
  return Status::ok();
}

// Says "up" and something else disagrees: not up (R26).
void doubt_link(const Fields& fields, const std::vector<std::string>& states,
                PikaReplication* out) {
  bool copying = false;
  for (const std::string& state : states) {
    copying = copying || is_copying(state);
    if (is_between(state)) out->settled = false;
    if (state != "connected" && out->link == PikaLink::kUp) out->link = PikaLink::kDown;
  }
  const auto eligible = fields.find("is_eligible_for_master_election");
  if (eligible != fields.end() && eligible->second != "true") copying = true;
  if (!copying) return;
  out->link = PikaLink::kCopying;
  out->settled = false;
}

Status read_role(const Fields& fields, PikaReplication* out) {
  Result<std::string> role = text_field(fields, "role");
  if (!role) return role.status();
  if (*role != "master" && *role != "slave" && *role != "master&&slave") {
    return bad_field("role", *role);
  }
  out->is_master = *role == "master";
  const auto id = fields.find("ReplicationID");
  if (id != fields.end()) out->replication_id = id->second;
  if (*role != "slave") {
    Result<uint64_t> replicas = number_field(fields, "connected_slaves", 1'000'000);
    if (!replicas) return replicas.status();
    if (*replicas != out->replicas.size()) {
      return bad_field("connected_slaves",
                       cat(*replicas, " with ", out->replicas.size(), " slaves listed"));
    }
  }
  return out->is_master ? Status::ok() : read_master_of(fields, out);
}

PikaLink slot_link(std::string_view state) {
  if (state == "kConnected") return PikaLink::kUp;
  return is_copying(state) ? PikaLink::kCopying : PikaLink::kDown;
}

bool is_slot_state(std::string_view state) {
  for (std::string_view known : {"kNoConnect", "kTryConnect", "kTryDBSync", "kWaitReply",
                                 "kWaitDBSync", "kConnected", "kError", "kDBNoConnect"}) {
    if (state == known) return true;
  }
  return false;
}

// "(db0:905) binlog_offset=0 961,safety_purge=none"
Result<PikaSlot> slot_head(std::string_view line) {
  const size_t colon = line.find(':');
  const size_t end = line.find(')');
  const size_t mark = line.find("binlog_offset=");
  if (colon == std::string_view::npos || end == std::string_view::npos || colon > end) {
    return bad_field("slot", line);
  }
  const auto slot = parse_uint64(line.substr(colon + 1, end - colon - 1));
  if (!slot || *slot > 1'000'000) return bad_field("slot", line);
  if (mark == std::string_view::npos) {
    return missing_field("binlog_offset").with_context(cat("slot ", *slot));
  }
  Result<BinlogOffset> at = offset_of(line.substr(mark + 14));
  if (!at) return at.status().with_context(cat("slot ", *slot));
  PikaSlot out;
  out.slot = static_cast<int>(*slot);
  out.at = *at;
  return out;
}

struct SlotLines {
  bool role_said = false, state_said = false;
  bool has_replicas = false;  // said to be a master, perhaps a slave too
  uint64_t replicas_said = 0;
};

Status slot_line(std::string_view name, std::string_view value, PikaSlot* slot, SlotLines* lines) {
  if (name == "Role") {
    if (value != "Master" && value != "Slave") return bad_field("Role", value);
    // A slot that still has replicas and follows is said to be both, the master first.
    slot->is_master = value == "Master";
    lines->role_said = true;
    if (slot->is_master) lines->has_replicas = true;
  } else if (name == "master") {
    const auto address = parse_host_port(value);
    if (!address) return bad_field("master", value);
    slot->master = *address;
  } else if (name == "slave status") {
    if (!is_slot_state(value)) return bad_field("slave status", value);
    slot->state = std::string(value);
    slot->link = slot_link(value);
    slot->settled = !is_between(value);
    lines->state_said = true;
  } else if (name == "connected_slaves") {
    const auto count = parse_uint64(value);
    if (!count) return bad_field("connected_slaves", value);
    lines->replicas_said = *count;
  } else if (name.starts_with("slave[")) {
    const auto address = parse_host_port(value);
    if (!address) return bad_field(name, value);
    slot->replicas.push_back({*address, "", std::nullopt});
  } else if (name == "replication_status" && !slot->replicas.empty()) {
    slot->replicas.back().state = std::string(value);
  } else if (name == "lag" && !slot->replicas.empty()) {
    const auto lag = parse_uint64(value);
    if (!lag) return bad_field("lag", value);
    slot->replicas.back().lag = *lag;
  }
  return Status::ok();
}

// Between what a slot is as a master and what it is as a slave.
bool is_divider(std::string_view line) {
  return line.find_first_not_of('-') == std::string_view::npos;
}

Status check_slot(const PikaSlot& slot, const SlotLines& lines) {
  if (!lines.role_said) return missing_field("Role");
  if (lines.has_replicas && lines.replicas_said != slot.replicas.size()) {
    return bad_field("connected_slaves",
                     cat(lines.replicas_said, " with ", slot.replicas.size(), " slaves listed"));
  }
  if (slot.is_master) {
    return slot.master.port == 0 ? Status::ok() : bad_field("master", slot.master.text());
  }
  if (slot.master.port == 0) return missing_field("master");
  return lines.state_said ? Status::ok() : missing_field("slave status");
}

}  // namespace

const char* pika_link_text(PikaLink link) {
  switch (link) {
    case PikaLink::kNone:
      return "none";
    case PikaLink::kUp:
      return "up";
    case PikaLink::kDown:
      return "down";
    default:
      return "copying";
  }
}

Result<PikaServer> parse_pika_server(std::string_view text) {
  Result<Fields> fields = fields_of(text);
  if (!fields) return fields.status();
  PikaServer out;
  Result<std::string> version = text_field(*fields, "pika_version");
  if (!version) return version.status();
  out.version = *version;
  const std::vector<std::string_view> parts = split(out.version, '.');
  const auto major = parse_uint64(parts[0]);
  const auto minor = parts.size() > 1 ? parse_uint64(parts[1]) : std::nullopt;
  if (!major || !minor || *major > 1000 || *minor > 1000) {
    return bad_field("pika_version", out.version);
  }
  out.major = static_cast<int>(*major);
  out.minor = static_cast<int>(*minor);
  Result<uint64_t> port = number_field(*fields, "tcp_port", 65535);
  if (!port) return port.status();
  out.port = static_cast<int>(*port);
  Result<uint64_t> threads = number_field(*fields, "sync_thread_num", 1024);
  if (!threads) return threads.status();
  if (*threads == 0) return bad_field("sync_thread_num", "0");
  out.sync_threads = static_cast<int>(*threads);
  const auto uptime = fields->find("uptime_in_seconds");
  if (uptime != fields->end()) out.uptime_s = parse_int64(uptime->second);
  const auto run_id = fields->find("run_id");
  if (run_id != fields->end()) out.run_id = run_id->second;
  Result<uint64_t> pid = number_field(*fields, "process_id", UINT32_MAX);
  if (!pid) return pid.status();
  out.process = cat(out.run_id, out.run_id.empty() ? "" : " ", "pid ", *pid);
  return out;
}

Result<PikaReplication> parse_pika_replication(std::string_view text) {
  PikaReplication out;
  std::vector<std::string> states;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty() || line[0] == '#') continue;
    Result<bool> binlog = read_binlog_line(line, &out);
    if (!binlog) return binlog.status();
    const size_t colon = line.find(':');
    if (*binlog || colon == std::string_view::npos) continue;
    const std::string name(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (is_db_name(name)) states.emplace_back(value);
    if (!is_replica_name(name)) continue;
    Result<PikaReplica> replica = replica_of(name, value);
    if (!replica) return replica.status();
    out.replicas.push_back(std::move(*replica));
  }
  Result<Fields> fields = fields_of(text);
  if (!fields) return fields.status();
  const Status role = read_role(*fields, &out);
  if (!role) return role;
  if (!out.is_master) doubt_link(*fields, states, &out);
  return out;
}

Result<std::map<int, PikaSlot>> parse_pika_slots(std::string_view text) {
  std::map<int, PikaSlot> out;
  PikaSlot* slot = nullptr;
  SlotLines lines;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    if (line.empty()) continue;
    if (line[0] == '(') {
      if (slot != nullptr) {
        const Status whole = check_slot(*slot, lines);
        if (!whole) return whole.with_context(cat("slot ", slot->slot));
      }
      Result<PikaSlot> head = slot_head(line);
      if (!head) return head.status();
      const auto [at, added] = out.emplace(head->slot, *head);
      if (!added) return bad_field("slot", line);
      slot = &at->second;
      lines = {};
      continue;
    }
    if (lines.role_said && is_divider(line)) continue;
    const size_t colon = line.find(':');
    if (slot == nullptr || colon == std::string_view::npos) return bad_field("slot", line);
    const Status read =
        slot_line(trim(line.substr(0, colon)), trim(line.substr(colon + 1)), slot, &lines);
    if (!read) return read.with_context(cat("slot ", slot->slot));
  }
  if (slot != nullptr) {
    const Status whole = check_slot(*slot, lines);
    if (!whole) return whole.with_context(cat("slot ", slot->slot));
  }
  return out;
}

Result<std::vector<PikaTable>> parse_pika_tables(std::string_view text) {
  std::vector<PikaTable> out;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    const size_t colon = line.find(':');
    if (line.empty() || colon == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    const auto number = parse_uint64(value);
    if (name == "table_id") {
      if (!number) return bad_field("table_id", value);
      out.push_back({static_cast<int>(*number), 0});
    } else if (name == "partition_num") {
      if (!number || out.empty()) return bad_field("partition_num", value);
      out.back().slots = static_cast<int>(*number);
    }
  }
  return out;
}

}  // namespace sf
