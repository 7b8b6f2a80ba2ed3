# Each clause taken out (README.md): `test` must fail with `source` changed so. tests/plant.cmake makes the source.
function(sf_cut_mutant name source test old new)
  sf_plant(${name} proxy_shim/control/${source} "${old}" "${new}" made)
  set(program cutover_mutant_${name})
  set(objects cutover_mutant_${test})
  if(NOT TARGET ${objects})
    add_library(${objects} OBJECT ${CMAKE_SOURCE_DIR}/tests/unit/proxy_shim/control/${test}.cc)
    target_compile_definitions(${objects} PRIVATE SF_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  endif()
  add_executable(${program} ${made} $<TARGET_OBJECTS:${objects}>)
  target_link_libraries(${program} PRIVATE sf_doctest_main sf_test_support sf_shim)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/mutants)
  add_test(NAME ${program} COMMAND ${program})
  set_tests_properties(${program} PROPERTIES TIMEOUT 120
    PASS_REGULAR_EXPRESSION "doctest. Status: FAILURE")
endfunction()

function(sf_machine_mutant name old new)
  sf_cut_mutant(${name} cutover_machine.cc cutover_machine_test "${old}" "${new}")
endfunction()

# ---- I2 (a)
sf_machine_mutant(writes_not_held
  "      return go(Step::kHolding, publish(SlotPhase::kHold));"
  "      return go(Step::kDraining, action(Act::kDrain));")
sf_machine_mutant(workers_not_waited_for
  "    case Step::kHolding:\n      return go(Step::kDraining, action(Act::kDrain));"
  "    case Step::kHolding:\n      fence_sent_ = true;\n      return go(Step::kFencing, action(Act::kFence));")
sf_machine_mutant(reads_not_held
  "      return go(Step::kReadHolding, publish(SlotPhase::kPromote));"
  "      return go(Step::kReadDraining, action(Act::kDrainReads));")

# ---- I2 (b)
sf_machine_mutant(drain_error_taken
  "  if (!event.status) return take_back(\"(b) \" + event.status.text());\n"
  "")
sf_machine_mutant(unanswered_forgotten
  "event.unanswered > 0 && !traits_.end_fenced"
  "event.unanswered > 99 && !traits_.end_fenced")
sf_machine_mutant(reads_not_drained
  "      return go(Step::kReadDraining, action(Act::kDrainReads));"
  "      return go(Step::kSealing, action(Act::kFencePermanent));")

# ---- I2 (c)
sf_machine_mutant(unknown_end_taken
  "      if (event.position.history.empty()) return take_back(\"(c) the old side did not say its end\");\n"
  "")
sf_machine_mutant(end_not_compared_under_fence
  "  if (event.position != proof_) {"
  "  if (event.position.history != proof_.history) {")
sf_machine_mutant(end_history_not_compared
  "  if (event.position != proof_) {"
  "  if (event.position.seq != proof_.seq) {")
sf_machine_mutant(fence_refused_taken
  "  if (!event.status) return take_back(\"(c) \" + event.status.text());\n"
  "")

# ---- I2 (d)
sf_machine_mutant(not_applied_taken
  "      if (!event.yes) {\n        return take_back(\"(d)"
  "      if (!event.yes && proof_.seq == 0) {\n        return take_back(\"(d)")

# ---- I2 (e)
sf_machine_mutant(old_end_not_compared
  "  if (event.old_end != proof_) {\n    return take_back(\"(e) the old side's end is"
  "  if (event.old_end.history != proof_.history) {\n    return take_back(\"(e) the old side's end is")
sf_machine_mutant(new_end_not_compared
  "  if (event.new_end != proof_) {"
  "  if (event.new_end.history != proof_.history) {")
sf_machine_mutant(unread_ends_taken
  "  if (!event.status) return take_back(\"(e) \" + event.status.text());\n"
  "")

