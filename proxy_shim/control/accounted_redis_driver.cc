#include "proxy_shim/control/accounted_redis_driver.h"

#include <chrono>
#include <thread>

#include "common/base/random.h"

namespace sf {
namespace {

constexpr const char* kLeft = "left-replication";  // note: run id of the new side when it left
constexpr const char* kExpiry = "set-active-expire";
constexpr std::chrono::microseconds kPollGap{200};  // a replica tells its offset only when asked
constexpr int64_t kTrialMs = 2'000;                 // longer than a new replica is left waiting

// A master's end, whose history is its run id. Refused where it would not move with a write.
Result<ReplPosition> end_of(const std::string& address, const std::string& server,
                            const std::string& replication) {
  if (info_field(replication, "role") != "master") {
    return Status::refused(cat(address, " is no master any more"));
  }
  const std::string run_id = info_field(server, "run_id");
  const auto offset = parse_uint64(info_field(replication, "master_repl_offset"));
  if (run_id.empty() || !offset) {
    return Status::corrupt(cat(address, " does not say its run id and replication offset"));
  }
  if (info_field(replication, "repl_backlog_active") != "1") {
    return Status::refused(cat(address, " has no replication backlog (repl_backlog_active): its ",
                               "end says nothing then"));
  }
  return ReplPosition{run_id, *offset};
}

// Follows with its link up and no copy running.
bool streams(const std::string& replication) {
  return info_field(replication, "role") == "slave" &&
         info_field(replication, "master_link_status") == "up" &&
         info_field(replication, "master_sync_in_progress") == "0";
}

}  // namespace

AccountedRedisDriver::AccountedRedisDriver(const MovePlan& plan, DriverNotes* notes,
                                           const Clock* clock, const std::string& name)
    : RedisDriver(plan, notes, clock, name), max_pause_ms_(plan.max_pause_ms) {
  ping_period_ = "repl-ping-slave-period";
  min_replicas_ = "min-slaves-to-write";
  replicaof_ = "SLAVEOF";
  traits_.end_fenced = false;
  traits_.holds_stay = true;
}

std::string AccountedRedisDriver::fence_key() const {
  return cat("{__slotferry}__slotferry:fence:", plan_);
}

bool AccountedRedisDriver::is_harmless(std::string_view line,
                                       const std::set<std::string>& ours) const {
  if (ours.contains(client_word(line, "addr="))) return true;
  if (client_word(line, "name=").starts_with("slotferry-shim")) return false;
  return RedisDriver::is_harmless(line, ours);
}

Status AccountedRedisDriver::announce(const CutAttempt& attempt, int64_t timeout_ms) {
  left_.reset();
  Status status = RedisDriver::announce(attempt, timeout_ms);
  if (!status) return status;
  Result<ReplPosition> end = lonely_end({}, timeout_ms);
  if (!end) return end.status();
  status = notes_->put_note(kExpiry, "1");
  if (!status) return status;
  // Where it is refused (renamed, not allowed) an expired key costs an attempt, not more.
  status = old_.call({"DEBUG", "SET-ACTIVE-EXPIRE", "0"}, timeout_ms).status();
  return status ? try_stream(timeout_ms) : status;
}

Status AccountedRedisDriver::write_fence_key(int64_t timeout_ms) {
  nonce_ = Random(Random::system_seed()).hex(32);
  return old_.ask_ok({"SET", fence_key(), nonce_}, timeout_ms);
}

// A lag in bytes does not tell a stream that stands still from one that flows.
Status AccountedRedisDriver::try_stream(int64_t timeout_ms) {
  const int64_t deadline_us = clock_->mono_us() + kTrialMs * 1000;
  for (;;) {
    const int64_t start_us = clock_->mono_us();
    const Status written = write_fence_key(timeout_ms);
    if (!written) return written;
    Result<Reply> there = new_.ask({"GET", fence_key()}, timeout_ms);
    while (there && there->text != nonce_ && clock_->mono_us() < deadline_us) {
      std::this_thread::sleep_for(kPollGap);
      there = new_.ask({"GET", fence_key()}, timeout_ms);
    }
    if (!there) return there.status();
    const int64_t took_us = clock_->mono_us() - start_us;
    const bool arrived = there->text == nonce_;
    if (arrived && took_us * 2 <= max_pause_ms_ * 1000) return Status::ok();
    if (clock_->mono_us() < deadline_us) continue;
    return Status::refused(cat("forecast: a key takes ", arrived ? "" : "more than ",
                               took_us / 1000, " ms from ", old_.address().text(), " to ",
                               new_.address().text(), ", and the pause may last ", max_pause_ms_,
                               " ms; it is tried again"));
  }
}

// Not in a MULTI: before Redis 4 one is replicated even if nothing in it writes, and moves the end.
// The end is asked last, so what was written after the list was made is in it.
Result<ReplPosition> AccountedRedisDriver::lonely_end(const Requests& before, int64_t timeout_ms) {
  Requests requests = before;
  requests.push_back({"CLIENT", "LIST"});
  requests.push_back({"INFO", "server"});
  requests.push_back({"INFO", "replication"});
  Result<std::vector<Reply>> said = old_.ask_all(requests, timeout_ms);
  if (!said) return said.status();
  const size_t first = before.size();
  const Status alone = judge_clients((*said)[first].text);
  if (!alone) return alone;
  return end_of(old_.address().text(), (*said)[first + 1].text, (*said)[first + 2].text);
}

Status AccountedRedisDriver::check_orphans(int64_t timeout_ms) {
  // What was connected before the first answer is in the list of the second: by then the server
  // has gone once through everything that waited, new connections included.
  Result<std::string> first = info(old_, "server", timeout_ms);
  return first ? check_writers(timeout_ms) : first.status();
}

Result<ReplPosition> AccountedRedisDriver::fence(const CutAttempt&, int64_t, int64_t timeout_ms) {
  // Also the round that check_orphans() needs before the list.
  const Status status = write_fence_key(timeout_ms);
  if (!status) return status;
  Requests close;
  if (fences_server_) close.push_back({"CONFIG", "SET", min_replicas_, kNoGroupHas});
  return lonely_end(close, timeout_ms);
}

Result<bool> AccountedRedisDriver::wait_applied(const CutAttempt&, const ReplPosition& end,
                                                int64_t timeout_ms) {
  const int64_t deadline_us = clock_->mono_us() + timeout_ms * 1000;
  for (;;) {
    Result<std::vector<Reply>> said =
        new_.ask_all({{"INFO", "replication"}, {"GET", fence_key()}}, timeout_ms);
    if (!said) return said.status();
    const std::string& replication = (*said)[0].text;
    if (info_field(replication, "role") != "slave") {
      return Status::refused(cat(new_.address().text(), " follows nobody"));
    }
    const auto at = parse_uint64(info_field(replication, "slave_repl_offset"));
    if (streams(replication) && at && *at >= end.seq && (*said)[1].text == nonce_) return true;
    if (clock_->mono_us() >= deadline_us) return false;
    std::this_thread::sleep_for(kPollGap);
  }
}

Result<ReplPosition> AccountedRedisDriver::fence_permanent(const CutAttempt&, int64_t timeout_ms) {
  return lonely_end({}, timeout_ms);
}

Result<ReplPosition> AccountedRedisDriver::promote(const CutAttempt&, const ReplPosition& end,
                                                   int64_t timeout_ms) {
  Result<std::string> server = info(new_, "server", timeout_ms);
  if (!server) return server.status();
  left_run_id_ = info_field(*server, "run_id");
  Status status = notes_->put_note(kLeft, left_run_id_);
  if (!status) return status;
  Result<std::vector<Reply>> said = new_.ask_all(
      {{"INFO", "replication"}, {"GET", fence_key()}, {replicaof_, "NO", "ONE"}}, timeout_ms);
  if (!said) return said.status();
  const auto at = parse_uint64(info_field((*said)[0].text, "slave_repl_offset"));
  if (!streams((*said)[0].text) || !at || (*said)[1].text != nonce_) {
    return Status::refused(
        cat("(e) ", new_.address().text(), " did not follow any more when it left replication"));
  }
  // What it got between the answer and its leaving would have moved the old side's end.
  left_ = ReplPosition{end.history, *at};
  status = rewrite_config(new_, timeout_ms);
  if (!status) return status;
  Result<std::string> now = info(new_, "replication", timeout_ms);
  if (!now) return now.status();
  const auto own = parse_uint64(info_field(*now, "master_repl_offset"));
  if (info_field(*now, "role") != "master" || !own) {
    return Status::refused(cat(new_.address().text(), " is no master after SLAVEOF NO ONE"));
  }
  return ReplPosition{left_run_id_, *own};
}

Result<Ends> AccountedRedisDriver::read_ends(const CutAttempt&, const ReplPosition&,
                                             int64_t timeout_ms) {
  Result<ReplPosition> old_end = lonely_end({}, timeout_ms);
  if (!old_end) return old_end.status();
  Result<std::vector<Reply>> said =
      new_.ask_all({{"INFO", "server"}, {"INFO", "replication"}}, timeout_ms);
  if (!said) return said.status();
  const bool same = info_field((*said)[0].text, "run_id") == left_run_id_;
  if (!left_ || !same || info_field((*said)[1].text, "role") != "master") {
    return Status::refused(cat(new_.address().text(), " is not the master it was made"));
  }
  return Ends{*old_end, *left_};
}

Status AccountedRedisDriver::release(const CutAttempt&, int64_t timeout_ms) {
  Status status = restore(ping_period_, timeout_ms);
  if (notes_->note(kExpiry)) {
    const Status expiry = old_.call({"DEBUG", "SET-ACTIVE-EXPIRE", "1"}, timeout_ms).status();
    const Status dropped = expiry ? notes_->drop_note(kExpiry) : expiry;
    if (status) status = dropped;
  }
  // On the owner only: after the switch nothing is written to the old side any more.
  Result<std::string> now = info(new_, "replication", timeout_ms);
  if (!now) return status ? now.status() : status;
  const bool promoted = info_field(*now, "role") == "master";
  const Status gone = (promoted ? new_ : old_).ask({"DEL", fence_key()}, timeout_ms).status();
  return status ? gone : status;
}

Status AccountedRedisDriver::follow_again(const CutAttempt&, const ReplPosition&,
                                          int64_t timeout_ms) {
  Result<std::vector<Reply>> said =
      new_.ask_all({{"INFO", "server"}, {"INFO", "replication"}}, timeout_ms);
  if (!said) return said.status();
  if (info_field((*said)[1].text, "role") == "slave") return notes_->drop_note(kLeft);
  const std::optional<std::string> left = notes_->note(kLeft);
  if (!left || *left != info_field((*said)[0].text, "run_id")) {
    return Status::refused(cat(new_.address().text(), " is a master and ",
                               left ? "has restarted since it left " : "was no replica of ",
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
  Result<std::string> after = info(new_, "replication", timeout_ms);
  if (!after) return after.status();
  if (info_field(*after, "role") == "slave") return notes_->drop_note(kLeft);
  return Status::corrupt(cat(new_.address().text(), " took SLAVEOF and still is a master"));
}

Status AccountedRedisDriver::unfence(const CutAttempt&, int64_t timeout_ms) {
  return restore(min_replicas_, timeout_ms);
}

Result<SlotReport> AccountedRedisDriver::report(RespClient& client, PairSide side,
                                                int64_t timeout_ms) {
  Result<std::vector<Reply>> said =
      client.ask_all({{"INFO", "server"}, {"INFO", "replication"}}, timeout_ms);
  if (!said) return said.status();
  const std::string& text = (*said)[1].text;
  SlotReport out;
  const std::string role = info_field(text, "role");
  if (role != "master" && role != "slave") {
    return Status::corrupt(cat(client.address().text(), " does not say its role"));
  }
  out.master = role == "master";
  const std::string run_id = info_field((*said)[0].text, "run_id");
  const char* offset = out.master ? "master_repl_offset" : "slave_repl_offset";
  // A replica in its first copy is at -1.
  const auto seq = parse_uint64(info_field(text, offset));
  const bool streaming = !out.master && streams(text);
  if (run_id.empty() || (!seq && (out.master || streaming))) {
    return Status::corrupt(cat(client.address().text(), " does not say its run id and ", offset));
  }
  out.at.seq = seq.value_or(0);
  if (out.master) {
    out.at.history = run_id;
  } else {
    // Whose run id it follows is said nowhere; survey() puts it in where it is the pair's.
    out.at.history = cat(info_field(text, "master_host"), ":", info_field(text, "master_port"));
    const bool copying = info_field(text, "master_sync_in_progress") != "0";
    out.link = streaming ? SlotReport::Link::kUp
               : copying ? SlotReport::Link::kCopying
                         : SlotReport::Link::kDown;
  }
  if (side == PairSide::kOld && fences_server_) {
    Result<std::string> replicas = config_get(client, min_replicas_, timeout_ms);
    if (!replicas) return replicas.status();
    if (*replicas == kNoGroupHas) out.fence = SlotReport::Fence::kPermanent;
  }
  return out;
}

Result<Survey> AccountedRedisDriver::survey(const SlotSet& slots, int64_t timeout_ms) {
  Result<Survey> out = RedisDriver::survey(slots, timeout_ms);
  if (!out) return out;
  const std::string port = cat(":", old_.address().port);
  const bool left = notes_->note(kLeft).has_value();
  for (auto& [slot, to] : out->new_side) {
    // By name or by number: the fence key is what proves it, this only says when to try.
    const bool pair = !to.master && to.at.history.ends_with(port);
    if (pair) to.at.history = out->old_side.at(slot).at.history;
    to.left = to.master && left;
  }
  return out;
}

}  // namespace sf
