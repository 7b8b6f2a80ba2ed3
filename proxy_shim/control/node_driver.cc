#include "proxy_shim/control/node_driver.h"

#include <algorithm>

namespace sf {
namespace {

uint64_t number_of(const Reply& reply) {
  if (reply.type == Reply::Type::kInteger)
    return static_cast<uint64_t>(std::max<int64_t>(reply.integer, 0));
  return parse_uint64(reply.text).value_or(0);
}

bool is_number(const Reply& reply) {
  return (reply.type == Reply::Type::kInteger && reply.integer >= 0) ||
         parse_uint64(reply.text).has_value();
}

// `history <id> seq <n>` of a flat array. Missing or unreadable is an error, never a guess (I2).
Result<ReplPosition> position_of(const RespClient& client, const Reply& reply, const char* verb) {
  const Reply* history = flat_field(reply, "history");
  const Reply* seq = flat_field(reply, "seq");
  if (history == nullptr || history->text.empty() || seq == nullptr || !is_number(*seq)) {
    return Status::corrupt(
        cat(client.address().text(), " answers ", verb, " without history and seq"));
  }
  return ReplPosition{history->text, number_of(*seq)};
}

Result<std::pair<int, SlotReport>> report_of(const RespClient& client, const Reply& row) {
  const Status bad = Status::corrupt(
      cat(client.address().text(), " answers REPLICATION POSITIONS in an unknown shape"));
  if (row.elements.size() < 6 || !is_number(row.elements[0]) || !is_number(row.elements[3]))
    return bad;
  SlotReport out;
  const std::string& role = row.elements[1].text;
  if (role != "master" && role != "slave") return bad;
  out.master = role == "master";
  out.at = {row.elements[2].text, number_of(row.elements[3])};
  const std::string& link = row.elements[4].text;
  out.link = link == "up"        ? SlotReport::Link::kUp
             : link == "copying" ? SlotReport::Link::kCopying
             : link == "-"       ? SlotReport::Link::kNone
                                 : SlotReport::Link::kDown;
  const std::string& fence = row.elements[5].text;
  out.fence = fence == "no"       ? SlotReport::Fence::kNo
              : fence == "leased" ? SlotReport::Fence::kLeased
                                  : SlotReport::Fence::kPermanent;
  return std::pair{static_cast<int>(number_of(row.elements[0])), out};
}

}  // namespace

NodeDriver::NodeDriver(const MovePlan& plan, const std::string& name)
    : plan_(plan.id),
      attached_(plan.attached_slots()),
      old_address_(plan.old_side.master),
      new_address_(plan.new_side.master),
      old_(plan.old_side.master, plan.old_side.password, name),
      new_(plan.new_side.master, plan.new_side.password, name) {}

Status NodeDriver::connect(int64_t timeout_ms) {
  Status status = old_.connect(timeout_ms);
  return status ? new_.connect(timeout_ms) : status;
}

std::vector<std::string> NodeDriver::verb(const std::string& name,
                                          const CutAttempt& attempt) const {
  return {"PKCLUSTER", name, attempt.slots.text(), plan_, std::to_string(attempt.epoch)};
}

Status NodeDriver::announce(const CutAttempt& attempt, int64_t timeout_ms) {
  sealed_end_ = {};
  applied_ = 0;
  open_epoch_ = seen_open_ == attempt.slots ? attempt.epoch : 0;
  return raise_epoch(attempt, timeout_ms);
}

Status NodeDriver::raise_epoch(const CutAttempt& attempt, int64_t timeout_ms) {
  Status status = old_.ask_ok(verb("EPOCH", attempt), timeout_ms);
  return status ? new_.ask_ok(verb("EPOCH", attempt), timeout_ms) : status;
}

Result<ReplPosition> NodeDriver::fence_call(const CutAttempt& attempt, const std::string& how,
                                            const std::string& argument, int64_t timeout_ms) {
  std::vector<std::string> argv = verb("FENCE", attempt);
  argv.push_back(how);
  argv.push_back(argument);
  Result<Reply> reply = old_.ask(argv, timeout_ms);
  if (!reply) return reply.status();
  return position_of(old_, *reply, "PKCLUSTER FENCE");
}

Result<ReplPosition> NodeDriver::fence(const CutAttempt& attempt, int64_t lease_ms,
                                       int64_t timeout_ms) {
  return fence_call(attempt, "LEASE", std::to_string(lease_ms), timeout_ms);
}

Result<bool> NodeDriver::wait_applied(const CutAttempt& attempt, const ReplPosition& end,
                                      int64_t timeout_ms) {
  Result<Reply> reply = new_.ask({"REPLICATION", "WAITAPPLIED", attempt.slots.text(), end.history,
                                  std::to_string(end.seq), std::to_string(timeout_ms)},
                                 timeout_ms + 500);
  if (!reply) return reply.status();
  return reply->type == Reply::Type::kInteger && reply->integer == 1;
}

Result<ReplPosition> NodeDriver::fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) {
  Result<ReplPosition> end = fence_call(attempt, "PERMANENT", new_address_.text(), timeout_ms);
  if (end) sealed_end_ = *end;
  return end;
}

