#include "proxy_shim/control/pika_driver.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/slots/slot_hash.h"
#include "common/slots/slot_tag.h"

namespace sf {
namespace {

using Json = nlohmann::json;
using Requests = std::vector<std::vector<std::string>>;

// Pika says nothing when a key becomes readable; asking again is all there is.
constexpr std::chrono::microseconds kPollGap{500};
constexpr std::string_view kNoSlot = "Partition not found";

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

// The process of the old master in a noted end; "" if none is noted.
std::string leader_of(const std::optional<std::string>& note) {
  const Json json = note ? Json::parse(*note, nullptr, false) : Json();
  return json.is_object() ? json.value("leader", std::string()) : std::string();
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
      name_(name),
      processes_(notes, clock),
      trust_(notes) {
  old_.wait_for_late_answers();
  new_.wait_for_late_answers();
}

ReplPosition PikaDriver::position(const PikaSide& side) const {
  ReplPosition out;
  out.history = side.id.value_or("pika");
  for (const auto& [binlog, at] : side.ends) out.seq += at.packed();
  return out;
}

std::string PikaDriver::fence_note(const SlotSet& slots) const {
  return cat("pika.fence.", slots.text());
}

std::string PikaDriver::end_note(const SlotSet& slots) const {
  return cat("pika.end.", slots.text());
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

bool PikaDriver::all_values(const Reply& reply, const PikaFence& fence) {
  if (reply.elements.size() != fence.keys.size()) return false;
  return std::all_of(reply.elements.begin(), reply.elements.end(), [&](const Reply& value) {
    return value.type == Reply::Type::kBulk && value.text == fence.value;
  });
}

Result<bool> PikaDriver::all_readable(const Binlogs& binlogs, int64_t timeout_ms) {
  Requests requests;
  for (const auto& [binlog, at] : binlogs) {
    if (binlogs.size() > 1) {
      requests.push_back({"SELECT", std::to_string(database_of(binlog))});
    }
    requests.push_back(now_.fence.get_command());
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
                     {"leader", now_.old_run_id},
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
  if (notes_->note(heal_note(attempt.slots))) (void)notes_->drop_note(heal_note(attempt.slots));
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
  Result<std::vector<Reply>> replies = new_.call_all(requests, timeout_ms);
  if (!replies) return replies.status();
  std::vector<uint64_t> epochs;
  for (size_t i = 0; i < replies->size(); ++i) {
    const Reply& reply = (*replies)[i];
    // A slot that is not there (sharding mode) carries no marker, and survey() knows no master of
    // it.
    const bool absent = reply.is_error() && reply.text.find(kNoSlot) != std::string::npos;
    if (reply.is_error() && !absent) {
      return Status::refused(cat(new_.address().text(), " answers GET with ", reply.text));
    }
    if (absent || reply.type == Reply::Type::kNil) {
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
  const SlotSet& unit = plan_.unit == CutUnit::kPlan ? plan_.slots : attempt.slots;
  const std::string leader = leader_of(notes_->note(end_note(unit)));
  if (!leader.empty() && leader != from->run_id) {
    return Status::refused(cat(old_.address().text(), " is another process than the one that ",
                               new_.address().text(),
                               " left, and may lack what that one had: it must be copied anew"));
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

}  // namespace sf
