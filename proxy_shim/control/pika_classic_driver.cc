#include "proxy_shim/control/pika_classic_driver.h"

namespace sf {

Status PikaClassicDriver::check_mode(RespClient& client, int64_t timeout_ms) {
  Result<std::string> mode = config_get(client, "instance-mode", timeout_ms);
  if (!mode) return mode.status();
  // Its replicas take an absolute time for 32 bits of milliseconds: what came with one is gone.
  if ((&client == &old_ ? old_server_ : new_server_).major > 3) traits_.loses_timed = true;
  if (*mode == "classic") return Status::ok();
  return Status::refused(cat(client.address().text(), " has instance-mode '", *mode,
                             "', the plan's kind pika is for classic"));
}

Result<PikaSide> PikaClassicDriver::look(RespClient& client, const SlotSet&, int64_t timeout_ms) {
  Result<std::vector<Reply>> texts =
      client.ask_all({{"INFO", "server"}, {"INFO", "replication"}}, timeout_ms);
  if (!texts) return texts.status();
  Result<PikaServer> server = parse_pika_server((*texts)[0].text);
  if (!server) return server.status().with_context(client.address().text());
  Result<PikaReplication> said = parse_pika_replication((*texts)[1].text);
  if (!said) return said.status().with_context(client.address().text());
  if (said->binlog.empty()) {
    return Status::corrupt(cat(client.address().text(), " does not say its binlog_offset"));
  }
  PikaSide out;
  out.run_id = process_of(client, *server);
  out.is_master = said->is_master;
  out.id = said->replication_id;
  out.master = said->master;
  out.link = said->link;
  out.settled = said->settled;
  for (const PikaReplica& replica : said->replicas) out.replicas.push_back(replica.address);
  out.ends = said->binlog;
  return out;
}

int PikaClassicDriver::database_of(const std::string& binlog) const {
  return static_cast<int>(parse_int64(std::string_view(binlog).substr(2)).value_or(0));
}

Status PikaClassicDriver::leave(RespClient& client, const SlotSet&, int64_t timeout_ms) {
  Status status = client.ask_ok({"SLAVEOF", "NO", "ONE"}, timeout_ms);
  // Without it a restart makes the new owner a slave of the old one again.
  if (status) status = client.ask_ok({"CONFIG", "REWRITE"}, timeout_ms);
  if (!status) return status;
  Result<std::string> master = config_get(client, "slaveof", timeout_ms);
  if (!master) return master.status();
  if (master->empty()) return Status::ok();
  return Status::refused(cat(client.address().text(),
                             " took SLAVEOF NO ONE and its setting slaveof is '", *master, "'"));
}

Status PikaClassicDriver::follow(RespClient& client, const HostPort& leader, const SlotSet& slots,
                                 int64_t timeout_ms) {
  Status status = client.ask_ok({"SLAVEOF", leader.host, std::to_string(leader.port)}, timeout_ms);
  if (status) status = client.ask_ok({"CONFIG", "REWRITE"}, timeout_ms);
  if (!status) return status;
  Result<PikaSide> after = look(client, slots, timeout_ms);
  if (!after) return after.status();
  if (!after->is_master) return Status::ok();
  return Status::corrupt(cat(client.address().text(), " took SLAVEOF and still is a master"));
}

Status PikaClassicDriver::follow_by_copy(RespClient& client, const HostPort& leader, const SlotSet&,
                                         int64_t timeout_ms) {
  const Status status =
      client.ask_ok({"SLAVEOF", leader.host, std::to_string(leader.port), "force"}, timeout_ms);
  return status ? client.ask_ok({"CONFIG", "REWRITE"}, timeout_ms) : status;
}

std::string PikaClassicDriver::copy_words(const SlotSet&) const {
  return cat("SLAVEOF NO ONE, then SLAVEOF ", old_.address().host, " ", old_.address().port,
             " force");
}

Result<Survey> PikaClassicDriver::survey(const SlotSet& slots, int64_t timeout_ms) {
  Result<PikaSide> to = look(new_, slots, timeout_ms);
  if (!to) return to.status();
  Result<PikaSide> from = look(old_, slots, timeout_ms);
  if (!from) return from.status();
  const bool following = not_following(slots, *from, *to, timeout_ms).empty();
  const SlotReport old_report = report(*from, *to, false, following);
  SlotReport new_report = report(*from, *to, true, following);
  new_report.left = to->is_master && noted_end(slots);
  Survey out;
  slots.for_each([&](int slot) {
    out.old_side.emplace(slot, old_report);
    out.new_side.emplace(slot, new_report);
  });
  return out;
}

Result<ServerFacts> PikaClassicDriver::facts(PairSide side, int64_t timeout_ms) {
  RespClient& client = side == PairSide::kOld ? old_ : new_;
  Result<Reply> info = client.ask({"INFO"}, timeout_ms);
  if (!info) return info.status();
  Result<PikaServer> server = parse_pika_server(info->text);
  if (!server) return server.status().with_context(client.address().text());
  Result<PikaReplication> said = parse_pika_replication(info->text);
  if (!said) return said.status().with_context(client.address().text());
  Result<std::string> most = config_get(client, "maxmemory", timeout_ms);
  if (!most) return most.status();
  ServerFacts out;
  out.run_id = server->process;
  out.is_master = said->is_master;
  out.used_memory = parse_int64(info_field(info->text, "used_memory")).value_or(0);
  out.maxmemory = parse_int64(*most).value_or(0);
  return out;
}

}  // namespace sf
