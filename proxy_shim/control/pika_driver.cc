#include "proxy_shim/control/pika_driver.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "common/base/random.h"
#include "proxy_shim/control/own_sockets.h"

namespace sf {
namespace {

using Json = nlohmann::json;
using Requests = std::vector<std::vector<std::string>>;

constexpr const char* kTrustNote = "pika.trust";
// Pika says nothing when a key becomes readable; asking again is all there is.
constexpr std::chrono::microseconds kPollGap{500};
constexpr int64_t kForecastUs = 2'000'000;

std::string ends_text(const std::map<std::string, BinlogOffset>& ends) {
  std::string out;
  for (const auto& [binlog, at] : ends) {
    out += cat(out.empty() ? "" : " ", binlog, " at ", at.text());
  }
  return out;
}

Json ends_json(const std::map<std::string, BinlogOffset>& ends) {
  Json out = Json::object();
  for (const auto& [binlog, at] : ends) out[binlog] = {at.file, at.offset};
  return out;
}

bool all_values(const Reply& reply, const PikaFence& fence) {
  if (reply.elements.size() != fence.keys.size()) return false;
  return std::all_of(reply.elements.begin(), reply.elements.end(), [&](const Reply& value) {
    return value.type == Reply::Type::kBulk && value.text == fence.value;
  });
}

std::vector<std::string> get_all(const PikaFence& fence) {
  std::vector<std::string> out{"MGET"};
  out.insert(out.end(), fence.keys.begin(), fence.keys.end());
  return out;
}

bool reached(const std::map<std::string, BinlogOffset>& is,
             const std::map<std::string, BinlogOffset>& wanted) {
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
    const auto found = is.find(entry.first);
    return found != is.end() && found->second >= entry.second;
  });
}

}  // namespace

PikaDriver::PikaDriver(const MovePlan& plan, DriverNotes* notes, const Clock* clock,
                       const std::string& name)
    : old_(plan.old_side.master, plan.old_side.password, name),
      new_(plan.new_side.master, plan.new_side.password, name),
      plan_(plan),
      notes_(notes),
      clock_(clock),
      name_(name) {
  old_.wait_for_late_answers();
  new_.wait_for_late_answers();
}

Result<PikaServer> PikaDriver::ask_server(RespClient& client, int64_t timeout_ms) {
  Result<Reply> info = client.ask({"INFO", "server"}, timeout_ms);
  if (!info) return info.status();
  Result<PikaServer> server = parse_pika_server(info->text);
  if (!server) return server.status().with_context(client.address().text());
  return server;
}

Status PikaDriver::connect(int64_t timeout_ms) {
  uint64_t sizes[2] = {0, 0};
  for (RespClient* client : {&old_, &new_}) {
    Status status = client->connect(timeout_ms);
    if (!status) return status;
    Result<PikaServer> server = ask_server(*client, timeout_ms);
    if (!server) return server.status();
    (client == &old_ ? old_server_ : new_server_) = *server;
    status = check_mode(*client, timeout_ms);
    if (!status) return status;
    Result<std::string> size = config_get(*client, "binlog-file-size", timeout_ms);
    if (!size) return size.status();
    const auto bytes = parse_uint64(*size);
    if (!bytes || *bytes == 0) {
      return Status::corrupt(cat(client->address().text(), " says binlog-file-size '", *size, "'"));
    }
    sizes[client == &new_] = *bytes;
  }
  if (sizes[0] != sizes[1]) {
    return Status::refused(
        cat("binlog-file-size is ", sizes[0], " on ", old_.address().text(), " and ", sizes[1],
            " on ", new_.address().text(),
            ": their binlog positions cannot be compared; make them equal and copy anew"));
  }
  file_size_ = sizes[0];
  return Status::ok();
}

Result<std::string> PikaDriver::config_get(RespClient& client, const char* name,
                                           int64_t timeout_ms) {
  Result<Reply> reply = client.ask({"CONFIG", "GET", name}, timeout_ms);
  if (!reply) return reply.status();
  if (reply->elements.size() != 2 || reply->elements[0].text != name) {
    return Status::corrupt(cat(client.address().text(), " does not say its setting ", name));
  }
  return reply->elements[1].text;
}

