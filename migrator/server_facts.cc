#include "migrator/server_facts.h"

#include <algorithm>

namespace sf {
namespace {

std::string get(const InfoMap& info, std::string_view name) {
  const auto it = info.find(name);
  return it == info.end() ? std::string() : it->second;
}

Status odd_reply(const Peer& peer, std::string_view command) {
  return Status::corrupt(cat(peer.label(), " answers ", command,
                             " in a shape this program does not know; are the versions the same?"));
}

// Classic mode replicates as a whole and is walked like Redis; sharding mode slot by slot, with
// roles that pika_slots.h reads.
Status read_pika_mode(Peer& peer, ServerFacts& facts) {
  facts.version = get(facts.info, "pika_version");
  const auto mode = read_config(peer, "instance-mode");
  if (!mode) return mode.status();
  facts.kind = ServerKind::kPika;
  // From 4.0 on there is one mode, and no such setting.
  if (!mode->has_value() || **mode == "classic") return Status::ok();
  facts.kind = ServerKind::kPikaSharding;
  if (**mode == "sharding") return Status::ok();
  return Status::refused(cat(peer.label(), " is a Pika ", facts.version, " in '", printable(**mode),
                             "' mode; this program moves groups in classic and sharding mode"));
}

Result<ServerFacts> read_pika_facts(const Peer& peer, std::string_view text, ServerFacts& facts) {
  const auto said = parse_pika_replication(text);
  if (!said) return said.status().with_context(peer.label());
  facts.run_id = get(facts.info, "run_id");
  facts.binlog = said->binlog;
  facts.is_slave = !said->is_master;
  if (!facts.is_slave) return std::move(facts);
  facts.master = said->master;
  facts.link_up = said->link == PikaLink::kUp;
  return std::move(facts);
}

}  // namespace

InfoMap parse_info(std::string_view text) {
  InfoMap info;
  for (std::string_view line : split(text, '\n')) {
    line = trim(line);
    const size_t colon = line.find(':');
    if (line.starts_with('#') || colon == std::string_view::npos) continue;
    info.emplace(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
  }
  return info;
}

int64_t info_number(const InfoMap& info, std::string_view name, int64_t otherwise) {
  return parse_int64(get(info, name)).value_or(otherwise);
}

Result<ServerFacts> read_facts(Peer& peer) {
  const auto reply = peer.expect({"INFO"});
  if (!reply) return reply.status();
  ServerFacts facts;
  facts.info = parse_info(reply->text);
  // A node prints redis_version too, and Pika pika_version: so the order of the questions matters.
  if (facts.info.contains("slotferry_version")) {
    facts.kind = ServerKind::kNode;
    facts.version = get(facts.info, "slotferry_version");
  } else if (facts.info.contains("pika_version")) {
    const Status mode = read_pika_mode(peer, facts);
    if (!mode) return mode;
    if (facts.kind == ServerKind::kPika) return read_pika_facts(peer, reply->text, facts);
  } else if (facts.info.contains("redis_version")) {
    facts.kind = ServerKind::kRedis;
    facts.version = get(facts.info, "redis_version");
  } else {
    return Status::refused(cat(peer.label(),
                               " says neither slotferry_version nor redis_version in INFO; ",
                               "this version moves slotferry-node, Redis and Pika groups"));
  }
  facts.run_id = get(facts.info, "run_id");
  facts.is_slave = get(facts.info, "role") == "slave";
  if (facts.is_slave) {
    facts.master =
        parse_host_port(cat(get(facts.info, "master_host"), ":", get(facts.info, "master_port")));
    facts.link_up = get(facts.info, "master_link_status") == "up" &&
                    get(facts.info, "master_sync_in_progress") != "1";
  }
  return facts;
}

bool follows(const ServerFacts& facts, const HostPort& master) {
  if (!facts.is_slave || !facts.master) return false;
  if (*facts.master == master) return true;
  // Pika says its interface's address where it was told a loopback one.
  const bool local = master.host == "127.0.0.1" || master.host == "localhost";
  return facts.kind == ServerKind::kPika && local && facts.master->port == master.port;
}

Result<std::string> holds_keys(Peer& peer, ServerKind kind) {
  if (kind != ServerKind::kPika) {
    const auto size = peer.expect({"DBSIZE"});
    if (!size) return size.status();
    return size->integer == 0 ? std::string() : cat(size->integer, " keys");
  }
  // DBSIZE there is what somebody last counted.
  const auto page = peer.expect({"SCAN", "0", "COUNT", "10"});
  if (!page) return page.status();
  if (page->items.size() != 2) return odd_reply(peer, "SCAN");
  const bool empty = page->items[0].word() == "0" && page->items[1].items.empty();
  return empty ? std::string() : std::string("keys");
}

namespace {

Result<std::set<int>> pika_databases(Peer& peer) {
  const auto said = read_config(peer, "databases");
  if (!said) return said.status();
  std::set<int> out;
  const int64_t count = parse_int64(said->value_or("1")).value_or(1);
  for (int64_t db = 0; db < std::clamp<int64_t>(count, 1, 16); ++db) {
    out.insert(static_cast<int>(db));
  }
  return out;
}

}  // namespace

Result<std::set<int>> databases_of(Peer& peer, ServerKind kind) {
  if (kind == ServerKind::kPika) return pika_databases(peer);
  if (kind == ServerKind::kPikaSharding) return std::set<int>{0};  // Codis uses its first table
  const auto reply = peer.expect({"INFO", "keyspace"});
  if (!reply) return reply.status();
  std::set<int> databases;
  for (const auto& [name, value] : parse_info(reply->text)) {
    const auto number = name.starts_with("db") ? parse_int64(name.substr(2)) : std::nullopt;
    if (number && *number >= 0) databases.insert(static_cast<int>(*number));
  }
  return databases;
}

Result<std::map<int, SlotPosition>> read_positions(Peer& peer, const SlotSet& slots) {
  const auto reply = peer.expect({"REPLICATION", "POSITIONS", slots.text()});
  if (!reply) return reply.status();
  std::map<int, SlotPosition> positions;
  for (const Reply& row : reply->items) {
    if (row.items.size() < 6) return odd_reply(peer, "REPLICATION POSITIONS");
    const auto slot = parse_int64(row.items[0].word());
    const auto seq = parse_uint64(row.items[3].word());
    if (!slot || *slot < 0 || *slot >= kSlotCount || !seq)
      return odd_reply(peer, "REPLICATION POSITIONS");
    SlotPosition position{static_cast<int>(*slot), row.items[1].word() == "slave",
                          row.items[2].word(),     *seq,
                          row.items[4].word(),     row.items[5].word()};
    positions[position.slot] = std::move(position);
  }
  if (static_cast<int>(positions.size()) != slots.size())
    return odd_reply(peer, "REPLICATION POSITIONS");
  return positions;
}

Result<std::map<int, int64_t>> read_key_counts(Peer& peer) {
  const auto reply = peer.expect({"SLOTSINFO", "0", "1024"});
  if (!reply) return reply.status();
  std::map<int, int64_t> counts;
  for (const Reply& row : reply->items) {
    if (row.items.size() != 2) return odd_reply(peer, "SLOTSINFO");
    const auto slot = parse_int64(row.items[0].word());
    const auto count = parse_int64(row.items[1].word());
    if (!slot || !count) return odd_reply(peer, "SLOTSINFO");
    counts[static_cast<int>(*slot)] = *count;
  }
  return counts;
}

int64_t keys_in(const std::map<int, int64_t>& counts, const SlotSet& slots) {
  int64_t sum = 0;
  for (const auto& [slot, count] : counts) {
    if (slot >= 0 && slot < kSlotCount && slots.contains(slot)) sum += count;
  }
  return sum;
}

Result<std::optional<std::string>> read_config(Peer& peer, const std::string& name) {
  const auto reply = peer.call({"CONFIG", "GET", name});
  if (!reply) return reply.status();
  if (reply->is_error() || reply->items.size() != 2) return std::optional<std::string>();
  return std::optional<std::string>(reply->items[1].word());
}

}  // namespace sf