# ---- I2b
sf_machine_mutant(not_healed
  "  return traits_.heals ? go(Step::kHealing, action(Act::kHeal)) : commit();"
  "  return commit();")
sf_machine_mutant(failed_heal_taken
  "  if (!event.status) return take_back(\"(I2b) \" + event.status.text());\n"
  "")
sf_machine_mutant(end_not_read_after_healing
  "  if (event.old_end != proof_) {\n    return take_back(\"(e) the old side's end moved to"
  "  if (event.old_end.history != proof_.history) {\n    return take_back(\"(e) the old side's end moved to")

# ---- permit
sf_machine_mutant(permit_not_asked_again
  "      if (!event.yes) return take_back(\"permit: \" + event.text);\n"
  "")

# ---- I3
sf_machine_mutant(no_intent
  "  return go(Step::kRecording, action(Act::kRecordIntent));"
  "  announced_ = true;\n  return go(Step::kAnnouncing, action(Act::kAnnounce));")
sf_machine_mutant(taken_back_after_the_record
  "step_ >= Step::kRecording && step_ < Step::kCommitting;"
  "step_ >= Step::kRecording && step_ < Step::kOpening;")
sf_machine_mutant(interrupt_not_heeded
  "step_ >= Step::kRecording && step_ < Step::kCommitting;"
  "step_ >= Step::kRecording && step_ < Step::kReadHolding;")
sf_machine_mutant(unknown_record_taken_back
  "  phase_ = SlotPhase::kDoubt;\n"
  "  phase_ = SlotPhase::kOld;\n")
sf_machine_mutant(unknown_record_still_served
  "  return {publish(SlotPhase::kDoubt), std::move(report)};"
  "  return {std::move(report)};")
sf_machine_mutant(fence_lifted_first
  "  if (promote_sent_ && step_ < Step::kCommitting) {\n"
  "  if (fence_sent_ && step_ < Step::kUnfencing) return go(Step::kUnfencing, action(Act::kUnfence));\n  if (promote_sent_ && step_ < Step::kCommitting) {\n")
sf_machine_mutant(promote_without_a_trace
  "  promote_sent_ = true;\n"
  "")
sf_machine_mutant(fence_without_a_trace
  "  phase_ = SlotPhase::kBarrier;\n  fence_sent_ = true;\n"
  "  phase_ = SlotPhase::kBarrier;\n")
sf_machine_mutant(failed_take_back_forgotten
  "    if (event.status) promote_sent_ = false;\n    if (!event.status) debt_ = \"new side"
  "    promote_sent_ = false;\n    if (!event.status) debt_ = \"new side")
sf_machine_mutant(failed_unfence_forgotten
  "    if (event.status) fence_sent_ = false;\n    if (!event.status) debt_ = \"lifting"
  "    fence_sent_ = false;\n    if (!event.status) debt_ = \"lifting")
sf_machine_mutant(attempt_on_a_debt
  "phase_ != SlotPhase::kOld || owes()) return {};"
  "phase_ != SlotPhase::kOld) return {};")
sf_machine_mutant(attempt_in_new
  "phase_ != SlotPhase::kOld || owes()) return {};"
  "owes()) return {};")
sf_machine_mutant(settings_not_restored
  "  if (announced_ && step_ < Step::kTidying)"
  "  if (announced_ && held_ && step_ < Step::kHolding)")

# ---- answers of earlier attempts
sf_machine_mutant(late_answer_taken
  "  if (event.epoch != epoch_) return {};\n"
  "")
sf_machine_mutant(epoch_used_again
  "  if (event.epoch <= epoch_) return {};\n"
  "")

# ---- 6.6 marker, the way back
sf_machine_mutant(opened_before_the_marker
  "    return go(Step::kMarking, action(Act::kMark));"
  "    phase_ = SlotPhase::kNew;\n    return go(Step::kOpening, publish(SlotPhase::kNew));")
sf_machine_mutant(missing_marker_forgotten
  "      mark_owed_ = !event.status;\n"
  "      mark_owed_ = false;\n")