bool PikaDriver::is_server(const HostPort& said, RespClient& known, const std::string& run_id,
                           int64_t timeout_ms) {
  if (said == known.address()) return true;
  if (said.port != known.address().port) return false;
  const std::string name = cat(said.text(), " ", run_id);
  const auto found = known_addresses_.find(name);
  if (found != known_addresses_.end()) return found->second;
  const std::string& password = &known == &old_ ? plan_.old_side.password : plan_.new_side.password;
  RespClient other(said, password, name_);
  Result<PikaServer> server = ask_server(other, timeout_ms);
  if (!server) return false;  // not known: asked again the next time
  return known_addresses_[name] = server->run_id == run_id;
}

ReplPosition PikaDriver::position(const PikaSide& side) const {
  ReplPosition out;
  out.history = side.id.value_or("pika");
  for (const auto& [binlog, at] : side.ends) out.seq += at.packed();
  return out;
}

int64_t PikaDriver::lag_of(const PikaSide& from, const PikaSide& to) const {
  int64_t worst = 0;
  for (const auto& [binlog, at] : from.ends) {
    const auto found = to.ends.find(binlog);
    if (found == to.ends.end()) return -1;
    const int64_t files = static_cast<int64_t>(at.file) - found->second.file;
    worst =
        std::max(worst, files * static_cast<int64_t>(file_size_) + static_cast<int64_t>(at.offset) -
                            static_cast<int64_t>(found->second.offset));
  }
  return worst;
}

std::string PikaDriver::distrust(const PikaSide& from, const PikaSide& to) {
  const std::string pair = Json{{"old", from.run_id}, {"new", to.run_id}}.dump();
  const std::optional<std::string> noted = notes_->note(kTrustNote);
  if (to.link == PikaLink::kCopying) {
    if (noted && *noted != pair) (void)notes_->drop_note(kTrustNote);
    return "";
  }
  if (!noted) {
    const Status status = notes_->put_note(kTrustNote, pair);
    return status ? "" : status.text();
  }
  if (*noted == pair) return "";
  return cat("the old or the new master (", old_.address().text(), ", ", new_.address().text(),
             ") has restarted since their copy was made: Pika loses what it had queued when it is "
             "killed and does not say so; copy anew (SLAVEOF NO ONE, empty it, SLAVEOF)");
}

std::string PikaDriver::not_following(const PikaSide& from, const PikaSide& to,
                                      int64_t timeout_ms) {
  const std::string& old_name = old_.address().text();
  const std::string new_name = new_.address().text();
  if (!from.is_master) return cat(old_name, " is a replica");
  if (to.is_master) return cat(new_name, " follows nobody");
  if (!is_server(to.master, old_, from.run_id, timeout_ms)) {
    return cat(new_name, " follows ", to.master.text(), ", which is not ", old_name);
  }
  std::string why = distrust(from, to);
  if (!why.empty()) return why;
  if (to.link == PikaLink::kCopying || !to.settled) return cat(new_name, " is copying");
  if (to.link != PikaLink::kUp) return cat(new_name, " has no link to its master");
  if (from.id != to.id || (from.id && from.id->empty())) {
    return cat(new_name, " has ReplicationID '", to.id.value_or("none"), "', ", old_name, " has '",
               from.id.value_or("none"), "'");
  }
  if (from.ends.empty()) return cat(old_name, " does not say its binlog_offset");
  if (lag_of(from, to) < 0) return cat(new_name, " does not say its binlog_offset");
  const auto is_new = [&](const HostPort& replica) { return replica.port == new_.address().port; };
  if (std::none_of(from.replicas.begin(), from.replicas.end(), is_new)) {
    return cat(old_name, " does not list ", new_name, " among its replicas");
  }
  return "";
}

SyncState PikaDriver::sync_state(const SlotSet& slots, int64_t timeout_ms) {
  SyncState out;
  // The new side first: what it has logged then is not ahead of what the old one says after.
  Result<PikaSide> to = look(new_, slots, timeout_ms);
  Result<PikaSide> from = to ? look(old_, slots, timeout_ms) : to;
  if (!from) {
    out.text = from.status().text();
    return out;
  }
  out.text = not_following(*from, *to, timeout_ms);
  out.following = out.text.empty();
  if (out.following) out.lag = lag_of(*from, *to);
  return out;
}

