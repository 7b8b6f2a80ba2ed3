# One source with one text changed each (tests/plant.cmake); sim_cutover must find it within 10,000 seeds, half of a run.
function(sf_cutover_mutant name source old new)
  sf_plant(cut_${name} ${source} "${old}" "${new}" made)
  sf_cutover_program(sim_cut_${name} ${made})
  set_target_properties(sim_cut_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/mutants)
  add_test(NAME sim_cut_${name} COMMAND sim_cut_${name} --find 10000)
  set_tests_properties(sim_cut_${name} PROPERTIES TIMEOUT 300)
endfunction()

set(MACHINE proxy_shim/control/cutover_machine.cc)

# ---- in the product

sf_cutover_mutant(writes_not_held ${MACHINE}
  "      return go(Step::kHolding, publish(SlotPhase::kHold));"
  "      return go(Step::kDraining, action(Act::kDrain));")
sf_cutover_mutant(writes_not_drained ${MACHINE}
  "      return go(Step::kDraining, action(Act::kDrain));"
  "      fence_sent_ = true;\n      return go(Step::kFencing, action(Act::kFence));")
sf_cutover_mutant(reads_not_held ${MACHINE}
  "      return go(Step::kReadHolding, publish(SlotPhase::kPromote));"
  "      return go(Step::kReadDraining, action(Act::kDrainReads));")
sf_cutover_mutant(applied_not_asked ${MACHINE}
  "      return go(Step::kApplying, action(Act::kWaitApplied, proof_));"
  "      return go(Step::kPermitting, action(Act::kCheckPermit));")
# The end moves, and the proof with it.
sf_cutover_mutant(proof_follows_the_end ${MACHINE}
  "  if (event.position != proof_) {"
  "  proof_ = event.position;\n  if (event.position != proof_) {")
sf_cutover_mutant(permit_not_asked_again ${MACHINE}
  "      if (!event.yes) return take_back(\"permit: \" + event.text);\n"
  "")
sf_cutover_mutant(opened_before_the_record ${MACHINE}
  "  return go(Step::kCommitting, action(Act::kWriteOwner, proof_));"
  "  phase_ = SlotPhase::kNew;\n  return go(Step::kOpening, publish(SlotPhase::kNew));")
sf_cutover_mutant(taken_back_after_the_record ${MACHINE}
  "step_ >= Step::kRecording && step_ < Step::kCommitting;"
  "step_ >= Step::kRecording && step_ < Step::kOpening;")
sf_cutover_mutant(unknown_record_taken_back ${MACHINE}
  "            \"): make the state folder writable and restart the shim, which reads the record again\";\n"
  "            \"): \";\n  commit_asked_ = false;\n  step_ = Step::kEnding;\n  return take_back(reason_);\n")
sf_cutover_mutant(opened_before_the_marker ${MACHINE}
  "    return go(Step::kMarking, action(Act::kMark));"
  "    phase_ = SlotPhase::kNew;\n    return go(Step::kOpening, publish(SlotPhase::kNew));")
sf_cutover_mutant(marker_not_heeded proxy_shim/control/startup.cc
  "  if (marker != 0) {" "  if (marker == UINT64_MAX) {")
sf_cutover_mutant(new_record_not_believed proxy_shim/control/startup.cc
  "  return record.phase == SlotPhase::kOld\n"
  "  return record.phase != SlotPhase::kFinal\n")

sf_cutover_mutant(begun_twice ${MACHINE}
  "  if (step_ != Step::kIdle || phase_ != SlotPhase::kOld || owes()) return {};\n"
  "")
sf_cutover_mutant(heal_skipped ${MACHINE}
  "  return traits_.heals ? go(Step::kHealing, action(Act::kHeal)) : commit();"
  "  return commit();")
sf_cutover_mutant(permit_never_ends proxy_shim/control/permits.cc
  "    if (until_us_[static_cast<size_t>(slot)] <= now) without.add(slot);"
  "    if (until_us_[static_cast<size_t>(slot)] <= now && now < 0) without.add(slot);")

# ---- in the model of the shell, where the product's has the rule

sf_cutover_mutant(shell_one_fence_key tests/sim/cutover/servers.cc
  "  for (int worker = 0; worker < 2; ++worker) {  // as its fence key tells"
  "  for (int worker = 0; worker < 1; ++worker) {  // as its fence key tells")
sf_cutover_mutant(shell_no_fence_key tests/sim/cutover/servers.cc
  "  if (kind_ == Kind::kNode) return true;\n  for"
  "  if (kind_ == Kind::kNode || end > 0) return true;\n  for")
sf_cutover_mutant(shell_strangers_not_asked tests/sim/cutover/shim.cc
  "groups_.kind() == Kind::kPika && strangers_()"
  "groups_.kind() == Kind::kPika && strangers_() && false")
sf_cutover_mutant(shell_take_back_under_the_same_epoch tests/sim/cutover/shim.cc
  "u.undo = folder_.epoch = reserved_ = std::max(reserved_, folder_.epoch) + 1;"
  "u.undo = u.attempt;")
sf_cutover_mutant(shell_epoch_not_raised_at_start tests/sim/cutover/shim.cc
  "  const uint64_t epoch = ++folder_.epoch;\n"
  "  const uint64_t epoch = folder_.epoch;\n")
sf_cutover_mutant(shell_slow_worker_not_waited_for tests/sim/cutover/shim.cc
  "      if (--*left > 0 || number != u.publication) return;"
  "      if (--*left != kWorkers - 1 || number != u.publication) return;")