sf_machine_mutant(linked_from_the_old_history
  "      return go(Step::kLinking, action(Act::kLinkReverse, promoted_));"
  "      return go(Step::kLinking, action(Act::kLinkReverse, proof_));")
sf_machine_mutant(failed_link_forgotten
  "      link_owed_ = !event.status;\n"
  "      link_owed_ = false;\n")

# ---- permits
function(sf_permit_mutant name old new)
  sf_cut_mutant(${name} permits.cc permits_test "${old}" "${new}")
endfunction()
sf_permit_mutant(permit_for_ever "<= now) without.add(slot);" "<= now - 1'000) without.add(slot);")
sf_permit_mutant(permit_of_one_is_of_all "  if (without.empty()) return true;" "  if (!(without == slots)) return true;")

# ---- start (6.6)
function(sf_start_mutant name old new)
  sf_cut_mutant(${name} startup.cc startup_test "${old}" "${new}")
endfunction()
sf_start_mutant(epoch_not_raised_at_start
  "  if (status && !live.empty()) status = driver.raise_epoch"
  "  if (status && live.empty()) status = driver.raise_epoch")
sf_start_mutant(marker_not_heeded "  if (marker != 0) {" "  if (marker == UINT64_MAX) {")
sf_start_mutant(fence_left_at_start
  "  out.debts.unfence = fenced || record.attempt != 0;"
  "  out.debts.unfence = false;")

# ---- 6.6 by the servers and the dashboard
sf_cut_mutant(stranger_taken redis_driver.cc redis_driver_test
  "  if (count == 0) return Status::ok();"
  "  if (count < 99) return Status::ok();")
sf_cut_mutant(ended_pause_taken redis_driver.cc redis_driver_test
  "  if (clock_->mono_us() >= paused_until_us_) {"
  "  if (clock_->mono_us() < 0) {")
sf_cut_mutant(first_server_not_heeded group_watch.cc group_watch_test
  "SlotBoard::Reason::kGroup, !other.empty());"
  "SlotBoard::Reason::kGroup, false);")
sf_cut_mutant(held_slot_has_no_owner backend_monitor.cc backend_monitor_test
  "phase != SlotPhase::kDoubt) out.emplace"
  "phase == SlotPhase::kNew) out.emplace")
sf_cut_mutant(switch_meanwhile_taken_for_a_loss backend_monitor.cc backend_monitor_test
  "    if (text.empty() || !as_it_was(slot)) continue;"
  "    if (text.empty()) continue;")
sf_cut_mutant(doubt_published_over slot_board.cc backend_monitor_test
  "row.phase == SlotPhase::kDoubt ||"
  "row.slot > 1024 ||")
sf_cut_mutant(final_published_over slot_board.cc slot_board_test
  "(row.phase == SlotPhase::kFinal && phase == SlotPhase::kNew);"
  "(row.phase == SlotPhase::kFinal && phase == SlotPhase::kHold);")
sf_cut_mutant(marker_of_one_is_of_all slot_board.cc slot_board_test
  "    any = !unmarked.empty();"
  "    any = owed;")
sf_cut_mutant(final_before_the_marker admin_commands.cc cutover_runner_test
  "  if (ports_.board->stopped_for(PairSide::kNew, SlotBoard::Reason::kMarker)) {"
  "  if (slots->empty()) {")

# ---- I9
sf_cut_mutant(bound_not_kept unit_run.cc cutover_runner_test
  "ports_.clock->mono_us() >= deadline_us_) {"
  "ports_.clock->mono_us() >= deadline_us_ + 6'000'000) {")

# ---- 6.2 automatic mode
sf_cut_mutant(auto_without_patience cutover_queue.cc cutover_runner_test
  "    if (ready_us > now_us) {"
  "    if (ready_us < 0) {")