std::string PikaDriver::fence_note(const SlotSet& slots) const {
  return cat("pika.fence.", slots.text());
}

std::string PikaDriver::end_note(const SlotSet& slots) const {
  return cat("pika.end.", slots.text());
}

Status PikaDriver::announce(const CutAttempt& attempt, int64_t timeout_ms) {
  now_ = {};
  now_.slots = attempt.slots;
  Result<PikaSide> to = look(new_, attempt.slots, timeout_ms);
  if (!to) return to.status();
  Result<PikaSide> from = look(old_, attempt.slots, timeout_ms);
  if (!from) return from.status();
  const std::string why = not_following(*from, *to, timeout_ms);
  if (!why.empty()) return Status::refused(why);
  Status status = check_writers(timeout_ms);
  if (!status) return status;
  now_.old_run_id = from->run_id;
  now_.new_run_id = to->run_id;
  status = try_faithful(*from, *to, timeout_ms);
  if (status) status = sweep(timeout_ms);
  if (status) status = forecast(timeout_ms);
  if (!status) return status;
  const std::string tag = tag_of_slot(tag_slot(attempt.slots), kSlotCount);
  const std::string nonce = Random(Random::system_seed()).hex(32);
  now_.fence = choose_fence(tag, plan_.id, nonce, new_server_.sync_threads);
  const Json note = {
      {"tag", tag}, {"nonce", nonce}, {"keys", now_.fence.keys.size()}, {"epoch", attempt.epoch}};
  return notes_->put_note(fence_note(attempt.slots), note.dump());
}

std::vector<std::vector<std::string>> PikaDriver::fence_requests(const Binlogs& binlogs,
                                                                 bool remove) const {
  Requests out;
  for (const auto& [binlog, at] : binlogs) {
    const int db = database_of(binlog);
    if (binlogs.size() > 1) out.push_back({"SELECT", std::to_string(db)});
    for (size_t i = 0; i < now_.fence.keys.size(); ++i) {
      if (remove) out.push_back({"DEL", now_.fence.keys[i]});
      if (!remove) out.push_back(now_.fence.set_command(i));
    }
  }
  if (binlogs.size() > 1) out.push_back({"SELECT", "0"});
  return out;
}

Status PikaDriver::try_faithful(const PikaSide& from, const PikaSide& to, int64_t timeout_ms) {
  const std::string pair = cat(from.run_id, " ", to.run_id);
  if (tried_ != pair) {
    const std::string tag = tag_of_slot(tag_slot(now_.slots), kSlotCount);
    const std::string base =
        cat("{", tag, "}__slotferry:", plan_.id, ":trial:", Random(Random::system_seed()).hex(32));
    const PikaTrial trial{base + ":ttl", base + ":append"};
    Status status = begin_trial(old_, trial, timeout_ms);
    if (!status) return status;
    const int64_t deadline_us = clock_->mono_us() + timeout_ms * 1000;
    Result<std::vector<PikaFault>> found = read_trial(new_, trial, timeout_ms);
    while (found.status().code() == Code::kUnavailable && clock_->mono_us() < deadline_us) {
      std::this_thread::sleep_for(kPollGap);
      found = read_trial(new_, trial, timeout_ms);
    }
    status = end_trial(old_, trial, timeout_ms);
    if (!found) return found.status();
    if (!status) return status;
    faults_ = *found;
    for (PikaFault& fault : faults_of_version(old_server_.major, old_server_.minor)) {
      faults_.push_back(std::move(fault));
    }
    tried_ = pair;
  }
  const std::string why = not_accepted(faults_, plan_.accept);
  return why.empty() ? Status::ok() : Status::refused(why);
}

