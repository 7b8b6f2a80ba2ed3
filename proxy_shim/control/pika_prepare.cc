// What a Pika driver looks at and does before a pause: who the servers are, whether they follow and
// can be trusted to, what is queued, and what an earlier attempt left.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "common/base/random.h"
#include "common/net/socket.h"
#include "common/slots/slot_hash.h"
#include "common/slots/slot_tag.h"
#include "proxy_shim/control/own_sockets.h"
#include "proxy_shim/control/pika_driver.h"

namespace sf {
namespace {

using Json = nlohmann::json;
using Requests = std::vector<std::vector<std::string>>;

constexpr int64_t kForecastUs = 2'000'000;
constexpr const char* kLoopback = "127.0.0.1";

// Who may be connected to a Pika: this process, the dashboard's host and those of the plan's
// servers. Pika lists a peer on its own host by its interface's address, never by 127.0.0.1.
class PeersOfPika {
 public:
  explicit PeersOfPika(const MovePlan& plan) : hosts_{plan.dashboard.host} {
    for (const PlanSide* side : {&plan.old_side, &plan.new_side}) {
      for (const HostPort& server : side->servers) hosts_.insert(server.host);
      hosts_.insert(side->master.host);
    }
    if (hosts_.contains(kLoopback)) hosts_.insert(here_.begin(), here_.end());
  }

  // Takes one line's address off what is expected; false if it is a stranger's.
  bool take(const std::string& address) {
    const size_t colon = address.rfind(':');
    const std::string host = address.substr(0, colon);
    if (hosts_.contains(host) || ours_.erase(address) > 0) return true;
    return here_.contains(host) && colon != std::string::npos &&
           ours_.erase(kLoopback + address.substr(colon)) > 0;
  }

 private:
  const std::set<std::string> here_ = interface_addresses();
  std::set<std::string> ours_ = own_socket_addresses();
  std::set<std::string> hosts_;
};

}  // namespace

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
  return processes_.same_server(known.address(), run_id, said, [&] {
    const PlanSide& side = &known == &old_ ? plan_.old_side : plan_.new_side;
    RespClient other(said, side.password, name_);
    return ask_server(other, timeout_ms);
  });
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

uint64_t PikaDriver::bytes_of(const PikaSide& side) const {
  uint64_t sum = 0;
  for (const auto& [binlog, at] : side.ends) sum += at.file * file_size_ + at.offset;
  return sum;
}

// Trust and links are of the whole server, or of a slot that was copied by itself.
std::string PikaDriver::unit_name(const SlotSet& slots) const {
  return plan_.unit == CutUnit::kPlan ? "" : slots.text();
}

Result<PikaTrust::Verdict> PikaDriver::judge(const SlotSet& slots, const PikaSide& from,
                                             const PikaSide& to) {
  return trust_.look(unit_name(slots), from.run_id, to.run_id, to.link, to.settled);
}

std::string PikaDriver::distrust(const SlotSet& slots, const PikaSide& from, const PikaSide& to) {
  if (notes_->note(heal_note(slots))) {
    // Pika would follow on from there and not see that its copy has forked.
    if (to.link != PikaLink::kCopying) {
      return cat(new_.address().text(),
                 " was written to by a healing that was taken back: copy it "
                 "anew (",
                 copy_words(slots), ")");
    }
    (void)notes_->drop_note(heal_note(slots));
  }
  const auto verdict = judge(slots, from, to);
  if (!verdict) return verdict.status().text();
  if (*verdict == PikaTrust::Verdict::kCopying) {
    forget_rehearsal();
    return to.link == PikaLink::kUp && to.settled ? copying_text(slots) : "";
  }
  if (*verdict == PikaTrust::Verdict::kTrusted) return "";
  return cat("the old or the new master (", old_.address().text(), ", ", new_.address().text(),
             ") has restarted since their copy was made: Pika loses what it had queued when it is "
             "killed and does not say so. SHIM CUTOVER and AUTO have it copied anew before they "
             "begin; by hand on ",
             new_.address().text(), ": ", copy_words(slots),
             ", which is seen here as 'is copying'");
}

std::string PikaDriver::copying_text(const SlotSet& slots) const {
  const std::string out = cat(new_.address().text(), " is copying");
  const int in_vain = links_.copies_in_vain(unit_name(slots));
  if (in_vain == 0) return out;
  return out + cat(", for the ", in_vain,
                   "th time without following in between: an endless copy, "
                   "as Pika makes it after PURGELOGSTO took the active binlog file away. Restart ",
                   old_.address().text(), ", then copy anew");
}

std::string PikaDriver::stuck_text(const SlotSet& slots) const {
  const int in_vain = links_.ups_in_vain(unit_name(slots));
  if (in_vain == 0) return "";
  std::string out = cat(new_.address().text(), " cannot apply the next record of the binlog: its ",
                        "link came up ", in_vain, " times and its end does not move");
  if (traits().loses_timed) out += "; on Pika 4.0 that is what PSETEX leaves, SETEX does not";
  return out + cat(". Keep such writes away, restart ", new_.address().text(), ", BGSAVE on ",
                   old_.address().text(), ", then copy anew (SLAVEOF force)");
}

std::string PikaDriver::healable_faults() const {
  std::string out;
  for (const PikaFault& fault : faults_) {
    if (is_healable(fault, traits().loses_timed)) out += cat(out.empty() ? "" : "; ", fault.text);
  }
  return out;
}

std::string PikaDriver::not_following(const SlotSet& slots, const PikaSide& from,
                                      const PikaSide& to, int64_t timeout_ms) {
  const std::string& old_name = old_.address().text();
  const std::string new_name = new_.address().text();
  was_copying_ = to.link == PikaLink::kCopying || !to.settled;
  links_.look(unit_name(slots), to.link == PikaLink::kUp && to.settled, was_copying_, to.ends,
              from.ends);
  if (!from.is_master) return cat(old_name, " is a replica");
  if (to.is_master) {
    (void)trust_.left(unit_name(slots));
    return cat(new_name, " follows nobody");
  }
  if (!is_server(to.master, old_, from.run_id, timeout_ms)) {
    return cat(new_name, " follows ", to.master.text(), ", which is not ", old_name);
  }
  std::string why = distrust(slots, from, to);
  if (!why.empty()) return why;
  if (was_copying_) return copying_text(slots);
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
    if (!to && was_copying_ && to.status().code() == Code::kTimeout) {
      out.text +=
          "; it was copying when it was last heard: a Pika that is told SLAVEOF then can be "
          "wedged for ever. Kill it, start it and copy anew";
    }
    return out;
  }
  pair_ = cat(from->run_id, " ", to->run_id);
  out.text = not_following(slots, *from, *to, timeout_ms);
  const std::string stuck = stuck_text(slots);
  if (!stuck.empty()) out.text = stuck;
  out.following = out.text.empty();
  if (!out.following) return out;
  out.lag = lag_of(*from, *to);
  out.applied = bytes_of(*to);
  const bool fresh = forecast_us_ != 0 && clock_->mono_us() - forecast_us_ < kForecastUs;
  out.queue_ms = fresh ? trial_ms_ : 0;
  return out;
}

