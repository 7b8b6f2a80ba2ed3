#include "proxy_shim/control/pika_sharding_driver.h"

namespace sf {

Status PikaShardingDriver::check_mode(RespClient& client, int64_t timeout_ms) {
  Result<std::string> mode = config_get(client, "instance-mode", timeout_ms);
  if (!mode) return mode.status();
  if (*mode != "sharding") {
    return Status::refused(cat(client.address().text(), " has instance-mode '", *mode,
                               "', the plan's kind pika-sharding is for sharding"));
  }
  Result<std::string> slots = config_get(client, "default-slot-num", timeout_ms);
  if (!slots) return slots.status();
  if (*slots == std::to_string(kSlotCount)) return Status::ok();
  return Status::refused(
      cat(client.address().text(), " has ", *slots, " slots, Codis has ", kSlotCount));
}

Result<PikaShardingDriver::Sides> PikaShardingDriver::look_at_each(RespClient& client,
                                                                   const SlotSet& slots,
                                                                   int64_t timeout_ms,
                                                                   bool absent_ok) {
  Result<std::vector<Reply>> texts =
      client.ask_all({{"INFO", "server"}, {"PKCLUSTER", "INFO", "SLOT", slots.text()}}, timeout_ms);
  if (!texts) return texts.status();
  Result<PikaServer> server = parse_pika_server((*texts)[0].text);
  if (!server) return server.status().with_context(client.address().text());
  Result<std::map<int, PikaSlot>> said = parse_pika_slots((*texts)[1].text);
  if (!said) return said.status().with_context(client.address().text());
  const std::string process = process_of(client, *server);
  Sides out;
  for (int slot : slots.to_vector()) {
    const auto found = said->find(slot);
    if (found == said->end() && absent_ok) continue;
    if (found == said->end()) {
      return Status::refused(cat(client.address().text(), " holds no slot ", slot,
                                 ": PKCLUSTER ADDSLOTS ", slot, " there first"));
    }
    PikaSide& side = out[slot];
    side.run_id = process;
    side.is_master = found->second.is_master;
    side.master = found->second.master;
    side.link = found->second.link;
    side.settled = found->second.settled;
    for (const PikaSlot::Replica& replica : found->second.replicas) {
      side.replicas.push_back(replica.address);
    }
    side.ends[std::to_string(slot)] = found->second.at;
  }
  return out;
}

Result<PikaSide> PikaShardingDriver::look(RespClient& client, const SlotSet& slots,
                                          int64_t timeout_ms) {
  if (slots.size() != 1) return Status::invalid("a unit of a sharding Pika is one slot");
  Result<Sides> sides = look_at_each(client, slots, timeout_ms);
  if (!sides) return sides.status();
  return std::move(sides->begin()->second);
}

Status PikaShardingDriver::leave(RespClient& client, const SlotSet& slots, int64_t timeout_ms) {
  // Sharding mode keeps whom a slot follows in memory only: a restart makes it a master.
  return client.ask_ok({"PKCLUSTER", "SLOTSSLAVEOF", "NO", "ONE", slots.text()}, timeout_ms);
}

Status PikaShardingDriver::follow(RespClient& client, const HostPort& leader, const SlotSet& slots,
                                  int64_t timeout_ms) {
  Status status = client.ask_ok(
      {"PKCLUSTER", "SLOTSSLAVEOF", leader.host, std::to_string(leader.port), slots.text()},
      timeout_ms);
  if (!status) return status;
  Result<PikaSide> after = look(client, slots, timeout_ms);
  if (!after) return after.status();
  if (after->is_master) {
    return Status::corrupt(cat(client.address().text(), " took SLOTSSLAVEOF and slot ",
                               slots.text(), " still is a master"));
  }
  if (after->link != PikaLink::kCopying) return Status::ok();
  return Status::refused(cat("slot ", slots.text(), " of ", client.address().text(),
                             " copies instead of going on from where it was"));
}

Status PikaShardingDriver::follow_by_copy(RespClient& client, const HostPort& leader,
                                          const SlotSet& slots, int64_t timeout_ms) {
  return client.ask_ok({"PKCLUSTER", "SLOTSSLAVEOF", leader.host, std::to_string(leader.port),
                        slots.text(), "force"},
                       timeout_ms);
}

std::string PikaShardingDriver::copy_words(const SlotSet& slots) const {
  return cat("PKCLUSTER SLOTSSLAVEOF NO ONE ", slots.text(), ", then PKCLUSTER SLOTSSLAVEOF ",
             old_.address().host, " ", old_.address().port, " ", slots.text(), " force");
}

Status PikaShardingDriver::link_reverse(const CutAttempt& attempt, const ReplPosition& from,
                                        int64_t timeout_ms) {
  Result<PikaSide> old_now = look(old_, attempt.slots, timeout_ms);
  if (!old_now) return old_now.status();
  Result<PikaSide> new_now = look(new_, attempt.slots, timeout_ms);
  if (!new_now) return new_now.status();
  if (!old_now->is_master) {
    if (is_server(old_now->master, new_, new_now->run_id, timeout_ms)) return Status::ok();
    return Status::refused(cat("slot ", attempt.slots.text(), " of ", old_.address().text(),
                               " follows ", old_now->master.text()));
  }
  // Anything beyond the switch's end is a fork, which Pika would not see.
  if (position(*old_now) != from) {
    return Status::refused(cat("slot ", attempt.slots.text(), " of ", old_.address().text(),
                               " is at ", position(*old_now).text(), ", it was switched at ",
                               from.text(), ": there is no way back without a new copy"));
  }
  return follow(old_, new_.address(), attempt.slots, timeout_ms);
}

Result<Survey> PikaShardingDriver::survey(const SlotSet& slots, int64_t timeout_ms) {
  // Before the move's first step the new side may not hold the slots yet: no master there, then.
  Result<Sides> to = look_at_each(new_, slots, timeout_ms, true);
  if (!to) return to.status();
  Result<Sides> from = look_at_each(old_, slots, timeout_ms);
  if (!from) return from.status();
  Survey out;
  for (const auto& [slot, old_side] : *from) {
    const PikaSide& new_side = (*to)[slot];
    const bool following = not_following(SlotSet::of(slot), old_side, new_side, timeout_ms).empty();
    out.old_side.emplace(slot, report(old_side, new_side, false, following));
    out.new_side.emplace(slot, report(old_side, new_side, true, following));
  }
  return out;
}

Result<ServerFacts> PikaShardingDriver::facts(PairSide side, int64_t timeout_ms) {
  RespClient& client = side == PairSide::kOld ? old_ : new_;
  Result<Reply> info = client.ask({"INFO"}, timeout_ms);
  if (!info) return info.status();
  Result<PikaServer> server = parse_pika_server(info->text);
  if (!server) return server.status().with_context(client.address().text());
  Result<Reply> slots = client.ask({"SLOTSINFO"}, timeout_ms);
  if (!slots) return slots.status();
  ServerFacts out;
  out.run_id = server->process;
  out.is_master = true;  // the server; slots have roles of their own
  out.used_memory = parse_int64(info_field(info->text, "used_memory")).value_or(0);
  for (const Reply& row : slots->elements) {
    if (row.elements.size() < 2 || row.elements[1].integer <= 0) continue;
    out.keys_by_slot.emplace_back(static_cast<int>(row.elements[0].integer),
                                  row.elements[1].integer);
  }
  return out;
}

}  // namespace sf