Status PikaDriver::forecast(int64_t timeout_ms) {
  const int64_t start_us = clock_->mono_us();
  if (forecast_us_ != 0 && start_us - forecast_us_ < kForecastUs) return Status::ok();
  const PikaFence keys =
      choose_fence(tag_of_slot(tag_slot(now_.slots), kSlotCount), plan_.id + ":trial",
                   Random(Random::system_seed()).hex(32), new_server_.sync_threads);
  Requests put, remove;
  for (const std::string& key : keys.keys) {
    put.push_back({"SETEX", key, "1000", keys.value});  // gone by itself should we end here
    remove.push_back({"DEL", key});
  }
  Status status = old_.ask_all(put, timeout_ms).status();
  if (!status) return status;
  const int64_t most_us = std::min(timeout_ms, plan_.max_pause_ms) * 1000;
  bool there = false;
  while (status && !there && clock_->mono_us() - start_us < most_us) {
    Result<Reply> reply = new_.ask(get_all(keys), timeout_ms);
    status = reply.status();
    there = reply.is_ok() && all_values(*reply, keys);
    if (!there) std::this_thread::sleep_for(kPollGap);
  }
  const Status removed = old_.ask_all(remove, timeout_ms).status();
  if (!status || !removed) return status ? removed : status;
  if (there) forecast_us_ = start_us;
  if (there) return Status::ok();
  return Status::refused(cat("a write now takes more than ", most_us / 1000,
                             " ms until it is applied on ", new_.address().text(),
                             ": the pause would be too long"));
}

// A fence left by an attempt that ended before release(), perhaps of an earlier life of the shim.
// The old side owns the slots here, so that is where its keys are deleted.
Status PikaDriver::sweep(int64_t timeout_ms) {
  const std::optional<std::string> noted = notes_->note(fence_note(now_.slots));
  if (!noted) return Status::ok();
  const Json note = Json::parse(*noted, nullptr, false);
  if (!note.is_object() || !note.contains("tag") || !note.contains("nonce") ||
      !note.contains("keys")) {
    return Status::corrupt(cat("the note of the fence of slots ", now_.slots.text(),
                               " is damaged: the state folder is not to be trusted"));
  }
  now_.fence = same_fence(note["tag"].get<std::string>(), plan_.id,
                          note["nonce"].get<std::string>(), note["keys"].get<size_t>());
  Result<PikaSide> from = look(old_, now_.slots, timeout_ms);
  if (!from) return from.status();
  Result<std::vector<Reply>> done = old_.ask_all(fence_requests(from->ends, true), timeout_ms);
  if (!done) return done.status();
  return notes_->drop_note(fence_note(now_.slots));
}

Status PikaDriver::same_processes(const PikaSide& side, PairSide which) const {
  const std::string& before = which == PairSide::kOld ? now_.old_run_id : now_.new_run_id;
  if (side.run_id == before) return Status::ok();
  return Status::refused(cat("the ", side_name(which), " master has restarted during the attempt"));
}

Status PikaDriver::still_at(const PikaSide& side, const Binlogs& end, const char* whose) const {
  if (side.ends == end) return Status::ok();
  return Status::refused(
      cat("the ", whose, " side's end is ", ends_text(side.ends), ", not ", ends_text(end)));
}

Result<ReplPosition> PikaDriver::fence(const CutAttempt& attempt, int64_t, int64_t timeout_ms) {
  if (now_.fence.empty()) return Status::refused("no fence was announced");
  Result<PikaSide> before = look(old_, attempt.slots, timeout_ms);
  if (!before) return before.status();
  const Requests requests = fence_requests(before->ends, false);
  Result<std::vector<Reply>> written = old_.ask_all(requests, timeout_ms);
  if (!written) return written.status();
  Result<PikaSide> after = look(old_, attempt.slots, timeout_ms);
  if (!after) return after.status();
  Status status = same_processes(*after, PairSide::kOld);
  if (!status) return status;
  if (!after->is_master)
    return Status::refused(cat(old_.address().text(), " is no master any more"));
  if (before->ends.size() != after->ends.size()) {
    return Status::refused(cat(old_.address().text(), " says other binlogs than before"));
  }
  for (const auto& [binlog, start] : before->ends) {
    const BinlogOffset ours = end_after(now_.fence, start, file_size_);
    const auto end = after->ends.find(binlog);
    if (end != after->ends.end() && end->second == ours) continue;
    return Status::refused(
        cat("(c) ", binlog, " of ", old_.address().text(), " went from ", start.text(), " to ",
            end == after->ends.end() ? "nowhere" : end->second.text(), ", our own records lead to ",
            ours.text(), ": somebody else writes to it"));
  }
  now_.end = after->ends;
  return position(*after);
}