sf_cutover_mutant(shell_read_overtakes tests/sim/cutover/worker.cc
  "  return request.writes() || held_[slot] > 0;"
  "  return request.writes();")
sf_cutover_mutant(shell_answers_out_of_order tests/sim/cutover/worker.cc
  "  queue_.push_back(pending);"
  "  queue_.push_front(pending);")
sf_cutover_mutant(shell_write_sent_again tests/sim/cutover/worker.cc
  "    if (write && outcome == Outcome::kUnknown) ++unanswered_[on_new][slot];\n"
  "    if (write && outcome == Outcome::kUnknown && !ended_ && !on_new) return send(pending, on_new);\n")
sf_cutover_mutant(shell_handed_back_early tests/sim/cutover/shim.cc
  "  if (phase(u) != SlotPhase::kNew || u.machine->mark_owed()"
  "  if (phase(u) == SlotPhase::kOld || u.machine->mark_owed()")
sf_cutover_mutant(shell_lease_by_the_wall_clock tests/sim/cutover/servers.cc
  "  return context_.now();\n}\n\nvoid Groups::lose_queue"
  "  return context_.wall_ms() * 1000;\n}\n\nvoid Groups::lose_queue")
sf_cutover_mutant(shell_reload_under_an_attempt tests/sim/cutover/shim.cc
  "  if (busy) return later(1'000, [this] { take_over(); });"
  "  if (busy) context_.say(\"an attempt is under way\");")
sf_cutover_mutant(shell_odd_write_not_noted tests/sim/cutover/worker.cc
  "  if (!on_new && request.odd) note_(request.key);"
  "  if (!on_new && request.odd && request.key % 2 == 0) note_(request.key);")
sf_cutover_mutant(shell_notes_believed_after_a_kill tests/sim/cutover/shim.cc
  "  for (HealList& list : folder_.heal) list = {};  // the process was killed\n"
  "  for (HealList& list : folder_.heal) list.keys.clear();\n")
sf_cutover_mutant(shell_pass_before_the_last_proxy tests/sim/cutover/world.cc
  "      shim_->forget_pass(unit);  // the shim has not seen all that was written\n"
  "")
sf_cutover_mutant(shell_copy_believed_after_a_restart tests/sim/cutover/servers.cc
  "  return kind_ == Kind::kNode || (copy.copied_from == run_[0] && copy.copied_by == run_[1]);"
  "  return kind_ == Kind::kNode || copy.copied_from != 0;")

# ---- the way back (ADR 0020)

sf_cutover_mutant(back_judged_forward proxy_shim/control/startup.cc
  "  if (record.back) return judge_back("
  "  if (record.back && slot < 0) return judge_back(")
sf_cutover_mutant(back_owner_left_closed proxy_shim/control/startup.cc
  "  out.debts.mark = traits.exact_end ? shut : marker == 0;"
  "  out.debts.mark = !traits.exact_end && marker == 0 && !shut;")
# Was so: a proxy mapped wrongly wrote to a promoted old side before the record, and the way back was taken back.
sf_cutover_mutant(back_shell_open_before_the_record tests/sim/cutover/servers.cc
  "  copy.written = false;\n  return end_of(copy);"
  "  copy.written = false;\n  copy.fence = Fence::kNo;\n  return end_of(copy);")
# Was so: what NO ONE had taken out was linked again from the switch, and got twice what it had.
sf_cutover_mutant(back_shell_left_by_hand_forgets_where tests/sim/cutover/servers.cc
  "  leave(copy);\n  copy.stands = true;"
  "  leave(copy);")
# Was so.
sf_cutover_mutant(back_shell_drains_the_old_side tests/sim/cutover/shim.cc
  "      under_way += worker->writes_in_flight(slot, u.back);"
  "      under_way += worker->writes_in_flight(slot, false);")
sf_cutover_mutant(back_shell_reads_at_the_old_side tests/sim/cutover/worker.cc
  "  back_[at(slot)] = back && ("
  "  back_[at(slot)] = back && slot < 0 && (")
sf_cutover_mutant(back_shell_recorded_forward tests/sim/cutover/shim.cc
  "      record.phase = turned(SlotPhase::kNew, u.back);"
  "      record.phase = SlotPhase::kNew;")
sf_cutover_mutant(back_shell_published_forward tests/sim/cutover/shim.cc
  "w->set_phase(slot, turned(phase, u.back), u.back); });"
  "w->set_phase(slot, phase, u.back); });")
sf_cutover_mutant(back_shell_old_side_unfenced_at_start tests/sim/cutover/shim.cc
  "    v.debts.unfence = !groups_.unfence(u.number, folder_.epoch, v.back);"
  "    v.debts.unfence = !groups_.unfence(u.number, folder_.epoch, false);")
sf_cutover_mutant(back_shell_new_side_follows_at_start tests/sim/cutover/shim.cc
  "groups_.follow_again(u.number, folder_.epoch, false, v.back);"
  "groups_.follow_again(u.number, folder_.epoch, false, false);")
sf_cutover_mutant(back_shell_epoch_not_raised tests/sim/cutover/shim.cc
  "  u.attempt = reserved_ = std::max(reserved_, folder_.epoch) + 1;\n  u.undo = 0;"
  "  u.attempt = reserved_ = std::max(reserved_, folder_.epoch) + (back ? 0 : 1);\n  u.undo = 0;")
sf_cutover_mutant(back_shell_handed_back_meanwhile tests/sim/cutover/shim.cc
  "  if (u.back_ordered || (u.back && u.machine->owes())) return false;\n"
  "")