Result<ReplPosition> NodeDriver::promote(const CutAttempt& attempt, const ReplPosition& end,
                                         int64_t timeout_ms) {
  std::vector<std::string> argv = verb("PROMOTE", attempt);
  for (const std::string& arg : {std::string("FROM"), end.history, std::to_string(end.seq)}) {
    argv.push_back(arg);
  }
  Result<Reply> reply = new_.ask(argv, timeout_ms);
  if (!reply) return reply.status();
  const Reply* applied = flat_field(*reply, "applied");
  if (applied == nullptr || !is_number(*applied)) {
    return Status::corrupt(cat(new_address_.text(), " answers PKCLUSTER PROMOTE without applied"));
  }
  applied_ = number_of(*applied);
  return position_of(new_, *reply, "PKCLUSTER PROMOTE");
}

Result<Ends> NodeDriver::read_ends(const CutAttempt&, const ReplPosition& end, int64_t) {
  // The fence is permanent, so the end told with it is the end. The new side stopped its stream at
  // `applied_`, which counts writes of other slots too: having reached `end` it holds exactly the
  // old side's last write of these slots, for there is none after it.
  Ends out;
  out.old_end = sealed_end_;
  out.new_end = {end.history, applied_ >= end.seq ? end.seq : applied_};
  return out;
}

Status NodeDriver::follow(RespClient& follower, const HostPort& leader, const CutAttempt& attempt,
                          const SlotSet& slots, const ReplPosition& from, int64_t timeout_ms) {
  std::vector<std::string> argv = verb("FOLLOW", {slots, attempt.epoch});
  for (const std::string& arg : {leader.host, std::to_string(leader.port), std::string("FROM"),
                                 from.history, std::to_string(from.seq)}) {
    argv.push_back(arg);
  }
  Status status = follower.ask_ok(argv, timeout_ms);
  if (!status) return status;
  Result<Reports> after = positions(follower, slots, timeout_ms);
  if (!after) return after.status();
  for (const auto& [slot, report] : *after) {
    if (report.master) {
      return Status::corrupt(cat(follower.address().text(), " took FOLLOW for slot ", slot,
                                 " and still is its master"));
    }
  }
  return Status::ok();
}

Status NodeDriver::link_reverse(const CutAttempt& attempt, const ReplPosition& from,
                                int64_t timeout_ms) {
  return follow(old_, new_address_, attempt, attempt.slots, from, timeout_ms);
}

Status NodeDriver::follow_again(const CutAttempt& attempt, const ReplPosition& from,
                                int64_t timeout_ms) {
  // First: from now on a late PROMOTE of the attempt is refused, so what is read next stays true.
  Status raised = new_.ask_ok(verb("EPOCH", attempt), timeout_ms);
  if (!raised) return raised;
  Result<Reports> now = positions(new_, attempt.slots, timeout_ms);
  if (!now) return now.status();
  SlotSet promoted;
  for (const auto& [slot, report] : *now) {
    if (report.master) promoted.add(slot);
  }
  if (promoted.empty()) return Status::ok();
  if (!from.history.empty()) {
    return follow(new_, old_address_, attempt, promoted, from, timeout_ms);
  }
  // After a crash the end is not known here, but the old side still stands at it: its fence was
  // made permanent before the promote was sent.
  Result<Reports> old_now = positions(old_, promoted, timeout_ms);
  if (!old_now) return old_now.status();
  for (const auto& [slot, report] : *old_now) {
    if (report.fence != SlotReport::Fence::kPermanent) {
      return Status::refused(
          cat("slot ", slot, " of ", new_address_.text(),
              " is a master and the old side is not fenced: where to follow from is unknown"));
    }
    Status status = follow(new_, old_address_, attempt, SlotSet::of(slot), report.at, timeout_ms);
    if (!status) return status;
  }
  return Status::ok();
}

Status NodeDriver::unfence(const CutAttempt& attempt, int64_t timeout_ms) {
  return lift(old_, attempt, timeout_ms);
}

// In the pause, so only where there is something to lift.
Status NodeDriver::mark(const CutAttempt& attempt, int64_t timeout_ms) {
  if (open_epoch_ != 0 && attempt.epoch == open_epoch_) return Status::ok();
  return lift(new_, attempt, timeout_ms);
}

Status NodeDriver::lift(RespClient& client, const CutAttempt& attempt, int64_t timeout_ms) {
  Status status = client.ask_ok(verb("UNFENCE", attempt), timeout_ms);
  if (!status) return status;
  Result<Reports> after = positions(client, attempt.slots, timeout_ms);
  if (!after) return after.status();
  for (const auto& [slot, report] : *after) {
    if (report.fence != SlotReport::Fence::kNo) {
      return Status::corrupt(
          cat(client.address().text(), " took UNFENCE and slot ", slot, " still is fenced"));
    }
  }
  return Status::ok();
}

