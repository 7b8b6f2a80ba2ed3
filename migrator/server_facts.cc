#include "migrator/server_facts.h"

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
    return Status::refused(cat(peer.label(), " is a Pika ", get(facts.info, "pika_version"),
                               "; this version moves slotferry-node and Redis groups"));
  } else if (facts.info.contains("redis_version")) {
    facts.kind = ServerKind::kRedis;
    facts.version = get(facts.info, "redis_version");
  } else {
    return Status::refused(cat(peer.label(),
                               " says neither slotferry_version nor redis_version in INFO; ",
                               "this version moves slotferry-node and Redis groups"));
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