Result<bool> PikaDriver::all_readable(const Binlogs& binlogs, int64_t timeout_ms) {
  Requests requests;
  for (const auto& [binlog, at] : binlogs) {
    if (binlogs.size() > 1) {
      requests.push_back({"SELECT", std::to_string(database_of(binlog))});
    }
    requests.push_back(get_all(now_.fence));
  }
  if (binlogs.size() > 1) requests.push_back({"SELECT", "0"});
  Result<std::vector<Reply>> replies = new_.ask_all(requests, timeout_ms);
  if (!replies) return replies.status();
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i][0] != "MGET") continue;
    if (!all_values((*replies)[i], now_.fence)) return false;
  }
  return true;
}

Result<bool> PikaDriver::wait_applied(const CutAttempt& attempt, const ReplPosition&,
                                      int64_t timeout_ms) {
  const int64_t deadline_us = clock_->mono_us() + timeout_ms * 1000;
  for (;;) {
    Result<PikaSide> to = look(new_, attempt.slots, timeout_ms);
    if (!to) return to.status();
    Status status = same_processes(*to, PairSide::kNew);
    if (!status) return status;
    if (to->is_master) return Status::refused(cat(new_.address().text(), " follows nobody"));
    if (to->link == PikaLink::kUp && to->settled && reached(to->ends, now_.end)) {
      Result<bool> readable = all_readable(now_.end, timeout_ms);
      if (!readable || *readable) return readable;
    }
    if (clock_->mono_us() >= deadline_us) return false;
    std::this_thread::sleep_for(kPollGap);
  }
}

Status PikaDriver::check_writers(int64_t timeout_ms) {
  Result<Reply> list = old_.ask({"CLIENT", "LIST"}, timeout_ms);
  if (!list) return list.status();
  const std::set<std::string> ours = own_socket_addresses();
  std::set<std::string> hosts{plan_.dashboard.host};
  for (const PlanSide* side : {&plan_.old_side, &plan_.new_side}) {
    for (const HostPort& server : side->servers) hosts.insert(server.host);
    hosts.insert(side->master.host);
  }
  std::string strangers;
  int count = 0;
  for (std::string_view line : split(list->text, '\n')) {
    line = trim(line);
    if (line.empty()) continue;
    if (!line.starts_with("addr=")) {
      return Status::corrupt(cat(old_.address().text(), " answers CLIENT LIST with '",
                                 printable(line), "', which has no addr"));
    }
    const std::string_view address = line.substr(5, line.find(' ') - 5);
    const std::string_view host = address.substr(0, address.rfind(':'));
    if (ours.contains(std::string(address)) || hosts.contains(std::string(host))) continue;
    if (++count <= 3) strangers += cat(strangers.empty() ? "" : ", ", address);
  }
  if (count == 0) return Status::ok();
  return Status::refused(cat("the old master ", old_.address().text(), " has ", count,
                             " foreign connections: ", strangers,
                             "; it must be reached through the shim only"));
}

Result<ReplPosition> PikaDriver::fence_permanent(const CutAttempt& attempt, int64_t timeout_ms) {
  Result<PikaSide> from = look(old_, attempt.slots, timeout_ms);
  if (!from) return from.status();
  Status status = same_processes(*from, PairSide::kOld);
  if (status) status = still_at(*from, now_.end, "old");
  if (!status) return status;
  return position(*from);
}

Status PikaDriver::note_end(const CutAttempt& attempt, const PikaSide& side) {
  const Json note = {{"epoch", attempt.epoch},
                     {"ends", ends_json(now_.end)},
                     {"master", side.master.text()},
                     {"run_id", side.run_id}};
  return notes_->put_note(end_note(attempt.slots), note.dump());
}

