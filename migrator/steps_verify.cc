#include <set>

#include "migrator/pika_slots.h"
#include "migrator/server_facts.h"
#include "migrator/steps.h"
#include "migrator/verifier.h"

namespace sf {
namespace {

constexpr int kLinkPolls = 100;
constexpr int kLinkPollMs = 300;
constexpr size_t kShown = 20;

// Slots whose writes the new side takes; the others are the old side's.
Result<SlotSet> switched_slots(MoveContext& context) {
  if (context.journal.is_done(step_text(Step::kRemoveShim))) return context.plan.slots;
  const auto rows = context.shim.slots(context.plan.slots);
  if (!rows) return rows.status();
  SlotSet switched;
  for (const auto& [slot, row] : *rows) {
    if (row.state == "new" || row.state == "final") switched.add(slot);
  }
  return switched;
}

// Why the follower's slots cannot be compared yet; "" if they can.
Result<std::string> node_link_fault(Peer& follower, const SlotSet& slots) {
  const auto positions = read_positions(follower, slots);
  if (!positions) return positions.status();
  std::string text;
  for (const auto& [slot, position] : *positions) {
    if (position.is_slave && position.link == "up") continue;
    text =
        cat("slot ", slot, " on ", follower.label(), " is ", position.is_slave ? "slave" : "master",
            ", link ", position.link, ", so it cannot be compared");
  }
  return text;
}

Result<std::string> pika_link_fault(Peer& follower, const SlotSet& slots, const HostPort& leader) {
  const auto rows = need_pika_slots(follower, slots);
  if (!rows) return rows.status();
  std::string text;
  for (const auto& [slot, row] : *rows) {
    if (follows(row, leader) && link_up(row)) continue;
    text = cat("slot ", slot, " on ", follower.label(), " is ",
               row.is_master ? std::string("master")
                             : cat("slave of ", row.master.text(), ", ", row.state),
               ", so it cannot be compared; it must follow ", leader.text(),
               " (PKCLUSTER SLOTSSLAVEOF, without force)");
  }
  return text;
}

// The follower must be attached, or what differs is only what it has not received.
Status wait_link(MoveContext& context, const SlotSet& slots, bool new_leads) {
  Peer& follower = new_leads ? *context.old_master : *context.new_master;
  const HostPort& leader = (new_leads ? context.plan.new_side : context.plan.old_side).master;
  std::string text;
  for (int poll = 0; poll < kLinkPolls; ++poll) {
    const auto fault = context.is_node() ? node_link_fault(follower, slots)
                                         : pika_link_fault(follower, slots, leader);
    if (!fault) return fault.status();
    text = *fault;
    if (text.empty()) return Status::ok();
    const Status waited = context.wait_ms(kLinkPollMs);
    if (!waited) return waited;
  }
  return Status::unavailable(text);
}

Result<std::set<int>> databases(MoveContext& context) {
  auto all = databases_of(*context.old_master, context.plan.old_side.kind);
  if (!all) return all.status();
  auto others = databases_of(*context.new_master, context.plan.new_side.kind);
  if (!others) return others.status();
  all->merge(*others);
  if (all->empty()) all->insert(0);
  return all;
}

Result<VerifyResult> verify_database(MoveContext& context, const SlotSet& slots, bool new_leads,
                                     int database) {
  std::vector<Argv> greetings;
  if (database != 0) greetings.push_back({"SELECT", std::to_string(database)});
  std::vector<Argv> old_greetings = greetings;
  // A fenced old side answers only those who say that they come to compare.
  if (context.is_node()) old_greetings.push_back({"PKCLUSTER", "VERIFYREAD", "ON"});
  const auto old_peer = open_peer(context.plan, true, context.plan.old_side.master, old_greetings);
  const auto new_peer = open_peer(context.plan, false, context.plan.new_side.master, greetings);
  VerifyOptions options;
  options.slots = slots;
  options.by_slot = context.by_slot();
  int64_t total = slots.size();
  if (!options.by_slot) {
    const auto size = context.old_master->expect({"DBSIZE"});
    if (!size) return size.status();
    total = size->integer;
  }
  const std::string unit = options.by_slot ? "slots" : "keys scanned";
  Verifier verifier(
      new_leads ? *new_peer : *old_peer, new_leads ? *old_peer : *new_peer, options, context.clock,
      context.stop, [&](int64_t done) {
        context.out.progress({"compared", done, std::max(total, done), unit, cat("db", database)});
      });
  return verifier.run();
}

Result<VerifyResult> verify_slots(MoveContext& context, const SlotSet& slots, bool new_leads) {
  VerifyResult sum;
  if (slots.empty()) return sum;
  if (context.by_slot()) {
    const Status linked = wait_link(context, slots, new_leads);
    if (!linked) return linked;
  }
  const auto all = databases(context);
  if (!all) return all.status();
  for (const int database : *all) {
    const auto one = verify_database(context, slots, new_leads, database);
    if (!one) return one.status();
    sum.add(*one);
  }
  return sum;
}

void show_differences(MoveContext& context, const VerifyResult& result) {
  for (size_t i = 0; i < std::min(kShown, result.differences.size()); ++i) {
    const Difference& row = result.differences[i];
    context.out.warning(
        cat("slot ", row.slot, " key ", printable(row.key), ": ", row.kind, " (", row.text, ")"));
  }
}

}  // namespace

Result<std::string> verify_sides(MoveContext& context) {
  const auto switched = switched_slots(context);
  if (!switched) return switched.status();
  SlotSet on_old = context.plan.slots;
  on_old.remove(*switched);
  // Redis and classic Pika have no link back: once switched, what the old side lacks may simply be
  // new.
  if (!context.by_slot() && !switched->empty()) {
    return Status::refused(
        "the slots are switched already and these servers keep no link back, so there is nothing "
        "to compare with");
  }
  auto result = verify_slots(context, on_old, false);
  if (!result) return result.status();
  const auto second = verify_slots(context, *switched, true);
  if (!second) return second.status();
  result->add(*second);
  const std::string text =
      cat(result->keys, " keys, ", result->bytes, " bytes, ", result->rechecked,
          " looked at again, ", result->differing, " differ");
  Status kept = context.journal.set_fact("verify", result->ok() ? "passed" : "failed");
  if (kept) kept = context.journal.set_fact("verify-keys", std::to_string(result->keys));
  if (kept) kept = context.journal.set_fact("verify-bytes", std::to_string(result->bytes));
  if (kept) kept = context.journal.set_fact("verify-differing", std::to_string(result->differing));
  if (!kept) return kept;
  show_differences(context, *result);
  if (result->ok()) return text;
  const Difference& first = result->differences.front();
  return Status::refused(cat(text, "; the first is key ", printable(first.key), " in slot ",
                             first.slot, ": ", first.kind,
                             "; nothing is handed back or deleted, find out why before going on"));
}

}  // namespace sf
