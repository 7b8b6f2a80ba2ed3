#include "migrator/proxy_readback.h"
#include "migrator/steps.h"

namespace sf {

Result<std::string> abort_move(MoveContext& context) {
  const MovePlan& plan = context.plan;
  const std::string step = "abort";
  Status status = context.effect(step, cat("SHIM ABORT ", plan.slots.text()),
                                 [&] { return context.shim.abort(plan.slots, context.lock); });
  if (!status) return status;
  const auto rows = context.shim.slots(plan.slots);
  if (!rows) return rows.status();
  SlotSet switched;
  for (const auto& [slot, row] : *rows) {
    if (row.state != "old") switched.add(slot);
  }
  if (!switched.empty()) {
    return Status::refused(cat("what was under way is called off, but slots ", switched.text(),
                               " are switched already and live on ", plan.new_side.master.text(),
                               "; finish with slotferry run, or roll them back at the shim"));
  }
  const SlotSet attached = plan.attached_slots();
  status = assign_slots(context, step, attached, {plan.shim_group}, plan.source_group);
  if (!status) return status;
  std::map<int, int> groups;
  attached.for_each([&](int slot) { groups[slot] = plan.source_group; });
  const auto back =
      read_back_until(context, step, expect_slots(attached, plan.old_side.master.text()), groups);
  if (!back) return back.status();
  status = show_to_sentinels(context, step);
  if (status) status = context.journal.begin_anew("aborted");
  if (!status) return status;
  return cat("slots ", attached.text(), " are served by group ", plan.source_group,
             " as before; the new side keeps its copy and follows on, end that by hand if no "
             "further try is meant");
}

}  // namespace sf