Status PikaDriver::announce(const CutAttempt& attempt, int64_t timeout_ms) {
  now_ = {};
  now_.slots = attempt.slots;
  Result<PikaSide> to = look(new_, attempt.slots, timeout_ms);
  if (!to) return to.status();
  Result<PikaSide> from = look(old_, attempt.slots, timeout_ms);
  if (!from) return from.status();
  const std::string why = not_following(attempt.slots, *from, *to, timeout_ms);
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

Status PikaDriver::try_faithful(const PikaSide& from, const PikaSide& to, int64_t timeout_ms) {
  const std::string pair = cat(from.run_id, " ", to.run_id);
  if (tried_ != pair) {
    const std::string tag = tag_of_slot(tag_slot(now_.slots), kSlotCount);
    const std::string base =
        cat("{", tag, "}__slotferry:", plan_.id, ":trial:", Random(Random::system_seed()).hex(32));
    const PikaTrial trial{base + ":ttl", base + ":append", base + ":setex"};
    Status status = begin_trial(old_, trial, timeout_ms);
    if (!status) return status;
    // What is missing then is lost; without it nothing tells that from what is late.
    const Result<int64_t> settled = settle(now_.slots, timeout_ms * 1000, timeout_ms);
    Result<std::vector<PikaFault>> found = read_trial(new_, trial, timeout_ms);
    if (!settled) found = settled.status();
    status = end_trial(old_, trial, timeout_ms);
    if (!found) return found.status();
    if (!status) return status;
    faults_ = *found;
    for (PikaFault& fault : faults_of_version(old_server_.major, old_server_.minor)) {
      faults_.push_back(std::move(fault));
    }
    tried_ = pair;
  }
  const std::string why = not_accepted(faults_, plan_.accept, traits().loses_timed);
  return why.empty() ? Status::ok() : Status::refused(why);
}

Status PikaDriver::forecast(int64_t timeout_ms) {
  const int64_t start_us = clock_->mono_us();
  if (forecast_us_ != 0 && start_us - forecast_us_ < kForecastUs) return Status::ok();
  const int64_t most_us = std::min(timeout_ms, plan_.max_pause_ms) * 1000;
  Result<int64_t> took = settle(now_.slots, most_us, timeout_ms);
  if (!took) return took.status();
  trial_ms_ = (*took >= 0 ? *took : most_us) / 1000;
  if (*took >= 0) forecast_us_ = start_us;
  if (*took >= 0) return Status::ok();
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

Status PikaDriver::check_writers(int64_t timeout_ms) {
  Result<Reply> list = old_.ask({"CLIENT", "LIST"}, timeout_ms);
  if (!list) return list.status();
  PeersOfPika peers(plan_);
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
    if (peers.take(std::string(address))) continue;
    if (++count <= 3) strangers += cat(strangers.empty() ? "" : ", ", address);
  }
  if (count == 0) return Status::ok();
  return Status::refused(cat("the old master ", old_.address().text(), " has ", count,
                             " foreign connections: ", strangers,
                             "; it must be reached through the shim only"));
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
  if (of_new && following) {
    out.lag = std::max<int64_t>(lag_of(from, to), 0);
    out.applied = bytes_of(to);
  }
  return out;
}

}  // namespace sf
