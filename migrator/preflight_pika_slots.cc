// Sharding mode: what must be true of every single slot on both masters before a run begins.
#include "migrator/move_context.h"
#include "migrator/pika_slots.h"
#include "migrator/preflight_checks.h"
#include "migrator/server_facts.h"

namespace sf {
namespace {

using Rows = std::map<int, PikaSlot>;

// Codis has 1024 slots; another number hashes every key elsewhere.
bool check_slot_number(Peer& peer, Findings& findings) {
  const auto number = read_config(peer, "default-slot-num");
  const std::string text = number ? number->value_or("") : "";
  if (text == std::to_string(kSlotCount)) return true;
  findings.stop("slot-number",
                cat("default-slot-num of ", peer.label(), " is '", text, "', Codis has ",
                    kSlotCount, " slots"),
                cat("a server with default-slot-num ", kSlotCount, " in its pika.conf"));
  return false;
}

void check_old_slots(Peer& peer, const MovePlan& plan, Findings& findings) {
  const auto rows = need_pika_slots(peer, plan.slots);
  if (!rows) return findings.stop("old-slots", rows.status());
  for (const auto& [slot, row] : *rows) {
    if (row.is_master) continue;
    return findings.stop(
        "old-slots", cat("slot ", slot, " of ", peer.label(), " follows ", row.master.text()),
        cat("PKCLUSTER SLOTSSLAVEOF NO ONE ", slot, " there, if that server is the slot's master"));
  }
  findings.ok("old-slots", cat("all ", plan.slots.size(), " are masters on ", peer.label()));
}

// Slots the new master has as masters of their own; stops at one that follows somebody else or is
// followed: after a taken-back attempt it would have to follow again.
std::optional<SlotSet> open_slots(Peer& peer, const MovePlan& plan, const Rows& rows,
                                  SlotSet* following, Findings& findings) {
  SlotSet open;
  for (const auto& [slot, row] : rows) {
    if (!row.is_master && !follows(row, plan.old_side.master)) {
      findings.stop("new-slots",
                    cat("slot ", slot, " of ", peer.label(), " follows ", row.master.text()),
                    cat("PKCLUSTER SLOTSSLAVEOF NO ONE ", slot, " there, and empty it"));
      return std::nullopt;
    }
    if (!row.replicas.empty()) {
      findings.stop("new-slots",
                    cat("slot ", slot, " of ", peer.label(), " is followed by ",
                        row.replicas[0].address.text()),
                    cat("PKCLUSTER SLOTSSLAVEOF NO ONE and DELSLOTS ", slot,
                        " on that server; the run attaches it after the switch"));
      return std::nullopt;
    }
    (row.is_master ? open : *following).add(slot);
  }
  return open;
}

void check_new_slots(Peer& peer, const MovePlan& plan, Findings& findings) {
  const auto rows = read_pika_slots(peer, plan.slots);
  if (!rows) return findings.stop("new-slots", rows.status());
  SlotSet following;
  const auto open = open_slots(peer, plan, *rows, &following, findings);
  if (!open) return;
  const auto full = pika_slots_with_keys(peer, *open);
  if (!full) return findings.stop("new-slots", full.status());
  if (!full->empty()) {
    return findings.stop("new-slots",
                         cat("slots ", full->text(), " of ", peer.label(), " hold keys"),
                         cat("PKCLUSTER DELSLOTS ", full->text(),
                             " there if nobody needs them, they would be lost"));
  }
  const auto held = static_cast<int>(rows->size());
  const std::string seen = cat(following.size(), " follow the old master, ", open->size(),
                               " are empty, ", plan.slots.size() - held, " are not there yet");
  if (!following.empty()) {
    return findings.warn("new-slots", seen,
                         "if one of the masters was killed since that copy, it has lost writes and "
                         "does not say so: SLOTSSLAVEOF NO ONE and DELSLOTS them, the run copies "
                         "anew");
  }
  findings.ok("new-slots", held == plan.slots.size() ? seen : cat(seen, ", the run adds them"));
}

}  // namespace

void check_pika_slots(const MovePlan& plan, Findings& findings) {
  const auto old_master = open_peer(plan, true, plan.old_side.master);
  const auto new_master = open_peer(plan, false, plan.new_side.master);
  if (!check_slot_number(*old_master, findings) || !check_slot_number(*new_master, findings)) {
    return;
  }
  check_old_slots(*old_master, plan, findings);
  check_new_slots(*new_master, plan, findings);
}

}  // namespace sf
