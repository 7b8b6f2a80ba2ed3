// What each step of a move does. Every step reads the real state first and does only what is
// missing, so it may be run again at any time, after a crash too (I10). The text it returns says
// what was found or done.
//
// Errors: kUnavailable and kTimeout mean "not now" (the run tries again), everything else "not like
// this".
#pragma once

#include <string>

#include "migrator/move_context.h"
#include "migrator/runbook.h"

namespace sf {

Result<std::string> run_step(MoveContext& context, Step step);

// replicate (steps_replicate.cc)
Result<std::string> follow(MoveContext& context);
// The other servers of the new group follow its master; journalled as `step`'s.
Result<std::string> attach_replicas(MoveContext& context, Step step);
// Gives the new master of a Redis group its announced address back, if kFollow took it.
Status show_to_sentinels(MoveContext& context, std::string_view step);
Result<std::string> follow_replicas(MoveContext& context);
Result<std::string> wait_copied(MoveContext& context);
// The slots of `slots` for which the new master has everything but a small lag. Used before a cut
// over too.
Result<SlotSet> settled_slots(MoveContext& context, const SlotSet& slots);

// attach (steps_attach.cc)
Result<std::string> make_shim_group(MoveContext& context);
Result<std::string> assign_to_shim(MoveContext& context);
Result<std::string> read_back_shim(MoveContext& context);
// Maps those of `slots` that are in one of the `from` groups to group `to`; refuses if one is
// elsewhere or has a migration in the dashboard.
Status assign_slots(MoveContext& context, std::string_view step, const SlotSet& slots,
                    const std::set<int>& from, int to);
// Until every registered proxy maps as `expected`; what a proxy missed is assigned again.
Result<std::string> read_back_until(MoveContext& context, std::string_view step,
                                    const std::map<int, std::string>& expected,
                                    const std::map<int, int>& groups);

// cut over (steps_cutover.cc)
Result<std::string> cut_over(MoveContext& context);
Result<std::string> cut_over_slots(MoveContext& context, const SlotSet& slots);

// verify (steps_verify.cc)
Result<std::string> verify_sides(MoveContext& context);

// hand back, soak (steps_handback.cc)
Result<std::string> gate_new_group(MoveContext& context);
Result<std::string> make_final(MoveContext& context);
Result<std::string> hand_back(MoveContext& context);
Result<std::string> read_back_target(MoveContext& context);
Result<std::string> soak(MoveContext& context);

// clean up, detach (steps_cleanup.cc)
Result<std::string> end_reverse(MoveContext& context);
Result<std::string> delete_copies(MoveContext& context);
Result<std::string> remove_shim(MoveContext& context);

// abort: everything of a move in which no slot has been switched is taken back (steps_abort.cc).
Result<std::string> abort_move(MoveContext& context);

}  // namespace sf