Result<PikaDriver::Binlogs> PikaDriver::noted_end(const SlotSet& slots) const {
  // At a start the unit's slots are asked for one by one.
  SlotSet unit = plan_.unit == CutUnit::kPlan ? plan_.slots : slots;
  const std::optional<std::string> noted = notes_->note(end_note(unit));
  const Json note = noted ? Json::parse(*noted, nullptr, false) : Json();
  if (!note.is_object() || !note.contains("ends") || !note["ends"].is_object()) {
    return Status::refused(
        cat("where ", new_.address().text(), " left replication was not noted: it is left alone"));
  }
  Binlogs out;
  for (const auto& [binlog, at] : note["ends"].items()) {
    if (!at.is_array() || at.size() != 2) return Status::corrupt("a noted end is damaged");
    out[binlog] = {at[0].get<uint32_t>(), at[1].get<uint64_t>()};
  }
  return out;
}

Result<ReplPosition> PikaDriver::promote(const CutAttempt& attempt, const ReplPosition&,
                                         int64_t timeout_ms) {
  Result<PikaSide> to = look(new_, attempt.slots, timeout_ms);
  if (!to) return to.status();
  Status status = same_processes(*to, PairSide::kNew);
  if (!status) return status;
  // A SLAVEOF of any form between the steps of a copy can hang the server for ever.
  if (to->is_master || to->link != PikaLink::kUp || !to->settled) {
    return Status::refused(cat(new_.address().text(), " does not follow any more"));
  }
  status = still_at(*to, now_.end, "new");
  if (status) status = note_end(attempt, *to);
  if (status) status = leave(new_, attempt.slots, timeout_ms);
  if (!status) return status;
  Result<PikaSide> after = look(new_, attempt.slots, timeout_ms);
  if (!after) return after.status();
  status = same_processes(*after, PairSide::kNew);
  if (!status) return status;
  if (!after->is_master) {
    return Status::refused(cat(new_.address().text(), " took NO ONE and still is a replica"));
  }
  return position(*after);
}

Result<Ends> PikaDriver::read_ends(const CutAttempt& attempt, const ReplPosition&,
                                   int64_t timeout_ms) {
  Result<PikaSide> from = look(old_, attempt.slots, timeout_ms);
  if (!from) return from.status();
  Result<PikaSide> to = look(new_, attempt.slots, timeout_ms);
  if (!to) return to.status();
  Status status = same_processes(*from, PairSide::kOld);
  if (status) status = same_processes(*to, PairSide::kNew);
  if (!status) return status;
  if (!from->is_master || !to->is_master) return Status::refused("a side is no master");
  // By binlog: two that moved against each other have the same sum.
  status = still_at(*from, now_.end, "old");
  if (status) status = still_at(*to, now_.end, "new");
  if (!status) return status;
  return Ends{position(*from), position(*to)};
}

std::string PikaDriver::marker_key(int slot) const {
  return cat("{", tag_of_slot(slot, kSlotCount), "}__slotferry:owner:", plan_.id);
}

Status PikaDriver::mark(const CutAttempt& attempt, int64_t timeout_ms) {
  now_.committed = true;
  const std::string value =
      Json{{"plan", plan_.id}, {"epoch", attempt.epoch}, {"slots", attempt.slots.text()}}.dump();
  return new_.ask_ok({"SET", marker_key(tag_slot(attempt.slots)), value}, timeout_ms);
}

Result<uint64_t> PikaDriver::marker(int64_t timeout_ms) {
  Result<std::map<int, uint64_t>> all = markers(SlotSet::of(tag_slot(plan_.slots)), timeout_ms);
  if (!all) return all.status();
  return all->begin()->second;
}

