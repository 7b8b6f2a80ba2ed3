#include "proxy_shim/control/redis_driver.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "proxy_shim/control/own_sockets.h"

namespace sf {
namespace {

constexpr std::chrono::microseconds kPollGap{
    200};  // Redis tells a replica's offset only when asked

bool is_onlooker(const std::string& command) {
  static const std::set<std::string, std::less<>> kCommands = {
      "info",           "config|get",  "client|list",    "client|setname", "client|setinfo",
      "client|getname", "role",        "slotsinfo",      "command",        "command|docs",
      "monitor",        "subscribe",   "replconf",       "psync",          "memory|usage",
      "dbsize",         "slowlog|get", "latency|latest", "client|id",      "config",
      "client",         "client|info"};
  return kCommands.contains(command);
}

}  // namespace

std::string client_word(std::string_view line, std::string_view key) {
  for (std::string_view word : split(line, ' ')) {
    if (word.starts_with(key)) return std::string(word.substr(key.size()));
  }
  return "";
}

bool RedisDriver::is_harmless(std::string_view line, const std::set<std::string>& ours) const {
  const std::string flags = client_word(line, "flags=");
  if (flags.find_first_of("SMOP") != std::string::npos) return true;
  const std::string name = client_word(line, "name=");
  if (name.starts_with("slotferry") || name.starts_with("sentinel-")) return true;
  return is_onlooker(to_lower(client_word(line, "cmd="))) ||
         ours.contains(client_word(line, "addr="));
}

RedisDriver::RedisDriver(const MovePlan& plan, DriverNotes* notes, const Clock* clock,
                         const std::string& name)
    : plan_(plan.id),
      fences_server_(plan.stay.empty()),
      notes_(notes),
      clock_(clock),
      old_(plan.old_side.master, plan.old_side.password, name),
      new_(plan.new_side.master, plan.new_side.password, name) {
  old_.end_abandoned_connections();
  new_.end_abandoned_connections();
}

Status RedisDriver::connect(int64_t timeout_ms) {
  Status status = old_.connect(timeout_ms);
  return status ? new_.connect(timeout_ms) : status;
}

Result<std::string> RedisDriver::info(RespClient& client, const char* section, int64_t timeout_ms) {
  Result<Reply> reply = client.ask({"INFO", section}, timeout_ms);
  if (!reply) return reply.status();
  return reply->text;
}

Result<ReplPosition> RedisDriver::master_position(RespClient& client, int64_t timeout_ms) {
  Result<std::string> text = info(client, "replication", timeout_ms);
  if (!text) return text.status();
  if (info_field(*text, "role") != "master") {
    return Status::refused(cat(client.address().text(), " is no master any more"));
  }
  const std::string replid = info_field(*text, "master_replid");
  const auto offset = parse_uint64(info_field(*text, "master_repl_offset"));
  if (replid.empty() || !offset) {
    return Status::corrupt(cat(client.address().text(), " does not say its replication offset"));
  }
  return ReplPosition{replid, *offset};
}

Result<std::string> RedisDriver::config_get(RespClient& client, const char* name,
                                            int64_t timeout_ms) {
  Result<Reply> reply = client.ask({"CONFIG", "GET", name}, timeout_ms);
  if (!reply) return reply.status();
  if (reply->elements.size() < 2) {
    return Status::refused(cat(client.address().text(), " knows no setting ", name));
  }
  return reply->elements[1].text;
}

Status RedisDriver::note_and_set(const char* name, const std::string& value, int64_t timeout_ms) {
  if (!notes_->note(name)) {
    Result<std::string> before = config_get(old_, name, timeout_ms);
    if (!before) return before.status();
    // Left from a shim whose state folder is gone: its value is no original.
    if (*before == value) *before = name == ping_period_ ? "10" : "0";
    Status status = notes_->put_note(name, *before);
    if (!status) return status;
  }
  return old_.ask_ok({"CONFIG", "SET", name, value}, timeout_ms);
}

Status RedisDriver::restore(const char* name, int64_t timeout_ms) {
  const std::optional<std::string> before = notes_->note(name);
  if (!before) return Status::ok();
  Status status = old_.ask_ok({"CONFIG", "SET", name, *before}, timeout_ms);
  return status ? notes_->drop_note(name) : status;
}

Status RedisDriver::announce(const CutAttempt& attempt, int64_t timeout_ms) {
  const SyncState sync = sync_state(attempt.slots, timeout_ms);
  if (!sync.following) return Status::refused(sync.text);
  Status status = check_writers(timeout_ms);
  if (status) status = check_sentinels(timeout_ms);
  if (!status) return status;
  if (fences_server_ && !notes_->note(min_replicas_)) {
    // Noted now, outside the pause; set in fence_permanent().
    Result<std::string> before = config_get(old_, min_replicas_, timeout_ms);
    if (!before) return before.status();
    status = notes_->put_note(min_replicas_, *before == kNoGroupHas ? "0" : *before);
    if (!status) return status;
  }
  return note_and_set(ping_period_, kNever, timeout_ms);
}

Status RedisDriver::pause(int64_t ms, int64_t timeout_ms) {
  const int64_t sent_us = clock_->mono_us();
  Status status = old_.ask_ok({"CLIENT", "PAUSE", std::to_string(ms), "WRITE"}, timeout_ms);
  if (status) paused_until_us_ = sent_us + ms * 1000;
  return status;
}

Result<ReplPosition> RedisDriver::fence(const CutAttempt&, int64_t lease_ms, int64_t timeout_ms) {
  pause_ms_ = lease_ms;
  Status status = pause(lease_ms, timeout_ms);
  if (!status) return status;
  return master_position(old_, timeout_ms);
}

Result<bool> RedisDriver::wait_applied(const CutAttempt&, const ReplPosition& end,
                                       int64_t timeout_ms) {
  const int64_t deadline_us = clock_->mono_us() + timeout_ms * 1000;
  for (;;) {
    Result<SlotReport> now = report(new_, PairSide::kNew, timeout_ms);
    if (!now) return now.status();
    if (now->master) return Status::refused(cat(new_.address().text(), " follows nobody"));
    const bool same = now->link == SlotReport::Link::kUp && now->at.history == end.history;
    if (same && now->at.seq >= end.seq) return true;
    if (clock_->mono_us() >= deadline_us) return false;
    std::this_thread::sleep_for(kPollGap);
  }
}

Status RedisDriver::check_writers(int64_t timeout_ms) {
  Result<Reply> list = old_.ask({"CLIENT", "LIST"}, timeout_ms);
  return list ? judge_clients(list->text) : list.status();
}

Status RedisDriver::judge_clients(const std::string& list) const {
  const std::set<std::string> ours = own_socket_addresses(old_.address().port);
  std::string strangers;
  int count = 0;
  for (std::string_view line : split(list, '\n')) {
    line = trim(line);
    if (line.empty() || is_harmless(line, ours)) continue;
    if (++count > 3) continue;
    strangers += cat(strangers.empty() ? "" : ", ", client_word(line, "addr="), " (last command ",
                     client_word(line, "cmd="), ")");
  }
  if (count == 0) return Status::ok();
  return Status::refused(cat("the old master ", old_.address().text(), " has ", count,
                             " foreign connections: ", strangers,
                             "; it must be reached through the shim only"));
}

Status RedisDriver::check_sentinels(int64_t timeout_ms) {
  Result<Reply> list = new_.ask({"CLIENT", "LIST"}, timeout_ms);
  if (!list) return list.status();
  std::set<std::string> sentinels;
  for (std::string_view line : split(list->text, '\n')) {
    const std::string name = client_word(trim(line), "name=");
    if (name.starts_with("sentinel-")) sentinels.insert(name.substr(0, name.rfind('-')));
  }
  if (sentinels.empty()) return Status::ok();
  return Status::refused(cat(
      "the new master ", new_.address().text(), " is watched by sentinels (", *sentinels.begin(),
      sentinels.size() > 1 ? " and others" : "",
      "): those of the old group would make it a replica again after the switch, and its writes "
      "would be lost; those of its own group promote another one while it is a replica. Make "
      "them forget it until it is switched (docs/RUNBOOK.md, sentinels)"));
}

Result<ReplPosition> RedisDriver::fence_permanent(const CutAttempt&, int64_t timeout_ms) {
  Status status = pause(pause_ms_, timeout_ms);
  if (status && fences_server_) {
    status = old_.ask_ok({"CONFIG", "SET", min_replicas_, kNoGroupHas}, timeout_ms);
  }
  if (!status) return status;
  return master_position(old_, timeout_ms);
}

Status RedisDriver::rewrite_config(RespClient& client, int64_t timeout_ms) {
  Result<std::string> server = info(client, "server", timeout_ms);
  if (!server) return server.status();
  // A server started without a file has nothing that could make it a replica again.
  if (info_field(*server, "config_file").empty()) return Status::ok();
  return client.ask_ok({"CONFIG", "REWRITE"}, timeout_ms);
}

Result<ReplPosition> RedisDriver::promote(const CutAttempt&, const ReplPosition&,
                                          int64_t timeout_ms) {
  Status status = new_.ask_ok({replicaof_, "NO", "ONE"}, timeout_ms);
  if (!status) return status;
  status = rewrite_config(new_, timeout_ms);
  if (!status) return status;
  return master_position(new_, timeout_ms);
}

Result<Ends> RedisDriver::read_ends(const CutAttempt&, const ReplPosition&, int64_t timeout_ms) {
  Result<ReplPosition> old_end = master_position(old_, timeout_ms);
  if (!old_end) return old_end.status();
  Result<std::string> text = info(new_, "replication", timeout_ms);
  if (!text) return text.status();
  if (info_field(*text, "role") != "master") {
    return Status::refused(cat(new_.address().text(), " is no master after REPLICAOF NO ONE"));
  }
  Ends out;
  out.old_end = *old_end;
  // A promoted server keeps the id it followed, and the first offset that is not part of it.
  out.new_end.history = info_field(*text, "master_replid2");
  const uint64_t first_own = parse_uint64(info_field(*text, "second_repl_offset")).value_or(0);
  out.new_end.seq = first_own == 0 ? 0 : first_own - 1;
  if (clock_->mono_us() >= paused_until_us_) {
    return Status::refused(cat("the write pause of ", old_.address().text(), " may have ended"));
  }
  return out;
}

std::string RedisDriver::marker_key() const {
  return cat("{__slotferry}:owner:", plan_);
}

Status RedisDriver::mark(const CutAttempt& attempt, int64_t timeout_ms) {
  const std::string value =
      nlohmann::json{{"plan", plan_}, {"epoch", attempt.epoch}, {"slots", attempt.slots.text()}}
          .dump();
  return new_.ask_ok({"SET", marker_key(), value}, timeout_ms);
}

Result<uint64_t> RedisDriver::marker(int64_t timeout_ms) {
  Result<Reply> reply = new_.ask({"GET", marker_key()}, timeout_ms);
  if (!reply) return reply.status();
  if (reply->type == Reply::Type::kNil) return uint64_t{0};
  const auto value = nlohmann::json::parse(reply->text, nullptr, false);
  if (!value.is_object() || !value.contains("epoch") || !value["epoch"].is_number_unsigned()) {
    return Status::corrupt(cat("key ", marker_key(), " on ", new_.address().text(),
                               " is no marker of ours: look at it and delete it"));
  }
  return value["epoch"].get<uint64_t>();
}

Status RedisDriver::release(const CutAttempt&, int64_t timeout_ms) {
  Status status = old_.ask_ok({"CLIENT", "UNPAUSE"}, timeout_ms);
  paused_until_us_ = 0;
  Status restored = restore(ping_period_, timeout_ms);
  return status ? restored : status;
}

Status RedisDriver::follow_again(const CutAttempt&, const ReplPosition&, int64_t timeout_ms) {
  Result<std::string> new_info = info(new_, "replication", timeout_ms);
  if (!new_info) return new_info.status();
  if (info_field(*new_info, "role") == "slave") return Status::ok();
  // Following again may copy everything and wipes what is there: only over what came from the old
  // side.
  Result<std::string> old_info = info(old_, "replication", timeout_ms);
  if (!old_info) return old_info.status();
  if (info_field(*new_info, "master_replid2") != info_field(*old_info, "master_replid")) {
    return Status::refused(cat(new_.address().text(), " is a master and was no replica of ",
                               old_.address().text(), ": it is left alone"));
  }
  Result<uint64_t> marked = marker(timeout_ms);
  if (!marked) return marked.status();
  if (*marked != 0) {
    return Status::refused(
        cat(new_.address().text(), " carries the owner marker of epoch ", *marked));
  }
  Status status = new_.ask_ok(
      {replicaof_, old_.address().host, std::to_string(old_.address().port)}, timeout_ms);
  if (status) status = rewrite_config(new_, timeout_ms);
  if (!status) return status;
  Result<SlotReport> after = report(new_, PairSide::kNew, timeout_ms);
  if (!after) return after.status();
  if (!after->master) return Status::ok();
  return Status::corrupt(cat(new_.address().text(), " took REPLICAOF and still is a master"));
}

Status RedisDriver::unfence(const CutAttempt&, int64_t timeout_ms) {
  Status status = restore(min_replicas_, timeout_ms);
  Status unpaused = old_.ask_ok({"CLIENT", "UNPAUSE"}, timeout_ms);
  paused_until_us_ = 0;
  return status ? unpaused : status;
}

Result<SlotReport> RedisDriver::report(RespClient& client, PairSide side, int64_t timeout_ms) {
  Result<std::string> text = info(client, "replication", timeout_ms);
  if (!text) return text.status();
  SlotReport out;
  const std::string role = info_field(*text, "role");
  if (role != "master" && role != "slave") {
    return Status::corrupt(cat(client.address().text(), " does not say its role"));
  }
  out.master = role == "master";
  out.at.history = info_field(*text, "master_replid");
  const char* offset = out.master ? "master_repl_offset" : "slave_repl_offset";
  // A number that is not there is not "none": two unknown ends would look like no lag (R01).
  const auto seq = parse_uint64(info_field(*text, offset));
  if (!seq) {
    return Status::corrupt(cat(client.address().text(), " does not say its ", offset));
  }
  out.at.seq = *seq;
  if (!out.master) {
    const bool copying = info_field(*text, "master_sync_in_progress") != "0";
    const bool up = info_field(*text, "master_link_status") == "up";
    out.link = copying ? SlotReport::Link::kCopying
               : up    ? SlotReport::Link::kUp
                       : SlotReport::Link::kDown;
  }
  if (side == PairSide::kOld && fences_server_) {
    Result<std::string> replicas = config_get(client, min_replicas_, timeout_ms);
    if (!replicas) return replicas.status();
    if (*replicas == kNoGroupHas) out.fence = SlotReport::Fence::kPermanent;
  }
  return out;
}

Result<Survey> RedisDriver::survey(const SlotSet& slots, int64_t timeout_ms) {
  Result<SlotReport> old_report = report(old_, PairSide::kOld, timeout_ms);
  if (!old_report) return old_report.status();
  Result<SlotReport> new_report = report(new_, PairSide::kNew, timeout_ms);
  if (!new_report) return new_report.status();
  Survey out;
  slots.for_each([&](int slot) {
    out.old_side.emplace(slot, *old_report);
    out.new_side.emplace(slot, *new_report);
  });
  return out;
}

SyncState RedisDriver::sync_state(const SlotSet& slots, int64_t timeout_ms) {
  SyncState out;
  Result<Survey> now = survey(SlotSet::of(std::max(slots.first(), 0)), timeout_ms);
  if (!now) {
    out.text = now.status().text();
    return out;
  }
  const SlotReport& from = now->old_side.begin()->second;
  const SlotReport& to = now->new_side.begin()->second;
  if (!from.master) {
    out.text = cat(old_.address().text(), " is a replica");
  } else if (to.master) {
    out.text = cat(new_.address().text(), " follows nobody");
  } else if (to.link != SlotReport::Link::kUp) {
    out.text =
        cat(new_.address().text(),
            to.link == SlotReport::Link::kCopying ? " is copying" : " has no link to its master");
  } else if (to.at.history != from.at.history) {
    out.text = cat(new_.address().text(), " follows another history (", to.at.history, ") than ",
                   old_.address().text());
  } else {
    out.following = true;
    // Asked one after the other: a replica may be ahead of what its master said before.
    out.lag = static_cast<int64_t>(from.at.seq - std::min(from.at.seq, to.at.seq));
    out.applied = to.at.seq;
  }
  return out;
}

Result<ServerFacts> RedisDriver::facts(PairSide side, int64_t timeout_ms) {
  RespClient& client = side == PairSide::kOld ? old_ : new_;
  Result<Reply> reply = client.ask({"INFO"}, timeout_ms);
  if (!reply) return reply.status();
  const std::string& text = reply->text;
  ServerFacts out;
  out.run_id = info_field(text, "run_id");
  out.is_master = info_field(text, "role") == "master";
  out.used_memory = parse_int64(info_field(text, "used_memory")).value_or(0);
  out.maxmemory = parse_int64(info_field(text, "maxmemory")).value_or(0);
  for (int db = 0; db < 16; ++db) {
    const std::string line = info_field(text, cat("db", db));  // keys=3,expires=0,avg_ttl=0
    if (!line.starts_with("keys=")) continue;
    const auto keys = parse_int64(std::string_view(line).substr(5, line.find(',') - 5));
    if (keys) out.keys_by_db.emplace_back(db, *keys);
  }
  return out;
}

}  // namespace sf