sf_cut_mutant(auto_off_keeps_the_queue cutover_runner.cc cutover_runner_test
  "        return job.requests.empty() && job.slots.intersects(slots);"
  "        return job.slots.empty() && job.slots.intersects(slots);")

# ---- 6.2 forecast
sf_cut_mutant(forecast_rate_ignored lag_trend.cc lag_trend_test
  "  if (apply_ms * kApplyShareOfBound + queue_ms > bound_ms) {"
  "  if (queue_ms > bound_ms) {")
sf_cut_mutant(stuck_lag_taken lag_trend.cc lag_trend_test
  "  if (forecast.stuck_ms > 0) {"
  "  if (forecast.stuck_ms > 1'000'000) {")
sf_cut_mutant(growing_lag_taken_as_it_is lag_trend.cc lag_trend_test
  "static_cast<double>(out.lag + more) / rate"
  "static_cast<double>(out.lag + 0 * more) / rate")

# ---- 6.2 turns to hold
sf_cut_mutant(holds_overlap hold_turns.cc hold_turns_test
  "  return closed_ || begun_ >= pacing_.at_once ? kNotYet : 0;"
  "  return 0;")
sf_cut_mutant(pacing_forgotten hold_turns.cc hold_turns_test
  "  if (holding_ == 0) return std::max<int64_t>(until_us - now_us, 0);"
  "  if (holding_ == 0) return now_us < 0 ? until_us : 0;")
sf_cut_mutant(taken_back_hold_not_paced hold_turns.cc hold_turns_test
  "  taken_back_us_ = now_us;"
  "  taken_back_us_ = now_us - 86'400'000'000;")
sf_cut_mutant(rest_without_end hold_turns.cc hold_turns_test
  "std::min(gap_us, pacing_.rest_us_max)"
  "std::max(gap_us, pacing_.gap_us_max)")
sf_cut_mutant(prepared_in_the_rest cutover_queue.cc cutover_runner_test
  "  return std::max(not_before_us, turns_.rests_until_us(asked_us));"
  "  return asked_us < -1 ? turns_.rests_until_us(asked_us) : not_before_us;")
sf_cut_mutant(idle_time_taken_for_a_gap hold_turns.cc hold_turns_test
  "batch_end_us_ >= 0 && ready_us <= batch_end_us_;"
  "batch_end_us_ >= 0 && ready_us <= now_us;")

# ---- 6.2 roll back
sf_cut_mutant(rollback_recorded_forward unit_run.cc cutover_runner_test
  "  record.phase = turned(SlotPhase::kNew, back_);"
  "  record.phase = SlotPhase::kNew;")
sf_cut_mutant(rollback_intent_without_direction unit_run.cc cutover_runner_test
  "record_intent(slots_, attempt_.epoch, entry, back_);"
  "record_intent(slots_, attempt_.epoch, entry);")
sf_start_mutant(rollback_judged_forward
  "  if (record.back) return judge_back("
  "  if (record.back && slot < 0) return judge_back(")
sf_start_mutant(closed_owner_not_opened
  "  if (shut.empty() || !driver.traits().exact_end) return;"
  "  if (shut.empty() || driver.traits().exact_end) return;")
sf_cut_mutant(handed_back_on_a_debt cutover_runner.cc cutover_runner_test
  "    if (!slots.contains(slot)) continue;\n    *owed"
  "    if (slot >= 0) continue;\n    *owed")
sf_start_mutant(rolled_back_stranger_taken
  "  if (record.epoch != 0 && (record.back"
  "  if (record.epoch == 0 && (record.back")
sf_cut_mutant(read_at_the_old_side_on_the_way_back ../data/routes.cc slot_board_test
  "    if (back && (flags"
  "    if (back && slot > 1024 && (flags")
sf_cut_mutant(rollback_drains_the_old_side unit_run.cc cutover_runner_test
  "std::min(left_ms(), kSliceMs), left_side());"
  "std::min(left_ms(), kSliceMs), Side::kOld);")