Result<std::map<int, uint64_t>> PikaDriver::markers(const SlotSet& slots, int64_t timeout_ms) {
  std::vector<int> tags;
  Requests requests;
  slots.for_each([&](int slot) {
    tags.push_back(plan_.unit == CutUnit::kPlan ? tag_slot(plan_.slots) : slot);
  });
  for (size_t i = 0; i < tags.size(); ++i) {
    if (i == 0 || tags[i] != tags[i - 1]) requests.push_back({"GET", marker_key(tags[i])});
  }
  Result<std::vector<Reply>> replies = new_.ask_all(requests, timeout_ms);
  if (!replies) return replies.status();
  std::vector<uint64_t> epochs;
  for (size_t i = 0; i < replies->size(); ++i) {
    const Reply& reply = (*replies)[i];
    if (reply.type == Reply::Type::kNil) {
      epochs.push_back(0);
      continue;
    }
    const Json value = Json::parse(reply.text, nullptr, false);
    if (!value.is_object() || !value.contains("epoch") || !value["epoch"].is_number_unsigned()) {
      return Status::corrupt(cat("key ", requests[i][1], " on ", new_.address().text(),
                                 " is no marker of ours: look at it and delete it"));
    }
    epochs.push_back(value["epoch"].get<uint64_t>());
  }
  std::map<int, uint64_t> out;
  size_t i = 0;
  slots.for_each([&](int slot) { out[slot] = epochs[epochs.size() == 1 ? 0 : i++]; });
  return out;
}

Status PikaDriver::release(const CutAttempt& attempt, int64_t timeout_ms) {
  if (now_.slots != attempt.slots || now_.fence.empty()) return Status::ok();
  if (!notes_->note(fence_note(attempt.slots))) return Status::ok();
  RespClient& owner = now_.committed ? new_ : old_;
  Result<PikaSide> side = look(owner, attempt.slots, timeout_ms);
  if (!side) return side.status();
  Result<std::vector<Reply>> done = owner.ask_all(fence_requests(side->ends, true), timeout_ms);
  if (!done) return done.status();
  // After the switch the old side keeps its copies until it is cleaned up; the note says which.
  return now_.committed ? Status::ok() : notes_->drop_note(fence_note(attempt.slots));
}

Status PikaDriver::follow_again(const CutAttempt& attempt, const ReplPosition&,
                                int64_t timeout_ms) {
  Result<PikaSide> to = look(new_, attempt.slots, timeout_ms);
  if (!to) return to.status();
  Result<PikaSide> from = look(old_, attempt.slots, timeout_ms);
  if (!from) return from.status();
  if (!to->is_master) {
    if (is_server(to->master, old_, from->run_id, timeout_ms)) return Status::ok();
    return Status::refused(cat(new_.address().text(), " follows ", to->master.text()));
  }
  Result<Binlogs> end = noted_end(attempt.slots);
  if (!end) return end.status();
  Result<std::map<int, uint64_t>> marked = markers(attempt.slots, timeout_ms);
  if (!marked) return marked.status();
  for (const auto& [slot, epoch] : *marked) {
    if (epoch == 0) continue;
    return Status::refused(
        cat(new_.address().text(), " carries the owner marker of epoch ", epoch));
  }
  // Pika does not see a fork: anything else than the noted end means that it was written to.
  if (to->ends != *end) {
    return Status::refused(cat(new_.address().text(), " left replication with ", ends_text(*end),
                               " and is at ", ends_text(to->ends),
                               ": it was written to and must be copied anew"));
  }
  if (!from->is_master || from->id != to->id || !reached(from->ends, *end)) {
    return Status::refused(cat(old_.address().text(), " is not where ", new_.address().text(),
                               " left it: it must be copied anew"));
  }
  return follow(new_, old_.address(), attempt.slots, timeout_ms);
}

SlotReport PikaDriver::report(const PikaSide& from, const PikaSide& to, bool of_new,
                              bool following) const {
  const PikaSide& side = of_new ? to : from;
  SlotReport out;
  out.master = side.is_master;
  out.at = position(side);
  if (side.is_master) return out;
  out.link = side.link == PikaLink::kUp        ? SlotReport::Link::kUp
             : side.link == PikaLink::kCopying ? SlotReport::Link::kCopying
                                               : SlotReport::Link::kDown;
  if (of_new && !following && out.link == SlotReport::Link::kUp) out.link = SlotReport::Link::kDown;
  if (of_new && following) out.lag = std::max<int64_t>(lag_of(from, to), 0);
  return out;
}

}  // namespace sf
