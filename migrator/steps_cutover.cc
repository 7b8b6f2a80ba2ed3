
#include "migrator/permit_loop.h"
#include "migrator/steps.h"

namespace sf {
namespace {

constexpr int kBatch = 16;  // slots a SHIM CUTOVER: small enough for a moving bar
constexpr int kRoundsWithout =
    20;  // rounds without one more slot switched, then the reason is told
constexpr int kFirstPermitMs = 75'000;  // a dashboard may take 60 s over one slow proxy
constexpr int kSettlePollMs = 200;
constexpr int kBetweenTriesMs = 500;
constexpr int kAnswerMs = 20'000;  // the shim answers within 10 s, decided or not

struct Tally {
  SlotSet switched;  // new or final
  SlotSet open;      // not switched
  SlotSet ready;     // of those: not in an attempt just now
  std::string first_text;
};

Result<Tally> tally_slots(MoveContext& context, const SlotSet& slots) {
  const auto rows = context.shim.slots(slots);
  if (!rows) return rows.status();
  Tally tally;
  for (const auto& [slot, row] : *rows) {
    if (row.state == "doubt") {
      return Status::refused(cat("slot ", slot, " is in doubt (", row.text,
                                 "): old and new side disagree about its owner, see SHIM SLOTS ",
                                 slot));
    }
    if (row.state == "stay") {
      return Status::refused(
          cat("the shim holds slot ", slot, " as one that stays; its plan is another one"));
    }
    if (row.state == "new" || row.state == "final") {
      tally.switched.add(slot);
    } else {
      tally.open.add(slot);
      if (row.state == "old") tally.ready.add(slot);
      if (tally.first_text.empty() && !row.text.empty())
        tally.first_text = cat("slot ", slot, ": ", row.text);
    }
  }
  return tally;
}

SlotSet first_of(const SlotSet& slots, int count) {
  SlotSet batch;
  for (const int slot : slots.to_vector()) {
    if (batch.size() < count) batch.add(slot);
  }
  return batch;
}

// What one SHIM CUTOVER came to, as text for the journal; the units that were not switched in
// `*why`.
Status switch_batch(MoveContext& context, const SlotSet& batch, std::string* why) {
  return context.effect(
      step_text(Step::kCutOver), cat("SHIM CUTOVER ", batch.text()), [&]() -> Status {
        const auto results =
            context.shim.cutover(batch, context.plan.max_pause_ms, context.lock, kAnswerMs);
        if (!results) return results.status();
        for (const ShimUnit& unit : *results) {
          if (unit.state == "new" || unit.state == "final") continue;
          // Undecided ones go on in the shim: asking again waits for them.
          *why = cat("slots ", unit.slots.text(), " are ", unit.state, ": ", unit.text);
        }
        return why->empty() ? Status::ok() : Status::unavailable(*why);
      });
}

// Waits until the new master is close behind for the batch; gives up after max 30 s with a
// sentence.
Status wait_settled(MoveContext& context, const SlotSet& batch) {
  constexpr int kPolls = 150;
  for (int poll = 0; poll < kPolls; ++poll) {
    const auto settled = settled_slots(context, batch);
    if (!settled) return settled.status();
    if (*settled == batch) return Status::ok();
    const Status waited = context.wait_ms(kSettlePollMs);
    if (!waited) return waited;
  }
  return Status::unavailable(cat("the new side does not catch up for slots ", batch.text(),
                                 "; slow the writers down or look at its link"));
}

// One round: a batch is switched, or an attempt somebody else began is waited for.
Status cut_round(MoveContext& context, PermitLoop& permits, const Tally& tally, std::string* why) {
  const Status permit = permits.state(kFirstPermitMs);
  if (!permit) return permit;
  why->clear();
  if (tally.ready.empty()) {
    *why = cat("waiting for the attempt on slots ", tally.open.text(), " to be decided");
    return Status::ok();
  }
  const bool whole = context.plan.unit == CutUnit::kPlan;
  const SlotSet batch = whole ? tally.ready : first_of(tally.ready, kBatch);
  const Status settled = wait_settled(context, batch);
  if (settled.code() == Code::kRefused) {
    // An attempt of a run killed before may have switched some of them since they were counted.
    const auto now = tally_slots(context, batch);
    if (!now) return now.status();
    if (!(now->ready == batch)) return Status::ok();
  }
  if (!settled) return settled;
  const Status cut = switch_batch(context, batch, why);
  if (!cut && why->empty()) *why = cut.text();
  return Status::ok();
}

}  // namespace

Result<std::string> cut_over(MoveContext& context) {
  return cut_over_slots(context, context.plan.slots);
}

Result<std::string> cut_over_slots(MoveContext& context, const SlotSet& slots) {
  auto tally = tally_slots(context, slots);
  if (!tally) return tally.status();
  const std::string all = cat("all ", slots.size(), " slots are switched");
  if (tally->open.empty()) return all;
  PermitLoop permits(context.plan, context.lock);
  int without = 0;
  std::string why;
  while (!tally->open.empty()) {
    context.out.progress({"switched", tally->switched.size(), slots.size(), "slots", why});
    const int before = tally->open.size();
    const Status round = cut_round(context, permits, *tally, &why);
    if (!round) return round;
    tally = tally_slots(context, slots);
    if (!tally) return tally.status();
    without = tally->open.size() < before ? 0 : without + 1;
    if (without >= kRoundsWithout) {
      return Status::refused(cat("no slot could be switched in ", without, " tries, ",
                                 tally->open.size(),
                                 " are left and stay on the old side; the last reason: ", why));
    }
    const Status waited = context.wait_ms(without == 0 ? 0 : kBetweenTriesMs);
    if (!waited) return waited;
  }
  context.out.progress({"switched", tally->switched.size(), slots.size(), "slots", {}});
  return all;
}

}  // namespace sf
