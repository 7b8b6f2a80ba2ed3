# One source with one line changed each (tests/plant.cmake), and the simulation must find it within 2,000 seeds.
function(sf_mutant name source old new)
  sf_plant(${name} ${source} "${old}" "${new}" made)
  sf_sim_program(sim_mutant_${name} ${made})
  set_target_properties(sim_mutant_${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin/mutants)
  add_test(NAME sim_mutant_${name} COMMAND sim_mutant_${name} --find 2000)
  set_tests_properties(sim_mutant_${name} PROPERTIES TIMEOUT 300)
endfunction()

# ---- in the product

# Every eighth batch is sent empty.
sf_mutant(skipped_batch replication/feed_session.cc
  "  if (sync_.full || !record.ops.empty()) wire::encode_record"
  "  if (record.seq % 8 == 0) record.ops.clear();\n  if (sync_.full || !record.ops.empty()) wire::encode_record")

# The position is there before the shell has stored the data.
sf_mutant(position_before_data replication/follow_session.cc
  "  losing_ = apply.lost;\n"
  "  losing_ = apply.lost;\n  positions_.advance(apply.to);\n")

# A history nobody here knows is taken for our own.
sf_mutant(unknown_history replication/history.cc
  "  if (at < 0) return false;\n  uint64_t limit = end;"
  "  if (at < 0) return position.seq <= end;\n  uint64_t limit = end;")

# What was written after a fork counts as common.
sf_mutant(fork_forgotten replication/history.cc
  "    limit = std::min(limit, entries_[i].fork);\n"
  "")

# A copy joins at the stream's position, not at its own.
sf_mutant(one_position replication/slot_positions.cc
  "  return it == own_.end() ? seq > stream_ : seq > it->second.seq;"
  "  return it == own_.end() || seq > stream_;")

# A flush reaches every slot of its range.
sf_mutant(unclipped_flush replication/key_filter.cc
  "  uint32_t n = prefix_number(op.key);\n"
  "  uint32_t n = prefix_number(op.key);\n  if (n != 0xffffffff) {\n    out->push_back(op);\n    return Status::ok();\n  }\n")

# A frame is applied wherever the replica stands (R13).
sf_mutant(frame_from_anywhere replication/follow_session.cc
  "  if (fits && from == positions_.cursor()) {"
  "  if (fits) {")

# The stream went back for a slot; what was under way before that is taken for its answer.
sf_mutant(frames_under_way_taken replication/follow_session.cc
  "  if (fits && from == positions_.cursor()) {"
  "  if (fits && (from == positions_.cursor() || discarding_)) {")

# A slot added to a session takes batches before the master has judged its position.
sf_mutant(unanswered_takes_batches replication/slot_positions.cc
  "  if (!placed_.contains(slot) || unanswered_.contains(slot)) return false;"
  "  if (!placed_.contains(slot)) return false;")

# The log is kept for what is applied; a power loss on the replica takes some of that away.
sf_mutant(kept_by_applied replication/feed_session.cc
  "base_ = std::min(message.synced, sent_);"
  "base_ = std::min(message.applied, sent_);")

# A `stream` asked again in a session counts as a word about the replica's disk. (Was so.)
sf_mutant(kept_by_asking replication/feed_session.cc
  "  base_ = std::min(base_, sent_);"
  "  base_ = sent_;")

# The log is not kept for a slot that is copied beside the stream, which may have to go back for it.
sf_mutant(copy_not_kept_for replication/feed_session.cc
  "hold != holds_.end()) hold->second = event.at.seq;"
  "hold != holds_.end()) holds_.erase(hold);")

# An ingested slot passes as a batch without content.
sf_mutant(reload_ignored replication/feed_session.cc
  "    if (entry.reload && entry.reload_slots.intersects(slots_)) {"
  "    if (entry.reload && entry.reload_slots.intersects(slots_) && sent_ == UINT64_MAX) {")

# A slot that joins at an entry it needs not fetch keeps its old record. (Was so.)
sf_mutant(join_not_recorded replication/follow_session.cc
  "  apply.joined = moves.joined;"
  "  if (!apply.records.empty()) apply.joined = moves.joined;")

# ---- in the model of the node, where the product's shell has the rule

# Two batches: the position's, then the data's.
sf_mutant(shell_position_first tests/sim/replication/node_link.cc
  "    append(false, slots, std::move(ops), sys, std::nullopt);"
  "    disk_.write(sys, false);\n    append(false, slots, std::move(ops), nullptr, std::nullopt);")

# A slot of a full replica that is ahead of its log is handed on as if it were not. (Was so.)
sf_mutant(shell_ahead_not_said tests/sim/replication/node_feed.cc
  "  if (image().full && image().full->mirror && ahead) job.seq"
  "  if (image().full && image().full->mirror && ahead && job.seq == 0) job.seq")

# A full replica that copies anew goes on feeding under its old master's numbers. (Was so.)
sf_mutant(shell_feeds_while_copied tests/sim/replication/node_link.cc
  "  if (unmirror) ++generation_;\n"
  "")

# A state with slots ahead of the log is called by the log's own name. (Was so.)
sf_mutant(shell_promoted_ahead tests/sim/replication/node_verbs.cc
  "  const bool apart = !image().full->mirror || image().last() < image().floor;"
  "  const bool apart = false;")

# The stream begins while a slot is stored whose news has not come yet: its record is wiped, and after
# a crash it is at the stream's position without the batches before. (Was so.)
sf_mutant(shell_untold_slot_wiped tests/sim/replication/node_link.cc
  "    if (!source.positions.position(s)) continue;  // stored, but not yet told\n"
  "")

# What a slot behind the stream caught up with is called synced without being written. (Was so.)
sf_mutant(shell_catching_up_not_saved tests/sim/replication/node_link.cc
  "  const bool saved_later = apply.joined.empty() && apply.moved.empty() && apply.lost.empty();"
  "  const bool saved_later = apply.joined.empty() && apply.lost.empty();")

# A full replica that dies while it puts a large slot in place still claims a position for it. (Was so.)
sf_mutant(shell_torn_not_marked tests/sim/replication/node.cc
  "    mark_torn(slot);\n"
  "")
