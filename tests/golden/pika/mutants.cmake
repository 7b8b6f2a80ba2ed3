# What the Pika drivers prove, taken out piece by piece: the test named must fail (golden/cutover/mutants.cmake).

# (c) the end
sf_cut_mutant(pika_foreign_write_not_counted pika_driver.cc pika_driver_test
  "if (end != after->ends.end() && end->second == ours) continue;"
  "if (end != after->ends.end() && end->second >= ours) continue;")
sf_cut_mutant(pika_stay_not_held unit_run.cc pika_stay_test
  "held_too_(ports.driver->traits().holds_stay ? ports.plan->stay : SlotSet{})"
  "held_too_()")

# (d) applied
sf_cut_mutant(pika_offsets_are_proof pika_driver.cc pika_driver_test
  "if (!readable || *readable) return readable;"
  "if (!readable) return readable;\n      return true;")
sf_cut_mutant(pika_one_fence_key_a_worker pika_fence.cc pika_fence_test
  "constexpr size_t kEachWorker = 3;"
  "constexpr size_t kEachWorker = 1;")
sf_cut_mutant(pika_restart_trusted pika_trust.cc pika_driver_test
  "  } else if (noted) {\n    return Verdict::kRestarted;"
  "  } else if (noted) {\n    return Verdict::kTrusted;")
sf_cut_mutant(pika_copy_begun_is_proof pika_trust.cc pika_trust_test
  "if (link != PikaLink::kUp || !settled) return Verdict::kCopying;"
  "")
sf_cut_mutant(pika_older_look_believed pika_trust.cc pika_trust_test
  "if (std::exchange(up_[unit], copy) != copy) return Verdict::kCopying;"
  "")
sf_cut_mutant(pika_owner_copied_over pika_recopy.cc pika_driver_test
  "if (epoch != 0) return false;"
  "if (epoch > 99) return false;")

# I9: the forecast
sf_cut_mutant(pika_no_forecast pika_prepare.cc pika_driver_test
  "  if (status) status = forecast(timeout_ms);\n"
  "")

# (e) both ends after the promote, which a restart must not undo
sf_cut_mutant(pika_ends_not_compared pika_driver.cc pika_driver_test
  "  status = still_at(*from, now_.end, \"old\");\n  if (status) status = still_at(*to, now_.end, \"new\");\n  if (!status) return status;\n  return Ends{"
  "  return Ends{")
sf_cut_mutant(pika_promote_not_persisted pika_classic_driver.cc pika_driver_test
  "  // Without it a restart makes the new owner a slave of the old one again.\n  if (status) status = client.ask_ok({\"CONFIG\", \"REWRITE\"}, timeout_ms);\n"
  "")

# I3: taking back; the way back
sf_cut_mutant(pika_fork_followed pika_driver.cc pika_driver_test
  "if (to->ends != *end) {"
  "if (to->ends < *end) {")
sf_cut_mutant(pika_reverse_link_over_a_fork pika_sharding_driver.cc pika_driver_test
  "if (position(*old_now) != from) {"
  "if (position(*old_now).seq < from.seq) {")

# I2b
sf_cut_mutant(pika_faults_ignored pika_prepare.cc pika_driver_test
  "return why.empty() ? Status::ok() : Status::refused(why);"
  "return Status::ok();")
