#include "proxy_shim/control/startup.h"

#include <nlohmann/json.hpp>

#include "proxy_shim/control/direction.h"

namespace sf {
namespace {

using Json = nlohmann::json;

constexpr const char* kNotFenced = "the old side is not fenced";

SlotVerdict doubt(int slot, const std::string& why) {
  SlotVerdict out;
  out.phase = SlotPhase::kDoubt;
  out.text = cat("slot ", slot, ": ", why, "; its requests are refused until that is settled");
  return out;
}

SlotVerdict judge_old(int slot, const SlotRecord& record, const SlotReport& old_side,
                      const SlotReport& new_side, const CutTraits& traits, uint64_t marker) {
  if (marker != 0) {
    return doubt(slot,
                 cat("the record says the old side owns it, the new side carries the owner marker "
                     "of epoch ",
                     marker, ": the record is an older copy"));
  }
  SlotVerdict out;
  const bool fenced = old_side.fence != SlotReport::Fence::kNo;
  out.debts.unfence = fenced || record.attempt != 0;
  // A promoted new side always has a permanently fenced old one: the fence is made first. Kinds
  // without such a fence know by their histories whether the new side ever followed.
  const bool tried = record.attempt != 0 && (fenced || !traits.exact_end);
  out.debts.follow = new_side.master && (tried || new_side.left);
  if (new_side.master && !out.debts.follow) out.text = "the new side does not follow the old one";
  if (!old_side.master) {
    return doubt(slot, "the record says the old side owns it, and there it is a replica");
  }
  return out;
}

SlotVerdict judge_new(int slot, const SlotRecord& record, const SlotReport& old_side,
                      const SlotReport& new_side, const CutTraits& traits, uint64_t marker) {
  if (!new_side.master) {
    return doubt(slot, "the record says the new side owns it, and there it is a replica");
  }
  if (const std::string why = not_the_owner(record, new_side.promoted); !why.empty()) {
    return doubt(slot, why);
  }
  const bool closed = old_side.fence == SlotReport::Fence::kPermanent || !old_side.master;
  if (record.phase == SlotPhase::kNew && !closed && traits.exact_end &&
      old_side.at != record.proof) {
    return doubt(slot,
                 cat("the old side is at ", old_side.at.text(), " and open, it was switched at ",
                     record.proof.text(), ": it may have taken writes since"));
  }
  if (!traits.exact_end && marker == 0 && record.marked) {
    return doubt(slot, "the record says the new side owns it, and its owner marker is gone there");
  }
  SlotVerdict out;
  out.phase = record.phase;
  // Closed when it was left, and not opened yet since it was promoted again.
  const bool shut = new_side.fence == SlotReport::Fence::kPermanent;
  out.debts.mark = traits.exact_end ? shut : marker == 0;
  out.debts.link = record.phase == SlotPhase::kNew && traits.reverse_link && !record.linked;
  out.debts.promoted = record.promoted;
  if (record.phase == SlotPhase::kNew && !closed) out.text = kNotFenced;
  return out;
}

// A slot that was on its way back, or went back: the same with the sides exchanged. Nothing was
// ever promoted on the way there but by its plan, so a side that is open and should not be is no
// accident.
SlotVerdict judge_back(int slot, const SlotRecord& record, const SlotReport& old_side,
                       const SlotReport& new_side, const CutTraits& traits) {
  SlotRecord seen = record;
  seen.phase = turned(record.phase, true);
  SlotVerdict out = seen.phase == SlotPhase::kOld
                        ? judge_old(slot, seen, new_side, old_side, traits, 0)
                        : judge_new(slot, seen, new_side, old_side, traits, 0);
  out.back = true;
  const bool doubtful = out.phase == SlotPhase::kDoubt;
  if (doubtful || !out.text.empty()) {
    out.text = cat(out.text, " (on the way back, where the new side is the one that is left)");
  }
  if (doubtful) return out;
  if (seen.phase == SlotPhase::kOld && old_side.master && !out.debts.follow &&
      old_side.fence != SlotReport::Fence::kPermanent) {
    SlotVerdict open = doubt(slot, "the record says the new side owns it, the old side is open");
    open.back = true;
    return open;
  }
  out.phase = turned(out.phase, true);
  return out;
}

// Groups of slots with the same things to do, so that one call does them all.
SlotSet with(const StartVerdicts& verdicts, bool back, bool (*wanted)(const SlotVerdict&)) {
  SlotSet out;
  for (const auto& [slot, verdict] : verdicts.slots) {
    if (verdict.back == back && wanted(verdict)) out.add(slot);
  }
  return out;
}

bool is_open(const SlotVerdict& verdict) {
  return verdict.text.starts_with(kNotFenced);
}

// Closes old sides found open although the new side owns the slot.
void fence_again(const SlotSet& slots, uint64_t epoch, BackendDriver& driver, int64_t timeout_ms,
                 StartVerdicts* out) {
  slots.for_each([&](int slot) {
    const CutAttempt attempt{SlotSet::of(slot), epoch};
    Result<ReplPosition> end = driver.fence(attempt, timeout_ms, timeout_ms);
    if (end) end = driver.fence_permanent(attempt, timeout_ms);
    SlotVerdict& verdict = out->slots[slot];
    if (end) verdict.text.clear();
    if (!end) verdict.text = cat(kNotFenced, ": ", end.status().text());
  });
}

void take_back(uint64_t epoch, BackendDriver& driver, int64_t timeout_ms, StartVerdicts* out,
               bool back, const Log& log) {
  const SlotSet follow = with(*out, back, [](const SlotVerdict& v) { return v.debts.follow; });
  Status away;  // a server that does not answer is not asked for every slot
  follow.for_each([&](int slot) {
    SlotVerdict& verdict = out->slots[slot];
    const Status status =
        away ? driver.follow_again({SlotSet::of(slot), epoch}, {}, timeout_ms) : away;
    verdict.debts.follow = !status;
    if (status) {
      log.info(cat("slot ", slot, ": the ", back ? "old" : "new", " side follows again"));
    } else if (status.code() == Code::kRefused && driver.traits().exact_end) {
      verdict = doubt(slot, cat("the record says the ", back ? "new" : "old",
                                " side owns it, and the other one was promoted and will not "
                                "follow again: ",
                                status.text()));
    } else {
      if (status.code() != Code::kRefused) away = status;
      verdict.debts.follow = status.code() != Code::kRefused;
      verdict.debts.why = verdict.text =
          cat(back ? "old" : "new", " side following again: ", status.text());
    }
  });
  const SlotSet unfence = with(*out, back, [](const SlotVerdict& v) {
    return v.phase == turned(SlotPhase::kOld, v.back) && v.debts.unfence;
  });
  if (unfence.empty()) return;
  Status status = driver.unfence({unfence, epoch}, timeout_ms);
  if (status) status = driver.release({unfence, epoch}, timeout_ms);
  unfence.for_each([&](int slot) {
    SlotVerdict& verdict = out->slots[slot];
    verdict.debts.unfence = !status;
    if (!status) {
      verdict.debts.why = verdict.text =
          cat("lifting the ", back ? "new" : "old", " side's fence: ", status.text());
    }
  });
}

// Sides that own slots by the record and are closed since they were left before.
void open_again(uint64_t epoch, BackendDriver& driver, int64_t timeout_ms, StartVerdicts* out,
                bool back) {
  const SlotSet shut = with(*out, back, [](const SlotVerdict& v) { return v.debts.mark; });
  if (shut.empty() || !driver.traits().exact_end) return;
  const Status status = driver.mark({shut, epoch}, timeout_ms);
  shut.for_each([&](int slot) {
    SlotVerdict& verdict = out->slots[slot];
    verdict.debts.mark = !status;
    if (status) return;
    verdict.debts.why = verdict.text =
        cat("opening the ", back ? "old" : "new", " side: ", status.text());
  });
}

void settle_direction(uint64_t epoch, BackendDriver& driver, const MovePlan& plan,
                      int64_t timeout_ms, StartVerdicts* out, bool back, const Log& log) {
  take_back(epoch, driver, timeout_ms, out, back, log);
  open_again(epoch, driver, timeout_ms, out, back);
  const SlotSet open = with(*out, back, is_open);
  if (driver.traits().permanent_fence && (plan.stay.empty() || driver.traits().exact_end)) {
    fence_again(open, epoch, driver, timeout_ms, out);
    if (!open.empty()) (void)driver.release({open, epoch}, timeout_ms);
  } else {
    open.for_each([&](int slot) { out->slots[slot].text.clear(); });
  }
}

}  // namespace

std::string not_the_owner(const SlotRecord& record, const std::optional<uint64_t>& promoted) {
  if (!promoted || *promoted == record.epoch) return {};
  const char* side = record.phase == SlotPhase::kOld ? "old" : "new";
  if (*promoted > record.epoch) {
    return cat("the record says the ", side, " side owns it since epoch ", record.epoch,
               ", the server there was promoted in epoch ", *promoted,
               ": the record is an older copy");
  }
  return cat(
      "the record says the ", side, " side owns it since epoch ", record.epoch,
      ", and the server there was not promoted then: it is another one, or has lost its data");
}

SlotVerdict judge_slot(int slot, const SlotRecord& record, const SlotReport& old_side,
                       const SlotReport& new_side, const CutTraits& traits, uint64_t marker) {
  const SlotReport& owner = record.phase == SlotPhase::kOld ? old_side : new_side;
  if (record.epoch != 0 && (record.back || record.phase == SlotPhase::kOld)) {
    const std::string why = not_the_owner(record, owner.promoted);
    if (!why.empty()) return doubt(slot, why);
  }
  if (record.back) return judge_back(slot, record, old_side, new_side, traits);
  return record.phase == SlotPhase::kOld
             ? judge_old(slot, record, old_side, new_side, traits, marker)
             : judge_new(slot, record, old_side, new_side, traits, marker);
}

Result<StartVerdicts> settle_at_start(const MovePlan& plan, StateStore& store,
                                      BackendDriver& driver, int64_t timeout_ms, const Log& log,
                                      BackendDriver* back) {
  const std::map<int, SlotRecord> records = store.records();
  SlotSet live;  // not handed back: epochs still matter
  for (const auto& [slot, record] : records) {
    if (record.phase != SlotPhase::kFinal) live.add(slot);
  }
  Result<uint64_t> epoch = store.next_epoch();
  if (!epoch) return epoch.status();
  Status status = store.audit_synced(
      {{"what", "shim starts"}, {"plan", plan.id}, {"epoch", *epoch}, {"old_or_new", live.text()}});
  if (status && !live.empty()) status = driver.raise_epoch({live, *epoch}, timeout_ms);
  if (status.code() == Code::kRefused) {
    status =
        Status::refused(cat(status.text(), ". If the servers know a higher epoch of plan ", plan.id,
                            ", the state folder is an older copy and must not be used"));
  }
  if (!status) return status;
  Result<Survey> survey = driver.survey(plan.slots, timeout_ms);
  if (!survey) return survey.status();
  Result<std::map<int, uint64_t>> promoted = driver.promoted(plan.slots, timeout_ms);
  if (!promoted) return promoted.status();
  for (const auto& [slot, promote] : *promoted) survey->new_side[slot].promoted = promote;
  if (back != nullptr) {
    promoted = back->promoted(plan.slots, timeout_ms);
    if (!promoted) return promoted.status();
    for (const auto& [slot, promote] : *promoted) survey->old_side[slot].promoted = promote;
  }
  Result<std::map<int, uint64_t>> markers = driver.markers(plan.slots, timeout_ms);
  if (!markers) return markers.status();
  StartVerdicts out;
  out.epoch = *epoch;
  for (auto [slot, record] : records) {
    // Another server than the one that was switched to must show the marker: it is not known to
    // have what that one had, and where the marker was not written yet, the old side has it all.
    const bool another = !record.owner.empty() && record.owner != plan.new_side.master.text();
    if (another && record.phase != SlotPhase::kOld) record.marked = true;
    out.slots[slot] = judge_slot(slot, record, survey->old_side.at(slot), survey->new_side.at(slot),
                                 driver.traits(), markers->at(slot));
  }
  settle_direction(*epoch, driver, plan, timeout_ms, &out, false, log);
  if (back != nullptr) settle_direction(*epoch, *back, plan, timeout_ms, &out, true, log);
  SlotSet doubtful;
  for (const auto& [slot, verdict] : out.slots) {
    if (verdict.phase == SlotPhase::kDoubt) doubtful.add(slot);
  }
  store.audit({{"what", "shim settled"}, {"epoch", *epoch}, {"doubt", doubtful.text()}});
  return out;
}

}  // namespace sf