Result<NodeDriver::Reports> NodeDriver::positions(RespClient& client, const SlotSet& slots,
                                                  int64_t timeout_ms) {
  Result<Reply> reply = client.ask({"REPLICATION", "POSITIONS", slots.text()}, timeout_ms);
  if (!reply) return reply.status();
  Reports out;
  for (const Reply& row : reply->elements) {
    Result<std::pair<int, SlotReport>> report = report_of(client, row);
    if (!report) return report.status();
    if (slots.contains(report->first)) out.insert(*report);
  }
  if (out.size() != static_cast<size_t>(slots.size())) {
    return Status::corrupt(cat(client.address().text(), " says the positions of ", out.size(),
                               " of ", slots.size(), " slots"));
  }
  return out;
}

Result<std::map<int, uint64_t>> NodeDriver::promoted(const SlotSet& slots, int64_t timeout_ms) {
  Result<Reply> reply = new_.ask({"PKCLUSTER", "PROMOTED", slots.text(), plan_}, timeout_ms);
  if (!reply) return reply.status();
  std::map<int, uint64_t> out;
  for (const Reply& row : reply->elements) {
    if (row.elements.size() != 2 || !is_number(row.elements[0]) || !is_number(row.elements[1])) {
      return Status::corrupt(
          cat(new_address_.text(), " answers PKCLUSTER PROMOTED in an unknown shape"));
    }
    out[static_cast<int>(number_of(row.elements[0]))] = number_of(row.elements[1]);
  }
  if (out.size() != static_cast<size_t>(slots.size())) {
    return Status::corrupt(cat(new_address_.text(), " says the promotes of ", out.size(), " of ",
                               slots.size(), " slots"));
  }
  return out;
}

Result<Survey> NodeDriver::survey(const SlotSet& slots, int64_t timeout_ms) {
  Result<Reports> old_now = positions(old_, slots, timeout_ms);
  if (!old_now) return old_now.status();
  Result<Reports> new_now = positions(new_, slots, timeout_ms);
  if (!new_now) return new_now.status();
  return Survey{std::move(*old_now), std::move(*new_now)};
}

SyncState NodeDriver::sync_state(const SlotSet& slots, int64_t timeout_ms) {
  SyncState out;
  seen_open_ = {};
  Result<Survey> now = survey(slots, timeout_ms);
  if (!now) {
    out.text = now.status().text();
    return out;
  }
  for (const auto& [slot, report] : now->new_side) {
    if (report.fence == SlotReport::Fence::kNo) seen_open_.add(slot);
  }
  int64_t worst = 0;
  for (const auto& [slot, old_report] : now->old_side) {
    const SlotReport& new_report = now->new_side.at(slot);
    if (!old_report.master) {
      out.text = cat("slot ", slot, " of ", old_address_.text(), " is a replica");
    } else if (new_report.master) {
      out.text = cat("slot ", slot, " of ", new_address_.text(), " follows nobody");
    } else if (new_report.link != SlotReport::Link::kUp) {
      out.text =
          cat("slot ", slot, " of ", new_address_.text(),
              new_report.link == SlotReport::Link::kCopying ? " is being copied" : " has no link");
    } else if (new_report.at.history != old_report.at.history) {
      out.text = cat("slot ", slot, " of ", new_address_.text(), " follows history ",
                     new_report.at.history, ", the old side is in ", old_report.at.history);
    }
    if (!out.text.empty()) return out;
    const auto lag =
        static_cast<int64_t>(old_report.at.seq - std::min(old_report.at.seq, new_report.at.seq));
    if (lag < worst) continue;
    worst = lag;
    out.applied = new_report.at.seq;
  }
  out.following = true;
  out.lag = worst;
  return out;
}

Result<ServerFacts> NodeDriver::facts(PairSide side, int64_t timeout_ms) {
  RespClient& client = side == PairSide::kOld ? old_ : new_;
  Result<Reply> info = client.ask({"INFO"}, timeout_ms);
  if (!info) return info.status();
  ServerFacts out;
  out.run_id = info_field(info->text, "run_id");
  out.is_master = info_field(info->text, "role") != "slave";
  out.used_memory = parse_int64(info_field(info->text, "used_memory")).value_or(0);
  out.maxmemory = parse_int64(info_field(info->text, "maxmemory")).value_or(0);
  Result<Reply> slots = client.ask({"SLOTSINFO"}, timeout_ms);
  if (!slots) return slots.status();
  for (const Reply& row : slots->elements) {
    if (row.elements.size() < 2) continue;
    out.keys_by_slot.emplace_back(static_cast<int>(number_of(row.elements[0])),
                                  static_cast<int64_t>(number_of(row.elements[1])));
  }
  return out;
}

}  // namespace sf
