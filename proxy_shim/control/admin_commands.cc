#include "proxy_shim/control/admin_commands.h"

#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "common/resp/encoder.h"

namespace sf {
namespace {

constexpr int64_t kDrainMs = 2'000;  // of FREEZE: for writes under way

std::string ok_reply() {
  std::string out;
  resp::status(out, "OK");
  return out;
}

std::string error_reply(const Status& status) {
  std::string out;
  const char* word = status.code() == Code::kRefused ? "REFUSED " : "ERR ";
  resp::error(out, word + status.text());
  return out;
}

}  // namespace

AdminCommands::AdminCommands(const RunPorts& ports, CutoverRunner* runner, const ShimReport* report,
                             PlanReloader* reloader)
    : ports_(ports), runner_(runner), report_(report), reloader_(reloader) {}

const std::vector<AdminCommands::Entry>& AdminCommands::table() {
  static const std::vector<Entry> entries = {
      {"STATUS", "STATUS -- everything in one flat array", 1, 1, false, &AdminCommands::status},
      {"SLOTS", "SLOTS [<slots>] -- state, owner, epoch, pause, held, lag and text of each slot", 1,
       2, false, &AdminCommands::slots},
      {"LOCK", "LOCK <owner> [FORCE] -- take the run lock; answers its epoch", 2, 3, false,
       &AdminCommands::lock},
      {"UNLOCK", "UNLOCK <owner> <epoch> -- give the run lock back", 3, 3, false,
       &AdminCommands::unlock},
      {"PERMIT", "PERMIT <slots> -- every proxy was read back as sending them here; lasts 10 s", 2,
       2, false, &AdminCommands::permit},
      {"CUTOVER",
       "CUTOVER <slots> [MAXPAUSE ms] -- switch them to the new side; answers when decided, or "
       "after "
       "10 s with the state so far",
       2, 4, true, &AdminCommands::cutover},
      {"ROLLBACK",
       "ROLLBACK <slots> [MAXPAUSE ms] -- back to the old side, which follows the new one; answers "
       "as CUTOVER",
       2, 4, true, &AdminCommands::rollback},
      {"ABORT", "ABORT <slots> -- take back what is not committed, drop what is queued", 2, 2, true,
       &AdminCommands::abort},
      {"AUTO", "AUTO ON|OFF <slots> -- switch each unit by itself once its lag is small and steady",
       3, 3, true, &AdminCommands::automatic},
      {"FINAL", "FINAL <slots> -- they are about to be handed back; no cutover any more", 2, 2,
       true, &AdminCommands::final},
      {"RELOAD",
       "RELOAD [LOSE] -- the plan file was changed: other addresses, passwords, more slots, reads, "
       "guard; LOSE: give up what a former master has and its successor has not",
       1, 2, true, &AdminCommands::reload},
      {"FREEZE",
       "FREEZE old|new [OFF] -- its group is about to get another master: no more writes to the "
       "one "
       "it has; answers when none is under way",
       2, 3, true, &AdminCommands::freeze},
      {"READS",
       "READS [owner|new-then-old|compare [percent]] -- where reads go; alone: what is set and "
       "what was compared",
       1, 3, false, &AdminCommands::reads},
      {"GUARD", "GUARD [off|pika-3.5] -- commands known to end the servers behind are refused", 1,
       2, false, &AdminCommands::guard},
      {"HELP", "HELP -- these lines", 1, 1, false, &AdminCommands::help},
  };
  return entries;
}

void AdminCommands::run(const std::vector<std::string>& argv, const std::string& peer,
                        Answer answer) {
  const std::string name = to_upper(argv[0]);
  std::string out;
  if (name == "SHIM") {
    Call call{{argv.begin() + 1, argv.end()}, "", peer, std::move(answer)};
    return shim(call);
  }
  if (name == "PING") {
    resp::status(out, "PONG");
  } else if (name == "HELP") {
    Call call{{"HELP"}, "", peer, std::move(answer)};
    return help(call);
  } else if (name == "CLIENT" || name == "SELECT") {
    resp::status(out, "OK");
  } else if (name == "COMMAND") {
    resp::array(out, 0);
  } else {
    resp::error(out, cat("ERR unknown command '", printable(argv[0]),
                         "': this is the admin port, try SHIM HELP"));
  }
  answer(out);
}

// The words AS <owner> <epoch> at the end bind the command to a run; it must hold the lock.
Status AdminCommands::check_lock(const Words& words, size_t* used) const {
  *used = 0;
  if (words.size() < 4 || !equals_ignore_case(words[words.size() - 3], "AS")) return Status::ok();
  *used = 3;
  const RunLock held = ports_.store->run_lock();
  const auto epoch = parse_uint64(words.back());
  if (epoch && held.owner == words[words.size() - 2] && held.epoch == *epoch) return Status::ok();
  return Status::refused(cat("the run lock is ",
                             held.owner.empty() ? std::string("free") : cat("held by ", held.owner),
                             " (epoch ", held.epoch, "), not held by ", words[words.size() - 2],
                             " (epoch ", words.back(), ")"));
}

void AdminCommands::shim(Call& call) {
  if (call.words.empty()) return help(call);
  size_t used = 0;
  const Status locked = check_lock(call.words, &used);
  if (!locked) return call.answer(error_reply(locked));
  if (used > 0) call.as = call.words[call.words.size() - 2];
  call.words.resize(call.words.size() - used);
  for (const Entry& entry : table()) {
    if (!equals_ignore_case(entry.name, call.words[0])) continue;
    if (call.words.size() < entry.words_min || call.words.size() > entry.words_max) {
      return call.answer(error_reply(Status::invalid(cat("usage: SHIM ", entry.usage))));
    }
    if (entry.changes && reloader_ != nullptr && reloader_->reloading()) {
      return call.answer(
          error_reply(Status::refused("a changed plan is being taken over: say it again then")));
    }
    if (entry.changes) {
      std::string line;
      for (const std::string& word : call.words)
        line += (line.empty() ? "" : " ") + printable(word);
      ports_.store->audit(
          {{"what", "command"}, {"command", line}, {"as", call.as}, {"from", call.peer}});
    }
    return (this->*entry.handler)(call);
  }
  call.answer(error_reply(
      Status::invalid(cat("unknown subcommand '", printable(call.words[0]), "', try SHIM HELP"))));
}

Result<SlotSet> AdminCommands::slots_of(const std::string& text) const {
  Result<SlotSet> slots = SlotSet::parse(text);
  if (!slots) return slots;
  if (to_lower(text) == "all") return ports_.plan->slots;
  if (ports_.plan->slots.contains(*slots)) return slots;
  SlotSet outside = *slots;
  outside.remove(ports_.plan->slots);
  return Status::invalid(cat("slots ", outside.text(), " are not moved by plan ", ports_.plan->id,
                             ", which moves ", ports_.plan->slots.text()));
}

void AdminCommands::status(Call& call) {
  const std::vector<ShimReport::Field> fields = report_->status();
  std::string out;
  resp::array(out, fields.size() * 2);
  for (const ShimReport::Field& field : fields) {
    resp::bulk(out, field.name);
    if (const auto* number = std::get_if<int64_t>(&field.value)) {
      resp::integer(out, *number);
    } else {
      resp::bulk(out, std::get<std::string>(field.value));
    }
  }
  call.answer(out);
}

void AdminCommands::slots(Call& call) {
  SlotSet wanted = ports_.plan->slots;
  if (call.words.size() == 2) {
    Result<SlotSet> parsed = SlotSet::parse(call.words[1]);
    if (!parsed) return call.answer(error_reply(parsed.status()));
    wanted = *parsed;
  }
  std::string out;
  resp::array(out, static_cast<size_t>(wanted.size()));
  wanted.for_each([&](int slot) {
    const ShimReport::Slot said = report_->slot(slot);
    const SlotRow& row = said.row;
    resp::array(out, 8);
    resp::integer(out, slot);
    resp::bulk(out, phase_name(row.phase));
    resp::bulk(out, said.owner);
    resp::integer(out, static_cast<int64_t>(row.epoch));
    resp::integer(out, row.pause_us);
    resp::integer(out, row.held);
    resp::integer(out, row.lag);
    resp::bulk(out, row.text);
  });
  call.answer(out);
}

void AdminCommands::lock(Call& call) {
  const bool force = call.words.size() == 3 && equals_ignore_case(call.words[2], "FORCE");
  if (call.words.size() == 3 && !force) {
    return call.answer(error_reply(Status::invalid("usage: SHIM LOCK <owner> [FORCE]")));
  }
  // What is kept and shown as JSON must be text.
  if (call.words[1].empty() || call.words[1].size() > 128 ||
      printable(call.words[1], 128) != call.words[1]) {
    return call.answer(
        error_reply(Status::invalid("the lock's owner is 1 to 128 printable ASCII bytes")));
  }
  Result<RunLock> taken = ports_.store->take_lock(call.words[1], force);
  if (!taken) return call.answer(error_reply(taken.status()));
  std::string out;
  resp::integer(out, static_cast<int64_t>(taken->epoch));
  call.answer(out);
}

void AdminCommands::unlock(Call& call) {
  const auto epoch = parse_uint64(call.words[2]);
  if (!epoch) return call.answer(error_reply(Status::invalid("the lock's epoch is a number")));
  const Status status = ports_.store->drop_lock(call.words[1], *epoch);
  call.answer(status ? ok_reply() : error_reply(status));
}

void AdminCommands::permit(Call& call) {
  Result<SlotSet> slots = slots_of(call.words[1]);
  if (!slots) return call.answer(error_reply(slots.status()));
  // Renewed every two seconds: only the first of a series is worth a line in the audit log.
  if (ports_.permits->ms_left(*slots) == 0) {
    ports_.store->audit(
        {{"what", "permit"}, {"slots", slots->text()}, {"as", call.as}, {"from", call.peer}});
    if (ports_.heals != nullptr) {
      ports_.heals->expire_pass("for a time no permit said that every write passes the shim");
    }
  }
  ports_.permits->grant(*slots);
  call.answer(ok_reply());
}

void AdminCommands::cutover(Call& call) {
  move(call, false);
}

void AdminCommands::rollback(Call& call) {
  move(call, true);
}

void AdminCommands::move(Call& call, bool back) {
  Result<SlotSet> slots = slots_of(call.words[1]);
  if (!slots) return call.answer(error_reply(slots.status()));
  int64_t max_pause_ms = 0;
  if (call.words.size() > 2) {
    max_pause_ms = call.words.size() == 4 ? parse_int64(call.words[3]).value_or(0) : 0;
    if (!equals_ignore_case(call.words[2], "MAXPAUSE") || max_pause_ms < 1 ||
        max_pause_ms > 60'000) {
      return call.answer(
          error_reply(Status::invalid(cat("usage: SHIM ", back ? "ROLLBACK" : "CUTOVER",
                                          " <slots> [MAXPAUSE ms], 1 to 60000 milliseconds"))));
    }
  }
  const Answer answer = call.answer;
  auto done = [answer](std::vector<UnitResult> results) {
    std::string out;
    resp::array(out, results.size());
    for (const UnitResult& result : results) {
      resp::array(out, 5);
      resp::bulk(out, result.slots.text());
      resp::bulk(out, phase_name(result.phase));
      resp::integer(out, result.pause_us);
      resp::integer(out, result.held);
      resp::bulk(out, result.text);
    }
    answer(out);
  };
  const Status status = back ? runner_->rollback(*slots, max_pause_ms, std::move(done))
                             : runner_->cutover(*slots, max_pause_ms, std::move(done));
  if (!status) call.answer(error_reply(status));
}

void AdminCommands::abort(Call& call) {
  Result<SlotSet> slots = slots_of(call.words[1]);
  if (!slots) return call.answer(error_reply(slots.status()));
  ports_.board->set_auto(*slots, false);
  runner_->abort(*slots);
  call.answer(ok_reply());
}

void AdminCommands::automatic(Call& call) {
  const bool on = equals_ignore_case(call.words[1], "ON");
  if (!on && !equals_ignore_case(call.words[1], "OFF")) {
    return call.answer(error_reply(Status::invalid("usage: SHIM AUTO ON|OFF <slots>")));
  }
  Result<SlotSet> slots = slots_of(call.words[2]);
  if (!slots) return call.answer(error_reply(slots.status()));
  const Status status = runner_->set_auto(*slots, on);
  call.answer(status ? ok_reply() : error_reply(status));
}

void AdminCommands::final(Call& call) {
  Result<SlotSet> slots = slots_of(call.words[1]);
  if (!slots) return call.answer(error_reply(slots.status()));
  // A slot in NEW may be prepared for going back at this moment.
  std::string owed;
  if (runner_->going_back(*slots, &owed)) {
    return call.answer(error_reply(
        Status::refused(cat("some of the slots ", slots->text(),
                            " are going back to the old side, or are not yet taken back from it",
                            owed.empty() ? "" : ", which is tried again; ", owed))));
  }
  if (ports_.board->stopped_for(PairSide::kNew, SlotBoard::Reason::kMarker)) {
    return call.answer(error_reply(Status::refused(
        "the new side does not carry its owner marker yet: it takes no writes, see SHIM STATUS")));
  }
  SlotSet not_new = *slots;
  not_new.remove(ports_.board->in_phase(SlotPhase::kNew));
  not_new.remove(ports_.board->in_phase(SlotPhase::kFinal));
  if (!not_new.empty()) {
    return call.answer(error_reply(Status::refused(
        cat("slots ", not_new.text(), " are not in state NEW: cut them over first"))));
  }
  Status status = ports_.store->set_final(
      *slots, {{"what", "final"}, {"slots", slots->text()}, {"as", call.as}, {"from", call.peer}});
  if (status) status = ports_.board->publish(*slots, SlotPhase::kFinal);
  call.answer(status ? ok_reply() : error_reply(status));
}

void AdminCommands::reload(Call& call) {
  if (reloader_ == nullptr) {
    return call.answer(error_reply(Status::refused("this shim cannot reload its plan")));
  }
  const bool may_lose = call.words.size() == 2;
  if (may_lose && !equals_ignore_case(call.words[1], "LOSE")) {
    return call.answer(error_reply(Status::invalid("usage: SHIM RELOAD [LOSE]")));
  }
  const Answer answer = call.answer;
  const auto done = [answer](const Result<std::string>& changes) {
    if (!changes) return answer(error_reply(changes.status()));
    std::string out;
    resp::bulk(out, *changes);
    answer(out);
  };
  const Status begun = reloader_->reload(call.peer, may_lose, done);
  if (!begun) call.answer(error_reply(begun));
}

Result<DataPlane::Drained> AdminCommands::hold_still(PairSide side, bool still) {
  Status status = ports_.board->stop_writes(side, SlotBoard::Reason::kReplaced, still);
  if (!status) return status;
  if (!still) return DataPlane::Drained{};
  const Side of = side == PairSide::kNew ? Side::kNew : Side::kOld;
  return ports_.plane->drain(ports_.board->owned_by(side), InFlight::kWrites, kDrainMs, of);
}

void AdminCommands::freeze(Call& call) {
  const bool on = call.words.size() == 2;
  const bool is_old = equals_ignore_case(call.words[1], "old");
  const bool known = (is_old || equals_ignore_case(call.words[1], "new")) &&
                     (on || equals_ignore_case(call.words[2], "OFF"));
  if (!known) {
    return call.answer(error_reply(Status::invalid("usage: SHIM FREEZE old|new [OFF]")));
  }
  if (on) runner_->interrupt("the operator froze a side");
  const char* side = is_old ? "old" : "new";
  const Result<DataPlane::Drained> drained =
      hold_still(is_old ? PairSide::kOld : PairSide::kNew, on);
  if (drained && drained->unanswered == 0) return call.answer(ok_reply());
  if (!on) return call.answer(error_reply(drained.status()));
  const std::string stays = cat("the ", side, " side is frozen and stays so until SHIM FREEZE ",
                                side, " OFF, a RELOAD or a restart, but ");
  if (!drained) {
    const Status& why = drained.status();
    return call.answer(error_reply(Status::timeout(
        cat(stays, why.text(), ": say SHIM FREEZE ", side, " again to wait for them"))));
  }
  call.answer(error_reply(Status::refused(
      cat(stays, drained->unanswered,
          " writes to it were never answered, as their connections ended, and may still execute: "
          "replace its master only when that has answered others since"))));
}

void AdminCommands::set_rules(Call& call, const DataRules& rules) {
  ports_.store->audit({{"what", "rules"},
                       {"reads", policy_name(rules.reads)},
                       {"compare_percent", rules.compare_percent},
                       {"guard", guard_name(rules.guard)},
                       {"as", call.as},
                       {"from", call.peer}});
  ports_.plane->set_rules(rules);
  call.answer(ok_reply());
}

void AdminCommands::reads(Call& call) {
  DataRules rules = ports_.plane->rules();
  if (call.words.size() > 1) {
    const auto policy = parse_policy(to_lower(call.words[1]));
    const auto percent = call.words.size() > 2 ? parse_int64(call.words[2])
                                               : std::optional<int64_t>(rules.compare_percent);
    const bool may_have_percent = call.words.size() < 3 || policy == ReadPolicy::kCompare;
    if (!policy || !percent || *percent < 1 || *percent > 100 || !may_have_percent) {
      return call.answer(error_reply(
          Status::invalid("usage: SHIM READS owner|new-then-old|compare [percent, 1 to 100]")));
    }
    rules.reads = *policy;
    rules.compare_percent = static_cast<int>(*percent);
    return set_rules(call, rules);
  }
  SlotDifferences by_slot;
  const ReadCheckCounts counts = ports_.plane->read_checks(&by_slot);
  std::string slots;
  for (const auto& [slot, count] : by_slot) {
    slots += cat(slots.empty() ? "" : " ", slot, ":", count);
  }
  std::string out;
  resp::array(out, 16);
  const auto number = [&out](const char* name, int64_t value) {
    resp::bulk(out, name);
    resp::integer(out, value);
  };
  resp::bulk(out, "reads");
  resp::bulk(out, policy_name(rules.reads));
  number("compare_percent", rules.compare_percent);
  number("compared", counts.compared);
  number("different", counts.different);
  number("late", counts.late);
  number("skipped", counts.skipped);
  number("fallbacks", counts.fallbacks);
  resp::bulk(out, "different_slots");
  resp::bulk(out, slots);
  call.answer(out);
}

void AdminCommands::guard(Call& call) {
  DataRules rules = ports_.plane->rules();
  std::string out;
  if (call.words.size() == 1) {
    resp::bulk(out, guard_name(rules.guard));
    return call.answer(out);
  }
  const auto guard = parse_guard(to_lower(call.words[1]));
  if (!guard) return call.answer(error_reply(Status::invalid("usage: SHIM GUARD off|pika-3.5")));
  rules.guard = *guard;
  set_rules(call, rules);
}

void AdminCommands::help(Call& call) {
  std::string out;
  resp::array(out, table().size() + 1);
  for (const Entry& entry : table()) resp::bulk(out, cat("SHIM ", entry.usage));
  resp::bulk(
      out,
      "CUTOVER, ROLLBACK, ABORT, AUTO, FINAL, RELOAD and FREEZE take AS <owner> <epoch> at the "
      "end: "
      "only the run "
      "lock's owner");
  call.answer(out);
}

}  // namespace sf
